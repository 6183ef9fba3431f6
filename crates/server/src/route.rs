//! Path parsing. Keywords are matched without regard to case; segments are percent-decoded once.

mod query_parameters;

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
    /// Sign-in to the web console at the identity provider.
    SignIn(SignInStep),
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
    Definition {
        job: JobPath,
        generation: u64,
    },
    NotesOfJob(JobPath),
    Notes,
}

/// A step of a sign-in at the identity provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignInStep {
    /// Leads to the provider.
    Begin,
    /// The provider leads back.
    Finish,
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
            | Route::SignIn(_)
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
            | Route::Definition { .. }
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
    let segments = path.strip_prefix('/').unwrap_or(path).split('/');
    if !path.contains('%') {
        let mut plain = Vec::with_capacity(SEGMENTS_TYPICAL);
        plain.extend(segments);
        return Segments(&plain).route(method, default_group);
    }
    let decoded: Result<Vec<_>, _> =
        segments.map(|segment| percent_decode_str(segment).decode_utf8()).collect();
    let message = "The path must be percent-encoded UTF-8";
    let decoded = decoded.map_err(|_| ErrorDetails::one(ErrorCode::InvalidRequest, "", message))?;
    let decoded: Vec<&str> = decoded.iter().map(|segment| &**segment).collect();
    Segments(&decoded).route(method, default_group)
}

/// Segments of the path of a job.
const SEGMENTS_TYPICAL: usize = 10;

/// Routes below `/api` that have no name in their path.
const API_ROUTES: [(&str, Route); 12] = [
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
    ("notes", Route::Notes),
];

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
            ["sign-in", "oidc"] => return Ok(Some(Route::SignIn(SignInStep::Begin))),
            ["sign-in", "callback"] => return Ok(Some(Route::SignIn(SignInStep::Finish))),
            _ => {}
        }
        if let Some(asset) = asset(self.0) {
            return Ok(Some(Route::Asset(asset)));
        }
        if let Some(screen) = Screen::of(self.0) {
            return Ok(Some(Route::Console(screen)));
        }
        if self.keywords(&["api", "collections"]) {
            return self.in_group(default_group.clone(), method);
        }
        if self.keywords(&["api"]) {
            let [word] = self.0 else { return Ok(None) };
            let found = API_ROUTES.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
            return Ok(found.map(|(_, route)| route));
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
            [kind, number] if kind.eq_ignore_ascii_case("definitions") => {
                let generation = number.parse().ok();
                generation.map(|generation| Route::Definition { job, generation })
            }
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
mod tests;
