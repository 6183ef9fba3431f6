//! A store written by an earlier version opens with its contents, including changes that the earlier
//! release had not flushed to the tables.

use std::fs;
use std::path::{Path, PathBuf};

use kalends_domain::{
    ActionRole, AttemptStatus, CollectionName, CollectionPath, CollectionState, GroupName,
    GroupPath, HttpAuthentication, JobDefinition, JobName, JobPath, Lifecycle, Plan, Role, Secret,
    SubscriptionId, Switch, Target,
};
use kalends_environment::SystemEntropy;
use kalends_recurrence::Instant;
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::record::{Cause, Disposition};
use kalends_store::sqlite::{SqliteSettings, SqliteStore, inspect};
use kalends_store::stored_form::DefinitionCodec;
use kalends_store::{
    AdminStore as _, ApiStore as _, HistoryFilter, JobFilter, Page, Scope, Tokens as _,
};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::clock;
use crate::block_on;

const PLANS: [Plan; 4] = [Plan::Free, Plan::Standard, Plan::P10Premium, Plan::P20Premium];
const LIFECYCLES: [Lifecycle; 3] = [Lifecycle::Active, Lifecycle::Completed, Lifecycle::Faulted];
const CAUSES: [Cause; 2] = [Cause::Scheduled, Cause::Manual];
const ROLES: [ActionRole; 2] = [ActionRole::Main, ActionRole::Error];
const STATUSES: [AttemptStatus; 3] =
    [AttemptStatus::Completed, AttemptStatus::Failed, AttemptStatus::Postponed];
const DISPOSITIONS: [Disposition; 7] = [
    Disposition::Completed,
    Disposition::Failed,
    Disposition::SkippedOverlap,
    Disposition::SkippedDisabled,
    Disposition::SkippedQuota,
    Disposition::Missed,
    Disposition::Superseded,
];

/// The number that stands for a variant in the file.
fn code<T: PartialEq>(variants: &[T], variant: &T) -> usize {
    variants.iter().position(|known| known == variant).unwrap()
}

fn ticks(instant: Option<Instant>) -> Option<i64> {
    instant.map(Instant::ticks)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn codec() -> DefinitionCodec {
    let key = Secret::new("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8".into());
    let entropy = std::sync::Arc::new(SystemEntropy);
    DefinitionCodec::new(
        Cipher::new(MasterKey::parse(&key).unwrap(), vec![], entropy),
        Default::default(),
    )
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteSettings::default(), codec(), clock()).unwrap()
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn copy_store(folder: &Path) -> PathBuf {
    let path = folder.join("kalends.db");
    fs::copy(data("store-0.1.0.db"), &path).unwrap();
    path
}

fn expected() -> Value {
    serde_json::from_str(&fs::read_to_string(data("store-0.1.0.json")).unwrap()).unwrap()
}

fn group() -> GroupPath {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    GroupPath { subscription, group: GroupName::new("Upgrade").unwrap() }
}

fn collection(name: &str) -> CollectionPath {
    CollectionPath { group: group(), collection: CollectionName::new(name).unwrap() }
}

/// Everything in the store, in the format of the expected contents.
async fn contents(store: &SqliteStore) -> Value {
    let groups = store.groups(group().subscription, Page::first(100)).await.unwrap();
    let groups: Vec<_> = groups
        .iter()
        .map(|group| {
            let GroupPath { subscription, group } = &group.path;
            json!({"subscription": subscription.to_string(), "name": group.to_string()})
        })
        .collect();
    let (mut collections, mut jobs, mut tags) = (vec![], vec![], vec![]);
    let (mut runs, mut history, mut ledger) = (vec![], vec![], vec![]);
    for record in store.collections(Scope::Group(group()), Page::first(100)).await.unwrap() {
        collections.push(json!({
            "name": record.path.collection.to_string(),
            "plan": code(&PLANS, &record.collection.plan),
            "enabled": u8::from(record.collection.state == CollectionState::Enabled),
            "created": record.created.ticks(),
            "enabled_since": record.enabled_since.ticks(),
            "version": record.version,
        }));
        let page = store.jobs(record.path, JobFilter::default(), Page::first(100), 100).await;
        for job in page.unwrap().jobs {
            let state = job.state;
            jobs.push(json!({
                "collection": job.path.collection.collection.to_string(),
                "key": job.key.0,
                "name": job.path.job.to_string(),
                "uid": hex(&job.job.uid.0),
                "created": job.job.created.ticks(),
                "version": job.version,
                "generation": job.job.generation,
                "switched_on": u8::from(job.job.definition.switch == Switch::Enabled),
                "lifecycle": code(&LIFECYCLES, &state.lifecycle),
                "due": ticks(state.due),
                "used": state.used,
                "last_execution": ticks(state.last_execution),
                "executions": state.executions,
                "failures": state.failures,
                "faulted": state.faulted,
                "finished": ticks(state.finished),
            }));
            for (name, value) in job.job.definition.extensions.tags.iter().flatten() {
                let name = name.to_uppercase();
                tags.push(json!({"job": job.path.job.to_string(), "name": name, "value": value}));
            }
            for run in store.open_runs(job.key).await.unwrap() {
                runs.push(json!({
                    "run": run.id.0,
                    "job": run.job.0,
                    "generation": run.generation,
                    "scheduled": run.scheduled.ticks(),
                    "cause": code(&CAUSES, &run.cause),
                    "repeat": run.repeat,
                    "role": code(&ROLES, &run.progress.role),
                    "retry": run.progress.retry,
                    "redelivery": run.progress.redelivery,
                    "next_at": run.progress.next_at.ticks(),
                    "first_started": ticks(run.progress.first_started),
                    "owner": run.claim.map(|claim| claim.owner.0.cast_signed()),
                    "token": run.claim.map(|claim| claim.token.0),
                    "lease_until": run.claim.map(|claim| claim.lease_until.ticks()),
                }));
            }
            let entries = store.history(job.path, HistoryFilter::default(), Page::first(1_000));
            for record in entries.await.unwrap().unwrap() {
                let (entry, timing) = (&record.entry, record.entry.timing);
                history.push(json!({
                    "sequence": record.sequence,
                    "job": job.key.0,
                    "started": entry.started.ticks(),
                    "ended": entry.ended.ticks(),
                    "expected": entry.expected.ticks(),
                    "status": code(&STATUSES, &entry.status),
                    "retry": entry.retry,
                    "repeat": entry.repeat,
                    "role": code(&ROLES, &entry.role),
                    "message": entry.message,
                    "dns": timing.dns.map(|time| time.get()),
                    "connect": timing.connect.map(|time| time.get()),
                    "tls": timing.tls.map(|time| time.get()),
                    "first_byte": timing.first_byte.map(|time| time.get()),
                    "total": timing.total.map(|time| time.get()),
                }));
            }
            let rows = store.ledger(job.key, Instant::MIN, Instant::MAX, 1_000).await.unwrap();
            ledger.extend(rows.iter().map(|row| {
                json!({
                    "job": job.key.0,
                    "generation": row.generation,
                    "from_at": row.from.ticks(),
                    "to_at": row.to.ticks(),
                    "count": row.count,
                    "cause": code(&CAUSES, &row.cause),
                    "disposition": code(&DISPOSITIONS, &row.disposition),
                    "closed": row.closed.ticks(),
                })
            }));
        }
    }
    jobs.sort_by_key(|job| job["key"].as_i64());
    tags.sort_by_key(|tag| (tag["job"].to_string(), tag["name"].to_string()));
    runs.sort_by_key(|run| run["run"].as_i64());
    history.sort_by_key(|entry| entry["sequence"].as_i64());
    ledger.sort_by_key(|row| row["job"].as_i64());
    let tokens = store.tokens().await.unwrap();
    let tokens: Vec<_> = tokens
        .iter()
        .map(|token| {
            json!({
                "id": token.id.as_str(),
                "name": token.name,
                "hash": hex(token.hash.as_bytes()),
                "role": code(&Role::ALL, &token.grant.role),
                "place": token.grant.scope.to_string(),
                "created": token.created.ticks(),
                "expires": ticks(token.expires),
                "revoked": ticks(token.revoked),
                "last_used": ticks(token.last_used),
            })
        })
        .collect();
    json!({
        "groups": groups,
        "collections": collections,
        "jobs": jobs,
        "tags": tags,
        "runs": runs,
        "history": history,
        "ledger": ledger,
        "tokens": tokens,
    })
}

#[track_caller]
fn compare(found: &Value) {
    for (name, rows) in expected().as_object().unwrap() {
        assert!(!rows.as_array().unwrap().is_empty(), "{name}");
        assert_eq!(&found[name], rows, "{name}");
    }
}

#[test]
fn a_store_of_the_previous_version_opens_with_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = copy_store(folder.path());
    block_on(async {
        let store = open(&path);
        compare(&contents(&store).await);
        assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
        store.flush().await.unwrap();
        compare(&contents(&store).await);
        drop(store);
        assert_eq!(inspect(&path, &codec()).unwrap(), Vec::<String>::new());
        compare(&contents(&open(&path)).await);
    });
}

#[test]
fn the_file_of_the_previous_version_contains_unflushed_changes() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(copy_store(folder.path())).unwrap();
    let count = |sql: &str| connection.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap();
    assert!(count("SELECT count(*) FROM log") > 1);
    assert_eq!(count("SELECT count(*) FROM runs"), 0, "the open runs are in the change log only");
    assert_eq!(expected()["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn secrets_of_the_previous_version_are_decrypted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&copy_store(folder.path()));
    let path = JobPath { collection: collection("Main"), job: JobName::new("Secret").unwrap() };
    let (job, _) = block_on(store.job(path)).unwrap().unwrap();
    let JobDefinition { action, .. } = &job.job.definition;
    let Target::Http(request) = &action.action.target else { panic!("{action:?}") };
    assert!(request.uri.as_str().ends_with("/ok?sig=secret-signature"));
    let Some(HttpAuthentication::Basic { password: Some(password), .. }) =
        request.authentication.as_deref()
    else {
        panic!("{request:?}")
    };
    assert_eq!(password.reveal(), "secret-password");
    let error_action = action.error_action.as_ref().unwrap();
    let Target::StorageQueue(message) = &error_action.action.target else {
        panic!("{error_action:?}")
    };
    assert_eq!(message.sas_token.as_ref().unwrap().reveal(), "secret-token");
}
