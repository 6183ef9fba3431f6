//! Properties of every definition: serialising and reading is lossless, a patch keeps members that it
//! does not name, and no response contains a secret.

use std::borrow::Cow;

use kalends_domain::{
    Action, CertificateFacts, CollectionState, HttpAuthentication, JobDefinition, JobStatus,
    Lifecycle, Limits, SecretHeaders, Target,
};
use kalends_wire::{
    JobRuntimeState, Json, Number, Version, has_stored_placeholder, job_with_secrets,
    keep_extensions, keep_stored_secrets, keep_type_spelling, merge_patch, parse_duration,
    patch_job, read_job, write_duration, write_job,
};
use proptest::prelude::*;

use crate::bad_input::path;
use crate::strategies::{Members, job};

const OLD: [Version; 3] =
    [Version::V2014_08_01_Preview, Version::V2016_01_01, Version::V2016_03_01];
const NEW: Version = Version::V2026_11_01;

/// Serialises and reads a job.
fn reread(json: &Json<'_>, version: Version) -> JobDefinition {
    let text = json.to_string();
    let body = Json::parse(text.as_bytes()).unwrap();
    read_job(&body, version, &Limits::default()).unwrap_or_else(|errors| panic!("{errors}: {text}"))
}

fn each_action(job: &mut JobDefinition, change: impl Fn(&mut Action)) {
    change(&mut job.action.action);
    if let Some(error) = &mut job.action.error_action {
        change(&mut error.action);
    }
}

/// Returns the definition without its secrets.
fn without_secrets(job: &JobDefinition) -> JobDefinition {
    let mut job = job.clone();
    each_action(&mut job, |action| match &mut action.target {
        Target::Http(request) => match request.authentication.as_deref_mut() {
            Some(HttpAuthentication::Basic { password, .. }) => *password = None,
            Some(HttpAuthentication::ClientCertificate { pfx, password, .. }) => {
                (*pfx, *password) = (None, None);
            }
            Some(HttpAuthentication::ActiveDirectoryOAuth { secret, .. }) => *secret = None,
            None => {}
        },
        Target::StorageQueue(message) => message.sas_token = None,
        Target::ServiceBusQueue(message) | Target::ServiceBusTopic(message) => {
            message.authentication.as_mut().unwrap().sas_key = None;
        }
    });
    job
}

/// Adds the data that the server reads from client certificates.
fn add_certificates(job: &mut JobDefinition) {
    each_action(job, |action| {
        if let Target::Http(request) = &mut action.target
            && let Some(HttpAuthentication::ClientCertificate { certificate, .. }) =
                request.authentication.as_deref_mut()
        {
            *certificate = Some(CertificateFacts {
                thumbprint: "00".to_owned(),
                expiration: "2030-01-01".parse().unwrap(),
                subject_name: "CN=x".to_owned(),
            });
        }
    });
}

fn member<'m, 'a>(value: &'m mut Json<'a>, name: &str) -> Option<&'m mut Json<'a>> {
    let Json::Object(members) = value else { return None };
    members.iter_mut().find(|(other, _)| other == name).map(|(_, value)| value)
}

/// Puts `${stored}` where a response leaves a secret out, and in place of secrets that it shows.
fn put_placeholders(action: &mut Json<'_>) {
    if let Some(error) = member(action, "errorAction") {
        put_placeholders(error);
    }
    let set = |object: &mut Json<'_>, name: &'static str| {
        let Json::Object(members) = object else { panic!("no object") };
        assert!(members.iter().all(|(other, _)| other != name), "{name} is in a response");
        members.push((name.into(), "${stored}".into()));
    };
    if let Some(message) = member(action, "queueMessage") {
        set(message, "sasToken");
    }
    for name in ["serviceBusQueueMessage", "serviceBusTopicMessage"] {
        if let Some(message) = member(action, name) {
            set(member(message, "authentication").unwrap(), "sasKey");
        }
    }
    let Some(request) = member(action, "request") else { return };
    if let Some(Json::String(uri)) = member(request, "uri") {
        let (start, rest) = uri.split_once("sig=").unwrap();
        let rest = rest.split_once('&').map_or("", |(_, rest)| rest);
        *uri = format!("{start}sig=${{stored}}&{rest}").into();
    }
    if let Some(key) = member(request, "headers").and_then(|headers| member(headers, "X-Api-Key")) {
        *key = "${stored}".into();
    }
    let Some(authentication) = member(request, "authentication") else { return };
    let secrets: &[_] = match member(authentication, "type").unwrap().to_string().as_str() {
        r#""Basic""# => &["password"],
        r#""ClientCertificate""# => &["pfx", "password"],
        _ => &["secret"],
    };
    secrets.iter().for_each(|name| set(authentication, name));
}

fn runtime_state() -> JobRuntimeState {
    JobRuntimeState {
        lifecycle: Lifecycle::Active,
        status: JobStatus::default(),
        collection: CollectionState::Enabled,
        is_paused: false,
    }
}

/// Generates small values with the names that patches treat specially.
fn json() -> impl Strategy<Value = Json<'static>> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        (0..3_i64).prop_map(|number| Json::Number(Number::Integer(number))),
        proptest::sample::select(vec!["Http", "StorageQueue", "x"])
            .prop_map(|text| Json::String(Cow::Borrowed(text))),
    ];
    let names = vec![
        "properties",
        "action",
        "Action",
        "type",
        "request",
        "queueMessage",
        "authentication",
        "retryPolicy",
        "errorAction",
        "headers",
        "tags",
        "state",
        "body",
        "a",
    ];
    let name = proptest::sample::select(names).prop_map(Cow::Borrowed);
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
            proptest::collection::vec((name.clone(), inner), 0..5).prop_map(|members| {
                let mut unique: Vec<(Cow<'_, str>, Json<'_>)> = Vec::new();
                for (name, value) in members {
                    if unique.iter().all(|(other, _)| !other.eq_ignore_ascii_case(&name)) {
                        unique.push((name, value));
                    }
                }
                Json::Object(unique)
            }),
        ]
    })
}

fn empty() -> Json<'static> {
    Json::Object(Vec::new())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_newest_version_reads_what_it_writes(job in job(Members::All)) {
        prop_assert_eq!(reread(&job_with_secrets(&job, NEW), NEW), job);
    }

    #[test]
    fn an_old_version_reads_what_it_writes(job in job(Members::Old)) {
        for version in OLD {
            prop_assert_eq!(&reread(&job_with_secrets(&job, version), version), &job);
            let response = write_job(&path(), &job, &runtime_state(), version);
            prop_assert_eq!(reread(&response, version), without_secrets(&job));
        }
    }

    #[test]
    fn edits_of_old_versions_preserve_newer_members(job in job(Members::All)) {
        for version in OLD {
            let mut put = reread(&job_with_secrets(&job, version), version);
            keep_extensions(&job, &mut put);
            prop_assert_eq!(&put, &job);
        }
    }

    #[test]
    fn a_patch_without_members_changes_nothing(mut job in job(Members::All)) {
        add_certificates(&mut job);
        for version in Version::ALL {
            let patched = patch_job(&path(), &job, empty(), version, &Limits::default(), &Default::default());
            prop_assert_eq!(patched.as_ref(), Ok(&job));
        }
    }

    #[test]
    fn a_response_with_placeholders_for_its_secrets_reads_as_the_stored_job(
        mut job in job(Members::All),
    ) {
        add_certificates(&mut job);
        let mut body = write_job(&path(), &job, &runtime_state(), NEW);
        put_placeholders(member(member(&mut body, "properties").unwrap(), "action").unwrap());
        let mut put = reread(&body, NEW);
        keep_type_spelling(&job, &mut put);
        prop_assert!(has_stored_placeholder(&body) || put == job);
        let (limits, headers) = (Limits::default(), SecretHeaders::default());
        prop_assert_eq!(keep_stored_secrets(Some(&job), &mut put, &limits, &headers), Ok(()));
        prop_assert_eq!(put, job);
    }

    #[test]
    fn a_job_without_its_secrets_can_be_patched(
        job in job(Members::Old),
    ) {
        let bare = without_secrets(&job);
        let patched = patch_job(&path(), &bare, empty(), NEW, &Limits::default(), &Default::default());
        prop_assert_eq!(patched.as_ref(), Ok(&bare));
    }

    #[test]
    fn an_empty_patch_is_the_identity(value in json()) {
        let Json::Object(_) = value else { return Ok(()) };
        for version in Version::ALL {
            prop_assert_eq!(merge_patch(value.clone(), empty(), version), value.clone());
        }
    }

    #[test]
    fn patches_are_idempotent(value in json(), patch in json()) {
        for version in Version::ALL {
            let once = merge_patch(value.clone(), patch.clone(), version);
            let twice = merge_patch(once.clone(), patch.clone(), version);
            prop_assert_eq!(twice, once);
        }
    }

    #[test]
    fn durations_are_parsed_as_formatted(seconds in 0..10_000_000_000_u64, nanos in 0..1_000_000_000_u32) {
        let duration = std::time::Duration::new(seconds, nanos);
        prop_assert_eq!(parse_duration(&write_duration(duration)), Some(duration));
    }

    #[test]
    fn parsing_a_duration_never_panics(text in "[-P0-9.:TYMWDHS]{0,20}") {
        let _ = parse_duration(&text);
    }
}
