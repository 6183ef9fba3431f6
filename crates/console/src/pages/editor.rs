//! The editor of a new or an existing job. The page has the form; `assets/editor.js` fills it with the
//! definition, keeps form and JSON in step, and sends previews and the result to the API.

use std::sync::LazyLock;

use askama::Template;
use kalends_recurrence::{Instant, Zone};

use super::job::zone_of;
use super::{PageResult, rendered};
use crate::address::{CollectionAddress, JobAddress};
use crate::api::{Api, ApiFailure, Json as _, read};
use crate::format::local;
use crate::view::{PageRequest, Shared, View};

/// Values of a member and their labels. The empty value leaves the member out; the script adds the value
/// of a definition that is not listed.
type Choices = &'static [(&'static str, &'static str)];

const METHODS: Choices = &[
    ("GET", "GET"),
    ("POST", "POST"),
    ("PUT", "PUT"),
    ("PATCH", "PATCH"),
    ("DELETE", "DELETE"),
    ("HEAD", "HEAD"),
    ("OPTIONS", "OPTIONS"),
];
pub(super) const FREQUENCIES: Choices = &[
    ("Minute", "minutes"),
    ("Hour", "hours"),
    ("Day", "days"),
    ("Week", "weeks"),
    ("Month", "months"),
    ("Year", "years"),
];
const WEEKDAYS: Choices = &[
    ("Monday", "Mon"),
    ("Tuesday", "Tue"),
    ("Wednesday", "Wed"),
    ("Thursday", "Thu"),
    ("Friday", "Fri"),
    ("Saturday", "Sat"),
    ("Sunday", "Sun"),
];
const FIRST_DAYS: Choices = &[
    ("", "Sunday (default)"),
    ("Monday", "Monday"),
    ("Tuesday", "Tuesday"),
    ("Wednesday", "Wednesday"),
    ("Thursday", "Thursday"),
    ("Friday", "Friday"),
    ("Saturday", "Saturday"),
];
/// Ends of a weekday in a cron expression.
const CRON_NUMBERS: Choices = &[
    ("", "every"),
    ("#1", "first"),
    ("#2", "second"),
    ("#3", "third"),
    ("#4", "fourth"),
    ("#5", "fifth"),
    ("L", "last"),
];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const FORMATS: Choices =
    &[("", "Default of the server"), ("Envelope", "XML envelope"), ("Raw", "The message as it is")];
const TRANSPORTS: Choices =
    &[("", "Default (HTTPS)"), ("NetMessaging", "NetMessaging (HTTPS)"), ("AMQP", "AMQP 1.0")];
/// Texts of `brokeredMessageProperties`. The script replaces `@` by the member of the type of target.
const BROKERED: Choices = &[
    ("@.brokeredMessageProperties.messageId", "Message id"),
    ("@.brokeredMessageProperties.label", "Label"),
    ("@.brokeredMessageProperties.contentType", "Content type"),
    ("@.brokeredMessageProperties.correlationId", "Correlation id"),
    ("@.brokeredMessageProperties.sessionId", "Session id"),
    ("@.brokeredMessageProperties.partitionKey", "Partition key"),
    ("@.brokeredMessageProperties.viaPartitionKey", "Via partition key"),
    ("@.brokeredMessageProperties.to", "To"),
    ("@.brokeredMessageProperties.replyTo", "Reply to"),
    ("@.brokeredMessageProperties.replyToSessionId", "Reply to session id"),
];
const SIGNING: Choices = &[("", "No (default)"), ("On", "Yes")];
const OVERLAPS: Choices = &[
    ("", "Skip the run (default)"),
    ("QueueOne", "Run once afterwards"),
    ("Allow", "Run at the same time"),
];
const MISSED: Choices = &[
    ("", "Run the last one (default)"),
    ("Skip", "Skip them"),
    ("Last", "Run the last one"),
    ("All", "Run all of them"),
];
const STATES: Choices = &[("Enabled", "Enabled"), ("Disabled", "Disabled")];

#[derive(Template)]
#[template(path = "editor.html")]
struct Editor<'a> {
    view: &'a View,
    is_new: bool,
    /// Path of the job in the API; empty for a new one.
    resource: String,
    /// Path in the API of the job that the new one copies, its page and name; empty for others.
    source: String,
    source_page: String,
    source_name: String,
    /// URL of the page of the job; empty for a new one.
    page: String,
    job: String,
    /// The collection as URLs of the console name it.
    collection: String,
    collection_name: String,
    /// Collections that a new job can be in.
    collections: Vec<String>,
    /// Time zones with their present offset.
    zones: Vec<(&'static str, String)>,
    /// The time zone of a new schedule.
    zone: String,
    /// Names of headers with secret values that the operator added, separated by blanks.
    secret_headers: String,
    may_run: bool,
}

pub(super) async fn page(
    view: &mut View,
    shared: impl Future<Output = Shared>,
    request: &PageRequest<'_>,
    job: Option<&JobAddress>,
    api: &dyn Api,
) -> PageResult {
    view.share(shared.await);
    view.title = job.map_or("New job".to_owned(), |job| format!("Edit {}", job.job));
    if !view.may("writeJobs") {
        let message = "Your role may not change jobs.".to_owned();
        return Err(ApiFailure { status: 403, message });
    }
    let mut collections = vec![];
    match job {
        Some(job) => {
            let definition = read(api, &job.api("", "")).await?;
            view.set_job_zone(zone_of(&definition));
        }
        None => {
            let overview = read(api, "/api/overview").await.unwrap_or_default();
            let all = overview.list("collections");
            let addresses = all.iter().filter_map(|collection| {
                CollectionAddress::of_id(&collection.text("id"), &view.default_group)
            });
            collections.extend(addresses.map(|address| address.in_console()));
        }
    }
    let from = request.parameter("from");
    let source = match (job, from.is_empty()) {
        (None, false) => Some(source(&from, api).await?),
        _ => None,
    };
    let collection = match job.or(source.as_ref()) {
        Some(job) => job.collection.in_console(),
        None => match (request.parameter("collection"), collections.as_slice()) {
            (named, [only]) if named.is_empty() => only.clone(),
            (named, _) => named,
        },
    };
    let page_of = |job: &JobAddress| format!("{}jobs/{}", view.root, job.in_console());
    let editor = Editor {
        is_new: job.is_none(),
        resource: job.map(JobAddress::in_api).unwrap_or_default(),
        source: source.as_ref().map(JobAddress::in_api).unwrap_or_default(),
        source_page: source.as_ref().map(page_of).unwrap_or_default(),
        source_name: source.map(|job| job.in_console()).unwrap_or_default(),
        page: job.map(page_of).unwrap_or_default(),
        job: job.map(|job| job.job.clone()).unwrap_or_default(),
        collection_name: job.map(|job| job.collection.collection.clone()).unwrap_or_default(),
        collection,
        collections,
        zones: zones(view.now),
        zone: view.browser_zone.as_ref().map_or("", |zone| zone.name()).to_owned(),
        secret_headers: view.secret_headers.configured().join(" "),
        may_run: view.may_start_runs(),
        view,
    };
    rendered(&editor)
}

/// The job that a new one copies.
async fn source(from: &str, api: &dyn Api) -> Result<JobAddress, ApiFailure> {
    let missing = || ApiFailure { status: 404, message: format!("There is no job {from}") };
    let source = JobAddress::of_console_path(from).ok_or_else(missing)?;
    read(api, &source.api("", "")).await?;
    Ok(source)
}

/// All time zones.
static ZONES: LazyLock<Vec<Zone>> =
    LazyLock::new(|| Zone::names().filter_map(|name| Zone::named(name).ok()).collect());

/// All time zones with their offset at a time.
fn zones(at: Instant) -> Vec<(&'static str, String)> {
    ZONES.iter().map(|zone| (zone.name(), local(at, zone).offset().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;
    use crate::{Answer, Screen, respond};

    /// An API with one job, for a caller who may write jobs or not.
    struct OneJob {
        may_write: bool,
    }

    impl Api for OneJob {
        fn get<'a>(&'a self, target: &'a str) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
            let (status, body) = match target.split('?').next() {
                Some("/api/me") => {
                    (200, format!(r#"{{"permissions":{{"writeJobs":{}}}}}"#, self.may_write))
                }
                Some("/api/collections/c/jobs/j") => (200, r#"{"properties":{}}"#.to_owned()),
                _ => (404, r#"{"error":{"message":"none"}}"#.to_owned()),
            };
            Box::pin(async move { Answer { status, body: body.into_bytes() } })
        }
    }

    async fn page(path: &str, may_write: bool) -> crate::Page {
        let segments: Vec<&str> = path.split('/').collect();
        let request = PageRequest {
            path: &format!("/{path}"),
            parameters: &[],
            cookies: "",
            now: "2026-11-16T12:00:00Z".parse().unwrap(),
            version: "0",
            default_group: "/subscriptions/s/resourceGroups/g",
            secret_headers: &kalends_domain::SecretHeaders::new(["X-Mine".to_owned()]),
            sign_in: crate::SignInMethod::None,
            is_cross_site: false,
        };
        respond(Screen::of(&segments).unwrap(), request, &OneJob { may_write }).await
    }

    /// Values of an attribute.
    fn values<'h>(html: &'h str, attribute: &str) -> Vec<&'h str> {
        let start = format!(" {attribute}=\"");
        html.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[tokio::test]
    async fn every_member_of_a_job_has_a_field() {
        let html = page("jobs/c/j/edit", true).await.body;
        let paths = values(&html, "data-path");
        let mut members: Vec<String> = [
            "description",
            "tags",
            "startTime",
            "state",
            "overlap",
            "jitter",
            "timeout",
            "missedRuns.policy",
            "missedRuns.within",
            "recurrence.interval",
            "recurrence.count",
            "recurrence.endTime",
            "recurrence.cron",
            "recurrence.timeZone",
            "recurrence.firstDayOfWeek",
            "recurrence.schedule.minutes",
            "recurrence.schedule.hours",
            "recurrence.schedule.weekDays",
            "recurrence.schedule.monthDays",
            "recurrence.schedule.monthlyOccurrences",
            "recurrence.schedule.months",
            "action.signing",
        ]
        .map(str::to_owned)
        .into();
        for prefix in ["action.", "action.errorAction."] {
            let of_target = [
                "type",
                "request.uri",
                "request.method",
                "request.headers",
                "request.body",
                "request.authentication",
                "request.authentication.username",
                "request.authentication.password",
                "request.authentication.pfx",
                "request.authentication.tenant",
                "request.authentication.audience",
                "request.authentication.clientId",
                "request.authentication.secret",
                "queueMessage.storageAccount",
                "queueMessage.queueName",
                "queueMessage.sasToken",
                "queueMessage.message",
                "queueMessage.messageFormat",
                "serviceBusQueueMessage.queueName",
                "serviceBusTopicMessage.topicPath",
                "@.namespace",
                "@.transportType",
                "@.authentication.sasKeyName",
                "@.authentication.sasKey",
                "@.message",
                "@.brokeredMessageProperties.forcePersistence",
                "@.brokeredMessageProperties.scheduledEnqueueTimeUtc",
                "@.brokeredMessageProperties.timeToLive",
                "@.customMessageProperties",
                "retryPolicy.retryType",
                "retryPolicy.retryCount",
                "retryPolicy.retryInterval",
                "retryPolicy.maxInterval",
                "retryPolicy.maxAge",
            ];
            let brokered = BROKERED.iter().map(|(name, _)| *name);
            members.extend(of_target.into_iter().chain(brokered).map(|m| format!("{prefix}{m}")));
        }
        for member in members {
            assert!(paths.contains(&&*member), "no field for {member}");
        }
    }

    #[tokio::test]
    async fn every_field_has_a_label_and_an_id_of_its_own() {
        for path in ["new-job", "jobs/c/j/edit"] {
            let page = page(path, true).await;
            assert_eq!(page.status, 200);
            let html = &page.body;
            let mut ids = values(html, "id");
            let labels = values(html, "for");
            for control in html.split('<').filter(|tag| {
                ["input ", "select ", "textarea "].iter().any(|name| tag.starts_with(name))
            }) {
                let tag = control.split('>').next().unwrap();
                let id = values(tag, "id");
                let is_labelled = id.first().is_some_and(|id| labels.contains(id))
                    || tag.contains("aria-label=")
                    || tag.contains("type=\"checkbox\"");
                assert!(is_labelled, "{tag} has no label");
            }
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count, "an id is used twice");
            assert!(!html.contains(" style="), "inline style");
        }
    }

    #[tokio::test]
    async fn secrets_are_password_fields_without_a_value() {
        let html = page("jobs/c/j/edit", true).await.body;
        assert_eq!(values(&html, "data-secret-headers"), ["x-mine"]);
        let secrets: Vec<_> =
            html.split('<').filter(|tag| tag.contains("data-kind=\"secret\"")).collect();
        assert_eq!(secrets.len(), 8);
        for tag in secrets {
            assert!(tag.contains("type=\"password\"") && !tag.contains(" value="), "{tag}");
        }
    }

    #[tokio::test]
    async fn callers_who_may_not_write_get_no_editor() {
        for path in ["new-job", "jobs/c/j/edit"] {
            let page = page(path, false).await;
            assert_eq!(page.status, 403);
            assert!(!page.body.contains("data-editor"));
        }
        assert_eq!(page("jobs/c/none/edit", true).await.status, 404);
    }
}
