//! The schema, its migrations and the integrity check.

use std::time::Duration;

use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::record::NodeId;
use kalends_store::{AdminStore, EngineStore, StoreError};
use tokio::task::JoinSet;

use super::database::{TestDatabase, codec, settings};
use super::sample::{begin, due_jobs};
use super::with_server;

/// Set it to overwrite the committed file instead of comparing with it.
const WRITE: &str = "KALENDS_WRITE_SCHEMA";

#[test]
fn the_schema_matches_its_committed_description() {
    with_server(async {
        let schema = TestDatabase::create().await.connect().await.describe_schema().await.unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres/schema.txt");
        if std::env::var(WRITE).is_ok() {
            std::fs::write(path, &schema).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        assert!(schema == written, "run with {WRITE}=1 and check the difference:\n{schema}");
    });
}

#[test]
fn many_nodes_can_start_concurrently_on_an_empty_database() {
    with_server(async {
        let database = TestDatabase::create().await;
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let url = database.url.clone();
            tasks.spawn(async move {
                PostgresStore::connect(&url, settings(), codec(1)).await.map(drop)
            });
        }
        assert_eq!(tasks.join_all().await, vec![Ok(()); 8]);
        let steps = "SELECT count(*) FROM schema_steps";
        let steps: i64 = database.client().await.query_one(steps, &[]).await.unwrap().get(0);
        assert_eq!(steps, 20);
    });
}

#[test]
fn a_failed_migration_is_rolled_back_and_repeated() {
    with_server(async {
        let database = TestDatabase::create().await;
        let client = database.client().await;
        // Makes one of the last statements fail.
        client.batch_execute("CREATE TABLE key_check (id INT)").await.unwrap();
        let failed = PostgresStore::connect(&database.url, settings(), codec(1)).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
        let left = "SELECT count(*) FROM pg_tables WHERE tablename = 'jobs'";
        let left: i64 = client.query_one(left, &[]).await.unwrap().get(0);
        assert_eq!(left, 0);
        client.batch_execute("DROP TABLE key_check").await.unwrap();
        database.connect().await;
    });
}

#[test]
fn a_schema_of_a_newer_version_is_refused() {
    with_server(async {
        let database = TestDatabase::create().await;
        database.connect().await;
        let newer = "INSERT INTO schema_steps (number, name) VALUES (21, 'of the future')";
        database.client().await.execute(newer, &[]).await.unwrap();
        let refused = PostgresStore::connect(&database.url, settings(), codec(1)).await;
        let Err(error) = refused else { panic!("{refused:?}") };
        assert_eq!(error, StoreError::TooNew { found: 21, known: 20 });
    });
}

#[test]
fn the_integrity_check_finds_every_kind_of_damage() {
    with_server(async {
        let database = TestDatabase::create().await;
        let store = database.connect().await;
        let jobs = due_jobs(&store, 2).await;
        store.commit(vec![begin(&jobs[0], Some(NodeId(1)))]).await.unwrap();
        assert_eq!(store.check().await.unwrap(), [""; 0]);
        let damage = "INSERT INTO history (job, started, ended, expected, status, message, retry, repeat, role)
                VALUES (999, 0, 0, 0, 0, '\"\"', 0, 0, 0);
            INSERT INTO ledger (job, first_at, last_at, generation, count, cause, disposition, closed)
                VALUES (999, 0, 0, 0, 0, 0, 0, 0);
            INSERT INTO notes (number, time, action, collection_id, job, author, text)
                VALUES (997, 0, 0, 1, 999, '', ''), (998, 0, 0, 999, 0, '', '');
            INSERT INTO earlier_definitions (number, job, generation, replaced, definition)
                VALUES (996, 999, 1, 0, '{}'), (997, 1, 7, 0, '{}');
            UPDATE collections SET jobs = 7;
            UPDATE states SET entries = 7, generation = 0, finished = 0 WHERE job = 1;
            UPDATE jobs SET collection_id = 77 WHERE key = 2;
            INSERT INTO due_floors SELECT id, 9000000000000000000 FROM collections;
            INSERT INTO runs SELECT id + 100, 999, generation, scheduled, cause, repeat, role, retry,
                redelivery, next_at, first_started, owner, token, lease_until, last_token FROM runs;
            INSERT INTO states (job, collection_id, generation, enabled, lifecycle, used, executions,
                failures, faulted, entries) VALUES (999, 1, 1, true, 0, 0, 0, 0, 0, 0);
            UPDATE jobs SET definition = '{}' WHERE key = 1;";
        database.client().await.batch_execute(damage).await.unwrap();
        let found = store.check().await.unwrap();
        for expected in [
            "run 101 belongs to no job",
            "state 999 belongs to no job",
            "history of no job: 999",
            "ledger of no job: 999",
            "note 997 belongs to nothing",
            "note 998 belongs to nothing",
            "earlier definition 996 belongs to no job",
            "job 1, generation 7: the store is damaged",
            "counts 7 jobs and has 1",
            "counts 7 entries and has 0",
            "job 2 belongs to no collection",
            "job 1 is due before the lower bound of its collection",
            "job 1 is finished and active",
            "has a generation or token from the future",
            "job 1: a definition cannot be read",
        ] {
            assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
        }
    });
}

/// A migration that a time limit rolls back would begin again at every start.
#[test]
fn a_migration_may_take_longer_than_every_time_limit() {
    with_server(async {
        let database = TestDatabase::create().await;
        let slow = "CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_sleep(0.1); END $$;
             CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
             EXECUTE FUNCTION slow()";
        database.client().await.batch_execute(slow).await.unwrap();
        let limit = Duration::from_millis(300);
        let settings = PostgresSettings { deadline: limit, long_deadline: limit, ..settings() };
        PostgresStore::connect(&database.url, settings, codec(1)).await.unwrap();
    });
}
