//! No secret is in plain text in any file or in debug output.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kalends_domain::{
    Action, ActionRole, AttemptStatus, ErrorAction, Headers, HistoryEntry, HttpAuthentication,
    JobDefinition, MessageFormat, Secret, ServiceBusAuthentication, ServiceBusMessage,
    StorageQueueMessage, Target, Timing,
};
use kalends_store::record::{JobRecord, NodeId, Progress};
use kalends_store::sqlite::SqliteStore;
use kalends_store::{
    ApiStore, AttemptCounts, ClaimAfter, CollectionContext, CollectionWrite, DueJob, EngineStore,
    JobContext, JobWrite, RunWrite, RunWriteResult,
};

use super::{at, open};
use crate::block_on;
use crate::sample::{advance, collection, collection_path, definition, job_path, put, request};

const CANARY: &str = "canary-7f3a";

fn secret(name: &str) -> Option<Secret> {
    Some(Secret::new(format!("{CANARY}-{name}")))
}

/// Definitions with a canary in every secret member.
fn definitions() -> Vec<JobDefinition> {
    let authentications = [
        HttpAuthentication::Basic { username: Some("user".into()), password: secret("password") },
        HttpAuthentication::ClientCertificate {
            pfx: secret("pfx"),
            password: secret("pfx-password"),
            certificate: None,
        },
        HttpAuthentication::ActiveDirectoryOAuth {
            tenant: None,
            audience: None,
            client_id: None,
            secret: secret("secret"),
        },
    ];
    let headers = ["Authorization", "cookie", "X-Api-Key"]
        .map(|name| (name.to_owned(), format!("{CANARY}-{name}")));
    let with_http = |authentication| {
        let mut request =
            request(&format!("https://example.com/path?sig={CANARY}-sig&code={CANARY}-code"));
        request.headers = Some(Headers::restore(headers.to_vec()));
        request.authentication = Some(Box::new(authentication));
        definition(Target::Http(request))
    };
    let queue = Target::StorageQueue(StorageQueueMessage {
        storage_account: Some("account".into()),
        queue_name: Some("queue".into()),
        sas_token: secret("sas-token"),
        message: Some("text".into()),
        format: MessageFormat::Raw,
    });
    let topic = Target::ServiceBusTopic(ServiceBusMessage {
        entity: Some("topic".into()),
        namespace: Some("space".into()),
        transport: None,
        authentication: Some(ServiceBusAuthentication {
            kind: None,
            sas_key_name: Some("name".into()),
            sas_key: secret("sas-key"),
        }),
        message: None,
        brokered: None,
        custom: None,
    });
    let mut all: Vec<_> = authentications.into_iter().map(with_http).collect();
    all.extend([definition(queue), definition(topic)]);
    // Again as error actions, which have their own members.
    let errors: Vec<_> = all.iter().map(|definition| definition.action.action.clone()).collect();
    for (definition, target) in all.iter_mut().zip(errors.into_iter().rev()) {
        let action = Action { type_as_written: "Http".into(), target: target.target };
        definition.action.error_action = Some(Box::new(ErrorAction { action, retry: None }));
    }
    all
}

async fn put_job(store: &SqliteStore, name: &str, definition: JobDefinition) -> JobRecord {
    let put = put(definition, 7, at(60));
    let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
    let edited = store.edit_job(job_path("c", name).unwrap(), Box::new(decide)).await.unwrap();
    edited.after.unwrap()
}

/// Begins a run and ends its first attempt.
async fn run(store: &SqliteStore, job: &JobRecord) {
    let due = job.state.due.unwrap();
    let begin = RunWrite::Begin {
        on: DueJob { job: job.key, generation: job.job.generation, due },
        scheduled: due,
        progress: Progress::first(due),
        owner: Some(NodeId(1)),
        lease: Duration::from_secs(10),
        advance: advance(due, 1),
        closed: vec![],
        postponed: vec![],
        waits_for: None,
    };
    let begun = store.commit(vec![begin]).await.unwrap();
    let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun[..] else {
        panic!("{begun:?}")
    };
    let entry = HistoryEntry {
        started: due,
        ended: due,
        expected: due,
        status: AttemptStatus::Failed,
        message: "the target returned 500".into(),
        retry: 0,
        repeat: 1,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    };
    let (entry, counts) = (Some(entry), AttemptCounts::default());
    let progress = Progress::first(due);
    let (token, claim) = (claim.token, ClaimAfter::Release);
    let next = RunWrite::Continue { run, token, entry, counts, progress, claim };
    assert_eq!(store.commit(vec![next]).await.unwrap(), [RunWriteResult::Done]);
}

/// The names of files that contain the canary, and of all files.
fn hits(folder: &Path) -> (Vec<String>, Vec<String>) {
    let entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect();
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    let contains = |entry: &&fs::DirEntry| {
        let bytes = fs::read(entry.path()).unwrap();
        bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
    };
    (entries.iter().filter(contains).map(name).collect(), entries.iter().map(name).collect())
}

#[test]
fn no_secret_is_in_a_file_or_in_debug_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    block_on(async {
        let store = open(&path).unwrap();
        let decide = Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Put(collection())));
        store.edit_collection(collection_path("c").unwrap(), decide).await.unwrap();
        for (number, definition) in definitions().into_iter().enumerate() {
            let name = format!("job-{number}");
            put_job(&store, &name, definition.clone()).await;
            let job = put_job(&store, &name, definition.clone()).await;
            run(&store, &job).await;
            let (read, _) = store.job(job_path("c", &name).unwrap()).await.unwrap().unwrap();
            assert_eq!(read.job.definition, definition, "decrypted");
            let printed = format!("{read:?} {read:#?}");
            assert!(!printed.contains(CANARY), "{printed}");
        }
        store.backup(folder.path().join("copy.db")).await.unwrap();
        let (hits_open, names) = hits(folder.path());
        for name in ["kalends.db", "kalends.db-wal", "kalends.db-shm", "copy.db"] {
            assert!(names.iter().any(|found| found == name), "{name} of {names:?}");
        }
        assert_eq!(hits_open, Vec::<String>::new());
        drop(store);
        assert_eq!(hits(folder.path()).0, Vec::<String>::new());
    });
}

#[test]
fn the_search_for_the_canary_finds_a_leak() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("leak"), format!("xx{CANARY}xx")).unwrap();
    assert_eq!(hits(folder.path()).0, ["leak"]);
}
