//! Concurrent reads of jobs, which share statements.

use std::pin::Pin;

use futures_util::future::{join_all, maybe_done, poll_immediate};
use kalends_domain::JobPath;
use kalends_store::{ApiStore, StoreError};

use super::database::TestDatabase;
use super::sample::{at, collection_path, job_path, put, put_collection, put_job, standard};
use super::with_server;

/// Begins all reads before it waits for the first of them.
async fn read_together(
    store: &impl ApiStore,
    paths: &[JobPath],
) -> Vec<Result<Option<String>, StoreError>> {
    let found = join_all(paths.iter().map(|path| store.job(path.clone()))).await;
    found.into_iter().map(|found| Ok(found?.map(|(job, _)| job.path.to_string()))).collect()
}

#[test]
fn concurrent_reads_have_each_its_own_result() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        for name in ["c", "d"] {
            put_collection(&store, name, standard()).await;
        }
        let names: Vec<_> = (0..150).map(|number| format!("j{number:03}")).collect();
        for name in &names {
            put_job(&store, name, put(Some(at(60)))).await;
        }
        let mut paths: Vec<_> = names.iter().map(|name| job_path(name)).collect();
        // The same job again, in other letters; a missing job; another and a missing collection.
        paths.extend([job_path("J007"), job_path("missing")]);
        paths.extend(["d", "e"].map(|collection| JobPath {
            collection: collection_path(collection),
            ..job_path("j007")
        }));
        for (path, found) in paths.iter().zip(read_together(&store, &paths).await) {
            match path.collection.collection.as_str() {
                "e" => assert!(matches!(found, Err(StoreError::NoCollection)), "{found:?}"),
                "d" => assert_eq!(found.unwrap(), None),
                _ if path.job.as_str() == "missing" => assert_eq!(found.unwrap(), None),
                _ => {
                    let stored = job_path(&path.job.as_str().to_ascii_lowercase());
                    assert_eq!(found.unwrap(), Some(stored.to_string()));
                }
            }
        }
    });
}

#[test]
fn a_dropped_read_does_not_stop_the_others() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        put_collection(&store, "c", standard()).await;
        put_job(&store, "j", put(Some(at(60)))).await;
        for _ in 0..20 {
            for kept in 0..5 {
                let mut reads: Vec<_> =
                    (0..5).map(|_| maybe_done(store.job(job_path("j")))).collect();
                for read in &mut reads {
                    // Some of them may end at once.
                    let _ = poll_immediate(&mut *read).await;
                }
                let mut read = reads.swap_remove(kept);
                drop(reads);
                (&mut read).await;
                let found = Pin::new(&mut read).take_output().unwrap();
                assert!(found.unwrap().is_some());
            }
        }
    });
}
