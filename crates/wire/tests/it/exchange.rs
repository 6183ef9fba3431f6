//! A recorded request and its response.

use kalends_domain::{
    CertificateFacts, CollectionName, CollectionPath, CollectionState, GroupName, GroupPath,
    HttpAuthentication, JobDefinition, JobName, JobPath, JobStatus, Lifecycle, SubscriptionId,
    Target,
};
use kalends_wire::{JobRuntimeState, Json, Number, Version};

use crate::recording_files::{at, text_at};

/// The resource that a request addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    Collection(CollectionPath),
    Job(JobPath),
    /// A list, identified by the last segment of its path.
    List(String),
    Other,
}

/// A recorded request and its response.
pub(crate) struct Exchange {
    pub(crate) recording: String,
    pub(crate) recorded_at: String,
    pub(crate) method: String,
    pub(crate) version: Option<Version>,
    pub(crate) resource: Resource,
    pub(crate) status: i64,
    pub(crate) request: Option<Json<'static>>,
    pub(crate) response: Option<Json<'static>>,
}

impl Exchange {
    pub(crate) fn new(line: &Json<'static>) -> Exchange {
        let text = |name| text_at(line, name).unwrap_or_default().to_owned();
        let body = |name| at(line, name).filter(|body| matches!(body, Json::Object(_))).cloned();
        let uri = text("uri");
        let (path, query) = uri.split_once('?').unwrap_or((&uri, ""));
        let api_version = query.split('&').find_map(|pair| pair.strip_prefix("api-version="));
        let Some(Json::Number(Number::Integer(status))) = at(line, "status") else {
            panic!("a status: {uri}")
        };
        Exchange {
            recording: format!("{} {}", text("source"), text("blob")),
            recorded_at: text("recorded_at"),
            method: text("method"),
            version: Version::from_query(api_version).ok(),
            resource: resource(path),
            status: *status,
            request: body("request_body"),
            response: body("response_body"),
        }
    }

    /// Identifies the exchange in assertion messages.
    pub(crate) fn label(&self) -> String {
        format!("{} {} {} {:?}", self.recording, self.recorded_at, self.method, self.resource)
    }
}

fn resource(path: &str) -> Resource {
    let marker = "/providers/Microsoft.Scheduler/jobCollections";
    let lower = path.to_ascii_lowercase();
    let Some(start) = lower.find(&marker.to_ascii_lowercase()) else { return Resource::Other };
    let (before, after) = (&path[..start], &path[start + marker.len()..]);
    let scope: Vec<_> = before.rsplit('/').take(3).collect();
    let rest: Vec<_> = after.split('/').skip(1).collect();
    let collection = |name: &str| CollectionPath {
        group: GroupPath {
            subscription: SubscriptionId::new(scope[2]).expect(path),
            group: GroupName::new(scope[0]).expect(path),
        },
        collection: CollectionName::new(name).expect(path),
    };
    match rest[..] {
        [] => Resource::List("jobCollections".to_owned()),
        [name] => Resource::Collection(collection(name)),
        [name, "jobs", job] => Resource::Job(JobPath {
            collection: collection(name),
            job: JobName::new(job).expect(path),
        }),
        [_, "jobs"] => Resource::List("jobs".to_owned()),
        [_, "jobs", _, "history"] => Resource::List("history".to_owned()),
        _ => Resource::Other,
    }
}

/// Returns the resource that a response names in its `id`.
pub(crate) fn resource_of(response: &Json<'static>) -> Resource {
    resource(text_at(response, "id").expect("an id"))
}

/// Extracts the runtime state of a job from a response.
pub(crate) fn runtime_state(response: &Json<'static>) -> JobRuntimeState {
    let instant = |name: &str| {
        let text = text_at(response, &format!("properties.status.{name}"));
        text.map(|text| text.parse().unwrap())
    };
    let number = |name: &str| match at(response, &format!("properties.status.{name}")) {
        Some(Json::Number(Number::Integer(number))) => u64::try_from(*number).unwrap(),
        _ => 0,
    };
    let lifecycle = match text_at(response, "properties.state") {
        Some("completed") => Lifecycle::Completed,
        Some("faulted") => Lifecycle::Faulted,
        _ => Lifecycle::Active,
    };
    let status = JobStatus {
        last_execution: instant("lastExecutionTime"),
        next_execution: instant("nextExecutionTime"),
        executions: number("executionCount"),
        failures: number("failureCount"),
        faulted: number("faultedCount"),
        skip_until: None,
    };
    JobRuntimeState { lifecycle, status, collection: CollectionState::Enabled, is_paused: false }
}

/// Copies the certificate data of a response into a definition. The certificate files are not in
/// the recordings.
pub(crate) fn copy_certificate(job: &mut JobDefinition, response: &Json<'static>) {
    let within = "properties.action.request.authentication";
    let fact = |name: &str| text_at(response, &format!("{within}.{name}")).map(str::to_owned);
    let Target::Http(request) = &mut job.action.action.target else { return };
    let Some(HttpAuthentication::ClientCertificate { certificate, .. }) =
        request.authentication.as_deref_mut()
    else {
        return;
    };
    if let Some(thumbprint) = fact("certificateThumbprint") {
        *certificate = Some(CertificateFacts {
            thumbprint,
            expiration: fact("certificateExpiration").unwrap().parse().unwrap(),
            subject_name: fact("certificateSubjectName").unwrap(),
        });
    }
}
