use super::*;

fn route(path: &str) -> Result<Option<Route>, ErrorDetails> {
    route_of(&Method::GET, path)
}

fn route_of(method: &Method, path: &str) -> Result<Option<Route>, ErrorDetails> {
    super::route(method, path, &GroupPath::default())
}

#[test]
fn short_paths_are_those_of_the_default_group() {
    let group = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/default";
    let collections = format!("{group}/providers/Microsoft.Scheduler/jobCollections");
    for rest in ["", "/c", "/c/jobs", "/c/jobs/j", "/c/jobs/j/history", "/c/disable"] {
        let short = route(&format!("/api/collections{rest}"));
        assert_eq!(short, route(&format!("{collections}{rest}")), "{rest}");
        assert!(matches!(short, Ok(Some(_))), "{rest}");
    }
    assert_eq!(route("/api"), Ok(None));
    assert_eq!(route("/api/jobs/j"), Ok(None));
    assert!(route("/api/collections/1x").is_err());
}

const JC: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/Rg/providers/Microsoft.Scheduler/jobCollections/Jc";

#[test]
fn keywords_ignore_case_and_names_keep_theirs() {
    let lower = route(&format!("{JC}/jobs/J1")).unwrap();
    let upper =
        JC.replace("subscriptions", "SUBSCRIPTIONS").replace("resourceGroups", "resourcegroups");
    let upper =
        upper.replace("Microsoft.Scheduler/jobCollections", "microsoft.scheduler/jobcollections");
    assert_eq!(route(&format!("{upper}/JOBS/J1")).unwrap(), lower);
    let Some(Route::Job(path)) = lower else { panic!("no job") };
    assert_eq!((path.job.as_str(), path.collection.collection.as_str()), ("J1", "Jc"));
}

#[test]
fn every_route_is_parsed() {
    let is = |path: &str, expected: fn(&Route) -> bool| {
        assert!(route(path).unwrap().as_ref().is_some_and(expected), "{path}");
    };
    let subscription = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40";
    is("/", |r| *r == Route::Console(Screen::Overview));
    is(&format!("{subscription}/providers/Microsoft.Scheduler"), |r| {
        matches!(r, Route::Provider { .. })
    });
    is(&format!("{subscription}/providers/microsoft.scheduler/register"), |r| {
        matches!(r, Route::Register { .. })
    });
    is("/subscriptions", |r| *r == Route::Subscriptions);
    is("/subscriptions/", |r| *r == Route::Subscriptions);
    is(subscription, |r| matches!(r, Route::Subscription(_)));
    is("/metadata/endpoints", |r| *r == Route::MetadataEndpoints);
    is("/livez", |r| *r == Route::Live);
    is("/readyz", |r| *r == Route::Ready);
    is("/metrics", |r| *r == Route::Metrics);
    is("/openapi.json", |r| *r == Route::OpenApi);
    is("/api/Pause", |r| *r == Route::Pause);
    is("/api/resume", |r| *r == Route::Resume);
    is("/providers/Microsoft.Scheduler/operations", |r| *r == Route::Operations);
    is(&format!("{JC}/jobs/bulk"), |r| matches!(r, Route::Job(_)));
    let bulk = route_of(&Method::POST, &format!("{JC}/jobs/bulk")).unwrap();
    assert!(matches!(bulk, Some(Route::Bulk(_))), "{bulk:?}");
    is(&format!("{JC}/jobs/preview"), |r| matches!(r, Route::Job(_)));
    let preview = route_of(&Method::POST, &format!("{JC}/jobs/Preview")).unwrap();
    assert!(matches!(preview, Some(Route::BulkPreview(_))), "{preview:?}");
    is(&format!("{subscription}/resourcegroups"), |r| matches!(r, Route::Groups { .. }));
    is(&format!("{subscription}/resourcegroups/x"), |r| matches!(r, Route::Group(_)));
    is(&format!("{subscription}/providers/Microsoft.Scheduler/jobCollections"), |r| {
        matches!(r, Route::CollectionsOfSubscription(_))
    });
    is(JC, |r| matches!(r, Route::Collection(_)));
    is(&format!("{JC}/enable"), |r| matches!(r, Route::SwitchCollection { on: true, .. }));
    is(&format!("{JC}/disable"), |r| matches!(r, Route::SwitchCollection { on: false, .. }));
    is(&format!("{JC}/jobs"), |r| matches!(r, Route::Jobs(_)));
    is(&format!("{JC}/jobs/j/run"), |r| matches!(r, Route::Run(_)));
    is(&format!("{JC}/jobs/j/Skip"), |r| matches!(r, Route::Skip(_)));
    is(&format!("{JC}/jobs/j/history"), |r| matches!(r, Route::History(_)));
    is(&format!("{JC}/jobs/j/preview"), |r| matches!(r, Route::Preview(_)));
    is(&format!("{JC}/jobs/j/test-run"), |r| matches!(r, Route::TestRun(_)));
    is(&format!("{JC}/jobs/j/Occurrences"), |r| matches!(r, Route::Occurrences(_)));
    is(&format!("{JC}/jobs/j/explain"), |r| matches!(r, Route::Explain(_)));
    is(&format!("{JC}/jobs/j/statistics"), |r| matches!(r, Route::Statistics(_)));
    is(&format!("{JC}/jobs/j/Definitions/12"), |r| {
        matches!(r, Route::Definition { generation: 12, .. })
    });
    is(&format!("{JC}/jobs/j/notes"), |r| matches!(r, Route::NotesOfJob(_)));
    is("/api/Notes", |r| *r == Route::Notes);
    is("/events", |r| *r == Route::Events);
    is("/api/me", |r| *r == Route::Me);
    is("/API/Node", |r| *r == Route::Node);
    is("/api/runs", |r| *r == Route::Runs);
    is("/api/run-counts", |r| *r == Route::RunCounts);
    is("/api/jobs", |r| *r == Route::AllJobs);
    is("/api/session", |r| *r == Route::Session);
    is("/api/overview", |r| *r == Route::Overview);
    is("/api/attention", |r| *r == Route::Attention);
    is("/api/expected-runs", |r| *r == Route::ExpectedRuns);
    for path in [
        "/x",
        "/metadata",
        &format!("{JC}/jobs/"),
        &format!("{JC}/jobs/j/x"),
        &format!("{JC}/jobs/j/definitions/x"),
        &format!("{JC}/x"),
    ] {
        assert_eq!(route(path), Ok(None), "{path}");
    }
}

#[test]
fn invalid_names_are_rejected() {
    for name in ["..%2f..%2fother", "%2e%2e", "a%00b", "a%0ab", "%E2%80%AEevil", "-", "1a", "%252e"]
    {
        let errors = route(&format!("{JC}/jobs/{name}")).unwrap_err();
        assert_eq!(errors.code(), ErrorCode::InvalidResourceName, "{name}");
    }
    let errors = route("/subscriptions/not-a-guid/resourceGroups").unwrap_err();
    assert_eq!(errors.code(), ErrorCode::InvalidSubscriptionId);
    assert_eq!(route(&format!("{JC}/jobs/%ff")).unwrap_err().code(), ErrorCode::InvalidRequest);
}

/// One index for each route. The match is exhaustive: a new route must be added here and to the
/// document.
fn index(route: &Route) -> usize {
    match route {
        Route::Console(_) | Route::Asset(_) | Route::SignIn(_) => 0,
        Route::Live => 1,
        Route::Ready => 2,
        Route::OpenApi => 3,
        Route::Operations => 4,
        Route::Provider { .. } => 5,
        Route::Register { .. } => 6,
        Route::Groups { .. } => 7,
        Route::Group(_) => 8,
        Route::CollectionsOfSubscription(_) => 9,
        Route::CollectionsOfGroup(_) => 10,
        Route::Collection(_) => 11,
        Route::SwitchCollection { on: true, .. } => 12,
        Route::SwitchCollection { on: false, .. } => 13,
        Route::Jobs(_) => 14,
        Route::Bulk(_) => 15,
        Route::Job(_) => 16,
        Route::Run(_) => 17,
        Route::History(_) => 18,
        Route::Preview(_) => 19,
        Route::Metrics => 20,
        Route::Occurrences(_) => 21,
        Route::Explain(_) => 22,
        Route::Events => 23,
        Route::BulkPreview(_) => 24,
        Route::MetadataEndpoints => 25,
        Route::Subscriptions => 26,
        Route::Subscription(_) => 27,
        Route::Me => 28,
        Route::Node => 29,
        Route::AllJobs => 30,
        Route::Session => 31,
        Route::Pause => 32,
        Route::Resume => 33,
        Route::Overview => 34,
        Route::Attention => 35,
        Route::ExpectedRuns => 36,
        Route::TestRun(_) => 37,
        Route::Skip(_) => 38,
        Route::Statistics(_) => 39,
        Route::Runs => 40,
        Route::RunCounts => 41,
        Route::NotesOfJob(_) => 42,
        Route::Notes => 43,
        Route::Definition { .. } => 44,
    }
}

/// The paths of the document with their methods, found by its indentation of one space a level.
fn documented() -> Vec<(&'static str, Vec<String>)> {
    let mut paths: Vec<(&str, Vec<String>)> = Vec::new();
    for line in include_str!("../../openapi.json").lines() {
        let key = line.trim_start().strip_prefix('"').and_then(|line| line.split_once('"'));
        match (line.len() - line.trim_start().len(), key) {
            (2, Some((path, _))) if path.starts_with('/') => paths.push((path, vec![])),
            (3, Some((method, ": {"))) => {
                let (_, methods) = paths.last_mut().unwrap();
                methods.push(method.to_uppercase());
            }
            (1, Some(("components", _))) => break,
            _ => {}
        }
    }
    paths
}

#[test]
fn the_openapi_document_lists_exactly_the_routes() {
    let mut seen = [false; 45];
    for (template, methods) in documented() {
        let path = template
            .replace("{subscriptionId}", "6c55a6f0-6593-472f-9b3e-a51a9a757b40")
            .replace("{generation}", "1")
            .replace(['{', '}'], "");
        let first = Method::from_bytes(methods[0].as_bytes()).unwrap();
        let route = route_of(&first, &path).unwrap().expect(template);
        seen[index(&route)] = true;
        // HEAD is documented only where it differs from GET.
        let is_own = |method: &&str| *method != "HEAD" || matches!(route, Route::Group(_));
        let mut allowed: Vec<_> = route.methods().split(", ").filter(is_own).collect();
        let mut methods: Vec<_> = methods.iter().map(String::as_str).collect();
        allowed.sort();
        methods.sort();
        assert_eq!(methods, allowed, "{template}");
    }
    assert_eq!(seen, [true; 45]);
}
