//! Path parsing. Keywords are matched without regard to case; segments are percent-decoded once.

use http::Method;
use kalends_console::{Asset, Screen, asset};
use kalends_domain::{
    CollectionName, CollectionPath, GroupName, GroupPath, JobName, JobPath, NameError,
    SubscriptionId,
};
use kalends_wire::{ErrorCode, ErrorDetails, quoted};
use percent_encoding::percent_decode_str;

/// The resource or action that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A page of the web console.
    Console(Screen),
    /// A style sheet or script of the web console.
    Asset(&'static Asset),
    Live,
    Ready,
    Metrics,
    /// The session of the caller in the web console.
    Session,
    Events,
    OpenApi,
    Me,
    Node,
    Pause,
    Resume,
    RunCounts,
    Runs,
    Operations,
    MetadataEndpoints,
    Subscriptions,
    Subscription(SubscriptionId),
    Provider {
        subscription: SubscriptionId,
    },
    Register {
        subscription: SubscriptionId,
    },
    Groups {
        subscription: SubscriptionId,
    },
    Group(GroupPath),
    CollectionsOfSubscription(SubscriptionId),
    CollectionsOfGroup(GroupPath),
    Collection(CollectionPath),
    SwitchCollection {
        collection: CollectionPath,
        on: bool,
    },
    AllJobs,
    Overview,
    Attention,
    ExpectedRuns,
    Jobs(CollectionPath),
    Bulk(CollectionPath),
    BulkPreview(CollectionPath),
    Job(JobPath),
    Run(JobPath),
    Skip(JobPath),
    History(JobPath),
    Preview(JobPath),
    TestRun(JobPath),
    Occurrences(JobPath),
    Explain(JobPath),
    Statistics(JobPath),
    NotesOfJob(JobPath),
    Notes,
}

impl Route {
    /// Whether a read is cheap: one row of the store, or data in memory.
    pub(crate) fn is_fast_read(&self) -> bool {
        matches!(self, Route::Asset(_) | Route::Live | Route::OpenApi | Route::Me | Route::Job(_))
    }

    /// Allowed methods, as in the header `Allow`.
    pub(crate) fn methods(&self) -> &'static str {
        match self {
            Route::Console(_)
            | Route::Asset(_)
            | Route::Live
            | Route::Ready
            | Route::Metrics
            | Route::Events
            | Route::OpenApi
            | Route::Me
            | Route::Node
            | Route::Runs
            | Route::RunCounts
            | Route::Operations
            | Route::MetadataEndpoints
            | Route::Subscriptions
            | Route::Subscription(_)
            | Route::Provider { .. }
            | Route::Groups { .. }
            | Route::CollectionsOfSubscription(_)
            | Route::CollectionsOfGroup(_)
            | Route::AllJobs
            | Route::Overview
            | Route::Attention
            | Route::ExpectedRuns
            | Route::Jobs(_)
            | Route::History(_)
            | Route::Occurrences(_)
            | Route::Explain(_)
            | Route::Statistics(_)
            | Route::NotesOfJob(_)
            | Route::Notes => "GET, HEAD",
            Route::Session => "POST, DELETE",
            Route::Pause => "GET, HEAD, POST",
            Route::Skip(_) => "POST, DELETE",
            Route::Group(_) => "GET, HEAD, PUT, DELETE",
            Route::Collection(_) | Route::Job(_) => "GET, HEAD, PUT, PATCH, DELETE",
            Route::Resume
            | Route::Register { .. }
            | Route::SwitchCollection { .. }
            | Route::Bulk(_)
            | Route::BulkPreview(_)
            | Route::Run(_)
            | Route::Preview(_)
            | Route::TestRun(_) => "POST",
        }
    }

    /// Whether the handler of a request reads its body.
    pub(crate) fn reads_body(&self, method: &Method) -> bool {
        *method == Method::PUT
            || *method == Method::PATCH
            || matches!(
                self,
                Route::Bulk(_) | Route::BulkPreview(_) | Route::Preview(_) | Route::TestRun(_)
            )
            || *self == Route::Pause && *method == Method::POST
    }

    pub(crate) fn allows(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method.as_str())
    }
}

/// The form of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathForm {
    /// With subscription and resource group.
    Arm,
    /// Below `/api`, in the default subscription and resource group.
    Short,
}

impl PathForm {
    pub(crate) fn of(path: &str) -> PathForm {
        let first = path.strip_prefix('/').and_then(|path| path.split('/').next());
        match first {
            Some(first) if first.eq_ignore_ascii_case("api") => PathForm::Short,
            _ => PathForm::Arm,
        }
    }
}

/// Parses a path. `Ok(None)` if no route has its form. Short paths are those of `default_group`.
pub(crate) fn route(
    method: &Method,
    path: &str,
    default_group: &GroupPath,
) -> Result<Option<Route>, ErrorDetails> {
    let mut segments = Vec::new();
    for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
        let decoded = percent_decode_str(segment).decode_utf8();
        let message = "The path must be percent-encoded UTF-8";
        segments
            .push(decoded.map_err(|_| ErrorDetails::one(ErrorCode::InvalidRequest, "", message))?);
    }
    let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
    Segments(&segments).route(method, default_group)
}

struct Segments<'a>(&'a [&'a str]);

impl<'a> Segments<'a> {
    /// Consumes the next segments if they are these keywords.
    fn keywords(&mut self, words: &[&str]) -> bool {
        let found = self.0.len() >= words.len()
            && words.iter().zip(self.0).all(|(word, segment)| word.eq_ignore_ascii_case(segment));
        if found {
            self.0 = self.0.get(words.len()..).unwrap_or_default();
        }
        found
    }

    fn name(&mut self) -> Option<&'a str> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn is_end(&self) -> bool {
        self.0.is_empty()
    }

    fn route(
        mut self,
        method: &Method,
        default_group: &GroupPath,
    ) -> Result<Option<Route>, ErrorDetails> {
        match self.0 {
            ["livez"] => return Ok(Some(Route::Live)),
            ["readyz"] => return Ok(Some(Route::Ready)),
            ["metrics"] => return Ok(Some(Route::Metrics)),
            ["events"] => return Ok(Some(Route::Events)),
            ["openapi.json"] => return Ok(Some(Route::OpenApi)),
            _ => {}
        }
        if let Some(asset) = asset(self.0) {
            return Ok(Some(Route::Asset(asset)));
        }
        if let Some(screen) = Screen::of(self.0) {
            return Ok(Some(Route::Console(screen)));
        }
        let words = [
            ("me", Route::Me),
            ("node", Route::Node),
            ("jobs", Route::AllJobs),
            ("overview", Route::Overview),
            ("attention", Route::Attention),
            ("expected-runs", Route::ExpectedRuns),
            ("session", Route::Session),
            ("pause", Route::Pause),
            ("resume", Route::Resume),
            ("runs", Route::Runs),
            ("run-counts", Route::RunCounts),
        ];
        for (word, route) in words {
            if self.keywords(&["api", word]) {
                return Ok(self.is_end().then_some(route));
            }
        }
        if self.keywords(&["api", "collections"]) {
            return self.in_group(default_group.clone(), method);
        }
        if self.keywords(&["api", "notes"]) {
            return Ok(self.is_end().then_some(Route::Notes));
        }
        if self.keywords(&["providers", "Microsoft.Scheduler", "operations"]) {
            return Ok(self.is_end().then_some(Route::Operations));
        }
        if self.keywords(&["metadata", "endpoints"]) {
            return Ok(self.is_end().then_some(Route::MetadataEndpoints));
        }
        if !self.keywords(&["subscriptions"]) {
            return Ok(None);
        }
        let Some(name) = self.name().filter(|name| !name.is_empty()) else {
            return Ok(self.is_end().then_some(Route::Subscriptions));
        };
        let subscription = SubscriptionId::new(name).map_err(|error| invalid_name(error, name))?;
        if self.is_end() {
            return Ok(Some(Route::Subscription(subscription)));
        }
        if self.keywords(&["providers", "Microsoft.Scheduler"]) {
            if self.is_end() {
                return Ok(Some(Route::Provider { subscription }));
            }
            if self.keywords(&["register"]) {
                return Ok(self.is_end().then_some(Route::Register { subscription }));
            }
            let all = self.keywords(&["jobCollections"]) && self.is_end();
            return Ok(all.then_some(Route::CollectionsOfSubscription(subscription)));
        }
        if !self.keywords(&["resourceGroups"]) {
            return Ok(None);
        }
        let Some(name) = self.name().filter(|name| !name.is_empty()) else {
            return Ok(self.is_end().then_some(Route::Groups { subscription }));
        };
        let group = GroupName::new(name).map_err(|error| invalid_name(error, name))?;
        let group = GroupPath { subscription, group };
        if self.is_end() {
            return Ok(Some(Route::Group(group)));
        }
        if !self.keywords(&["providers", "Microsoft.Scheduler", "jobCollections"]) {
            return Ok(None);
        }
        self.in_group(group, method)
    }

    fn in_group(
        mut self,
        group: GroupPath,
        method: &Method,
    ) -> Result<Option<Route>, ErrorDetails> {
        let Some(name) = self.name() else { return Ok(Some(Route::CollectionsOfGroup(group))) };
        let collection = CollectionName::new(name).map_err(|error| invalid_name(error, name))?;
        let collection = CollectionPath { group, collection };
        if self.is_end() {
            return Ok(Some(Route::Collection(collection)));
        }
        for (word, on) in [("enable", true), ("disable", false)] {
            if self.keywords(&[word]) {
                let route = Route::SwitchCollection { collection, on };
                return Ok(self.is_end().then_some(route));
            }
        }
        if !self.keywords(&["jobs"]) {
            return Ok(None);
        }
        let Some(name) = self.name() else { return Ok(Some(Route::Jobs(collection))) };
        if name.is_empty() && self.is_end() {
            return Ok(None);
        }
        // A job may be named "bulk" or "preview"; jobs themselves have no POST.
        if self.is_end() && method == Method::POST {
            if name.eq_ignore_ascii_case("bulk") {
                return Ok(Some(Route::Bulk(collection)));
            }
            if name.eq_ignore_ascii_case("preview") {
                return Ok(Some(Route::BulkPreview(collection)));
            }
        }
        let job = JobName::new(name).map_err(|error| invalid_name(error, name))?;
        let job = JobPath { collection, job };
        Ok(match self.0 {
            [] => Some(Route::Job(job)),
            [action] if action.eq_ignore_ascii_case("run") => Some(Route::Run(job)),
            [action] if action.eq_ignore_ascii_case("skip") => Some(Route::Skip(job)),
            [action] if action.eq_ignore_ascii_case("history") => Some(Route::History(job)),
            [action] if action.eq_ignore_ascii_case("preview") => Some(Route::Preview(job)),
            [action] if action.eq_ignore_ascii_case("test-run") => Some(Route::TestRun(job)),
            [action] if action.eq_ignore_ascii_case("occurrences") => Some(Route::Occurrences(job)),
            [action] if action.eq_ignore_ascii_case("explain") => Some(Route::Explain(job)),
            [action] if action.eq_ignore_ascii_case("statistics") => Some(Route::Statistics(job)),
            [action] if action.eq_ignore_ascii_case("notes") => Some(Route::NotesOfJob(job)),
            _ => None,
        })
    }
}

fn invalid_name(error: NameError, name: &str) -> ErrorDetails {
    let kind = match error {
        NameError::Resource => "The name of a collection or job",
        NameError::Group => "The name of a resource group",
        NameError::Subscription => "The subscription id",
    };
    ErrorDetails::one(error.into(), "", format!("{kind} {error} (found {})", quoted(name)))
}

#[cfg(test)]
mod tests {
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
        let upper = JC
            .replace("subscriptions", "SUBSCRIPTIONS")
            .replace("resourceGroups", "resourcegroups");
        let upper = upper
            .replace("Microsoft.Scheduler/jobCollections", "microsoft.scheduler/jobcollections");
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
            &format!("{JC}/x"),
        ] {
            assert_eq!(route(path), Ok(None), "{path}");
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        for name in
            ["..%2f..%2fother", "%2e%2e", "a%00b", "a%0ab", "%E2%80%AEevil", "-", "1a", "%252e"]
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
            Route::Console(_) | Route::Asset(_) => 0,
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
        }
    }

    /// The paths of the document with their methods, found by its indentation of one space a level.
    fn documented() -> Vec<(&'static str, Vec<String>)> {
        let mut paths: Vec<(&str, Vec<String>)> = Vec::new();
        for line in include_str!("../openapi.json").lines() {
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
        let mut seen = [false; 44];
        for (template, methods) in documented() {
            let path = template
                .replace("{subscriptionId}", "6c55a6f0-6593-472f-9b3e-a51a9a757b40")
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
        assert_eq!(seen, [true; 44]);
    }
}
