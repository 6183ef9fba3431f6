use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel, sync_channel};

use kalends_domain::{Collection, CollectionName, CollectionState, GroupName, Location, Plan};
use kalends_environment::{SeededEntropy, SystemClock};

use super::*;
use crate::api_store::CollectionWrite;
use crate::encryption::{Cipher, MasterKey};
use crate::sqlite::connection::WAL_BYTES_MAX;

fn open(path: &Path) -> SqliteStore {
    let entropy = Arc::new(SeededEntropy::new(1));
    let (key, _) = MasterKey::generate(&*entropy).unwrap();
    let codec = DefinitionCodec::new(Cipher::new(key, vec![], entropy), Default::default());
    SqliteStore::open(path, SqliteSettings::default(), codec, Arc::new(SystemClock)).unwrap()
}

fn job_path() -> JobPath {
    let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
    let group = GroupPath { subscription, group: GroupName::new("g").unwrap() };
    let collection = CollectionPath { group, collection: CollectionName::new("c").unwrap() };
    JobPath { collection, job: JobName::new("j").unwrap() }
}

/// Blocks readers until the returned sender is dropped.
fn occupy_readers(store: &SqliteStore, reads: usize) -> (Sender<()>, Vec<Reply<'_, ()>>) {
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let block = || {
        let released = Arc::clone(&released);
        store.read(move |_, _| {
            // Fails when the sender is dropped.
            let _ = released.lock().unwrap().recv();
            Ok(())
        })
    };
    (release, (0..reads).map(|_| block()).collect())
}

#[tokio::test]
async fn reads_of_clients_do_not_delay_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("kalends.db"));
    let (release, reads) = occupy_readers(&store, 64);
    let engine = async {
        store.due(Instant::MAX, 9).await?;
        store.claimable(Instant::MAX, 9).await?;
        store.jobs_for_run(vec![JobKey(1)]).await?;
        store.gate_states(vec![JobKey(1)]).await
    };
    let read = tokio::time::timeout(std::time::Duration::from_secs(10), engine).await;
    drop(release);
    assert_eq!(read.expect("the engine waits for clients"), Ok(vec![None]));
    for read in reads {
        assert_eq!(read.await, Ok(()));
    }
}

#[tokio::test]
async fn the_wal_shrinks_after_a_long_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kalends.db");
    let store = open(&path);
    let wal = || std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
    let write = |number: i64| {
        store.edit(move |transaction, _, _| {
            let sql = "INSERT OR REPLACE INTO meta (name, value)
                 VALUES ('filler ' || ?, randomblob(65536))";
            transaction.connection().execute(sql, [number])?;
            Ok(())
        })
    };
    let (release, reads) = occupy_readers(&store, 1);
    for number in 0..600 {
        write(number % 8).await.unwrap();
    }
    assert!(wal() > WAL_BYTES_MAX, "the reader does not hold the WAL: {}", wal());
    drop(release);
    for read in reads {
        read.await.unwrap();
    }
    let shrinks = async || {
        for _ in 0..600 {
            write(0).await.unwrap();
            if wal() <= WAL_BYTES_MAX {
                return true;
            }
        }
        false
    };
    assert!(shrinks().await, "{}", wal());
}

#[tokio::test]
async fn a_collection_deleted_during_a_read_is_not_cached() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("kalends.db"));
    let edit = async |write: CollectionWrite| {
        let decide = Box::new(move |_: crate::api_store::CollectionContext<'_>| Ok(write.clone()));
        store.edit_collection(job_path().collection, decide).await.unwrap();
    };
    let plan = Plan::Standard;
    let (location, state) = (Location::restore("West US".into()), CollectionState::Enabled);
    let collection = Collection { location, tags: None, plan, state, quota: None };
    edit(CollectionWrite::Put(collection)).await;

    let ((is_taken, taken), (go_on, goes_on)) = (sync_channel(0), sync_channel(0));
    let (codec, since) = (Arc::clone(&store.codec), store.shared.locations.version());
    let reading = store.readers.read(move |snapshot| {
        // The snapshot has been taken.
        is_taken.send(()).unwrap();
        goes_on.recv().unwrap();
        jobs::by_path(snapshot, &codec, &job_path(), (since, Instant::MIN))
    });
    taken.recv().unwrap();
    edit(CollectionWrite::Delete).await;
    go_on.send(()).unwrap();
    assert_eq!(reading.await, Ok(None), "the snapshot still has the collection");
    assert_eq!(store.job(job_path()).await, Err(StoreError::NoCollection));
}
