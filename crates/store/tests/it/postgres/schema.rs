//! The schema, its steps, and what looks for damage.

use kalends_store::postgres::PostgresStore;
use kalends_store::record::NodeId;
use kalends_store::{AdminStore, EngineStore, StoreError};
use tokio::task::JoinSet;

use super::sample::{begin, due_jobs};
use super::scratch::{Scratch, codec, settings};
use super::with_server;

/// Set to write the file anew instead of comparing with it.
const WRITE: &str = "KALENDS_WRITE_SCHEMA";

#[test]
fn the_schema_is_the_one_that_is_written_down() {
    with_server(async {
        let schema = Scratch::make().await.connect().await.describe_schema().await.unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres/schema.txt");
        if std::env::var(WRITE).is_ok() {
            std::fs::write(path, &schema).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        assert!(schema == written, "run with {WRITE}=1 and look at the difference:\n{schema}");
    });
}

#[test]
fn many_nodes_may_start_at_once_on_an_empty_database() {
    with_server(async {
        let scratch = Scratch::make().await;
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let url = scratch.url.clone();
            tasks.spawn(async move {
                PostgresStore::connect(&url, settings(), codec(1)).await.map(drop)
            });
        }
        assert_eq!(tasks.join_all().await, vec![Ok(()); 8]);
        let steps = "SELECT count(*) FROM schema_steps";
        let steps: i64 = scratch.plain().await.query_one(steps, &[]).await.unwrap().get(0);
        assert_eq!(steps, 4);
    });
}

#[test]
fn a_step_that_failed_half_way_leaves_nothing_and_is_taken_again() {
    with_server(async {
        let scratch = Scratch::make().await;
        let client = scratch.plain().await;
        // In the way of one of the last statements.
        client.batch_execute("CREATE TABLE key_check (id INT)").await.unwrap();
        let failed = PostgresStore::connect(&scratch.url, settings(), codec(1)).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
        let left = "SELECT count(*) FROM pg_tables WHERE tablename = 'jobs'";
        let left: i64 = client.query_one(left, &[]).await.unwrap().get(0);
        assert_eq!(left, 0);
        client.batch_execute("DROP TABLE key_check").await.unwrap();
        scratch.connect().await;
    });
}

#[test]
fn a_schema_of_a_newer_version_is_refused() {
    with_server(async {
        let scratch = Scratch::make().await;
        scratch.connect().await;
        let newer = "INSERT INTO schema_steps (number, name) VALUES (7, 'of the future')";
        scratch.plain().await.execute(newer, &[]).await.unwrap();
        let refused = PostgresStore::connect(&scratch.url, settings(), codec(1)).await;
        let Err(error) = refused else { panic!("{refused:?}") };
        assert_eq!(error, StoreError::TooNew { found: 7, known: 4 });
    });
}

#[test]
fn what_must_not_be_is_found() {
    with_server(async {
        let scratch = Scratch::make().await;
        let store = scratch.connect().await;
        let jobs = due_jobs(&store, 2).await;
        store.commit(vec![begin(&jobs[0], Some(NodeId(1)))]).await.unwrap();
        assert_eq!(store.check().await.unwrap(), [""; 0]);
        let damage = "ALTER TABLE runs DROP CONSTRAINT runs_job_fkey;
            INSERT INTO history (job, started, ended, expected, status, message, retry, repeat, role)
                VALUES (999, 0, 0, 0, 0, '\"\"', 0, 0, 0);
            INSERT INTO ledger (job, first_at, last_at, generation, count, cause, disposition, closed)
                VALUES (999, 0, 0, 0, 0, 0, 0, 0);
            UPDATE collections SET jobs = 7;
            UPDATE states SET entries = 7, generation = 0, finished = 0 WHERE job = 1;
            UPDATE states SET collection_enabled = false WHERE job = 2;
            INSERT INTO runs SELECT id + 100, 999, generation, scheduled, cause, repeat, role, retry,
                redelivery, next_at, first_started, owner, token, lease_until, last_token FROM runs;
            UPDATE jobs SET definition = '{}' WHERE key = 2;";
        scratch.plain().await.batch_execute(damage).await.unwrap();
        let found = store.check().await.unwrap();
        for expected in [
            "belongs to no job",
            "history of no job: 999",
            "ledger of no job: 999",
            "counts 7 jobs and has 2",
            "counts 7 entries and has 0",
            "job 2 has the wrong collection state",
            "job 1 is finished and active",
            "has a generation or token from the future",
            "job 2: a definition cannot be read",
        ] {
            assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
        }
    });
}
