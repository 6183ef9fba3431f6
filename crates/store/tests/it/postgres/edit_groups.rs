//! Concurrent edits of the jobs of one collection, which share transactions.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use kalends_domain::{NewNote, NoteAuthor, NoteText};
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::{
    AdminStore, ApiStore, DecideJob, EditedJob, JobContext, JobFilter, JobWrite, Page, Rejection,
    StoreError,
};
use tokio_postgres::Client;

use super::database::{TestDatabase, codec, settings};
use super::sample::{at, collection_path, job_path, put, put_collection, put_job, standard};
use super::with_server;

type Edit<'a> = Pin<Box<dyn Future<Output = Result<EditedJob, StoreError>> + Send + 'a>>;

/// A store whose next edit waits for the lock of its collection.
pub(crate) struct Blocked<'a> {
    store: &'a PostgresStore,
    holder: Client,
    first: Edit<'a>,
}

impl Blocked<'_> {
    /// Locks collection `c` and begins an edit of job `first`, which waits for the lock.
    pub(crate) async fn new<'a>(store: &'a PostgresStore, database: &TestDatabase) -> Blocked<'a> {
        let holder = database.client().await;
        holder.batch_execute("BEGIN; SELECT FROM collections FOR UPDATE").await.unwrap();
        let mut first = edit(store, "first", decide_put());
        assert!(begin(&mut first).await.is_none());
        let waiting = "SELECT FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let observer = database.client().await;
        while observer.query(waiting, &[]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        Blocked { store, holder, first }
    }

    /// The outcomes of edits that all wait when the lock is released.
    pub(crate) async fn release(
        self,
        edits: Vec<(&str, DecideJob)>,
    ) -> Vec<Result<EditedJob, StoreError>> {
        let store = self.store;
        let mut waiting: Vec<_> =
            edits.into_iter().map(|(name, decide)| edit(store, name, decide)).collect();
        for edit in &mut waiting {
            assert!(begin(edit).await.is_none());
        }
        self.holder.batch_execute("COMMIT").await.unwrap();
        self.first.await.unwrap();
        let mut outcomes = Vec::new();
        for edit in waiting {
            outcomes.push(edit.await);
        }
        outcomes
    }
}

fn edit<'a>(store: &'a PostgresStore, name: &str, decide: DecideJob) -> Edit<'a> {
    Box::pin(store.edit_job(job_path(name), decide))
}

pub(crate) fn decide_put() -> DecideJob {
    Box::new(|_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put(Some(at(60)))))))
}

/// Begins an edit, which then waits in the queue. Returns its outcome if it has one already.
async fn begin(edit: &mut Edit<'_>) -> Option<Result<EditedJob, StoreError>> {
    poll_fn(|context| {
        Poll::Ready(match edit.as_mut().poll(context) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        })
    })
    .await
}

fn rejection() -> Rejection {
    Rejection::from(std::io::Error::other("no"))
}

async fn store_with_collection() -> (TestDatabase, PostgresStore) {
    let database = TestDatabase::create().await;
    let store = database.connect().await;
    put_collection(&store, "c", standard()).await;
    (database, store)
}

async fn names(store: &PostgresStore) -> Vec<String> {
    let page = store.jobs(collection_path("c"), JobFilter::default(), Page::first(999), 999);
    page.await.unwrap().jobs.into_iter().map(|job| job.path.job.as_str().to_owned()).collect()
}

#[test]
fn edits_that_wait_for_the_same_collection_share_a_transaction() {
    with_server(async {
        let (database, store) = store_with_collection().await;
        let blocked = Blocked::new(&store, &database).await;
        let jobs: Vec<_> = (0..50).map(|number| format!("j{number:02}")).collect();
        let edits = jobs.iter().map(|name| (name.as_str(), decide_put())).collect();
        let outcomes = blocked.release(edits).await;
        let created = |name: &str, outcome: &Result<EditedJob, _>| {
            let after = outcome.as_ref().unwrap().after.clone().unwrap();
            assert_eq!((after.path, after.version), (job_path(name), 1));
        };
        jobs.iter().zip(&outcomes).for_each(|(name, outcome)| created(name, outcome));
        let stored = |outcome: Result<EditedJob, _>| outcome.unwrap().after.unwrap();
        for job in outcomes.into_iter().map(stored) {
            assert_eq!(store.job(job.path.clone()).await.unwrap().unwrap().0, job);
        }
        let transactions = "SELECT DISTINCT xmin::text FROM jobs";
        let transactions = database.client().await.query(transactions, &[]).await.unwrap();
        assert_eq!(transactions.len(), 2, "that of the first edit, and one of all others");
        assert_eq!(store.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn edits_of_one_transaction_count_the_jobs_that_the_others_create_and_delete() {
    with_server(async {
        let (database, store) = store_with_collection().await;
        put_job(&store, "old", put(None)).await;
        let blocked = Blocked::new(&store, &database).await;
        let limited = || -> DecideJob {
            Box::new(|context: JobContext<'_>| match context.jobs < 4 {
                true => Ok(JobWrite::Put(Box::new(put(None)))),
                false => Err(rejection()),
            })
        };
        let delete: DecideJob = Box::new(|_: JobContext<'_>| Ok(JobWrite::Delete));
        let outcomes = blocked
            .release(vec![
                ("a", limited()),
                ("b", limited()),
                ("c", limited()),
                ("old", delete),
                ("d", limited()),
                ("e", limited()),
            ])
            .await;
        let is_rejected =
            |outcome: &Result<_, _>| *outcome == Err(StoreError::Rejected(rejection()));
        let rejected: Vec<_> = outcomes.iter().map(is_rejected).collect();
        assert_eq!(rejected, [false, false, true, false, false, true]);
        assert!(outcomes.iter().zip(rejected).all(|(outcome, is)| is || outcome.is_ok()));
        assert_eq!(names(&store).await, ["a", "b", "d", "first"]);
        assert_eq!(store.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn a_second_edit_of_a_job_sees_the_first_one_that_waited_with_it() {
    with_server(async {
        let (database, store) = store_with_collection().await;
        let blocked = Blocked::new(&store, &database).await;
        let counted = || -> DecideJob {
            Box::new(|context: JobContext<'_>| {
                let mut put = put(Some(at(60)));
                put.state.used = context.existing.map_or(1, |job| job.state.used + 1);
                Ok(JobWrite::Put(Box::new(put)))
            })
        };
        let edits = vec![("j", counted()), ("J", counted()), ("k", counted()), ("j", counted())];
        let outcomes = blocked.release(edits).await;
        let after = outcomes.into_iter().map(|outcome| outcome.unwrap().after.unwrap());
        let after: Vec<_> =
            after.map(|job| (job.version, job.job.generation, job.state.used)).collect();
        assert_eq!(after, [(1, 1, 1), (2, 2, 2), (1, 1, 1), (3, 3, 3)]);
        assert_eq!(store.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn a_statement_that_fails_concerns_only_its_own_edit() {
    with_server(async {
        let (database, store) = store_with_collection().await;
        let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                IF NEW.job_key = 'BAD' THEN RAISE 'planned' USING ERRCODE = '23514'; END IF;
                RETURN NEW;
             END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION refuse()";
        database.client().await.batch_execute(refuse).await.unwrap();
        let blocked = Blocked::new(&store, &database).await;
        let edits = ["a", "bad", "b", "rejected"].map(|name| (name, decide_put()));
        let mut edits = Vec::from(edits);
        edits[3].1 = Box::new(|_: JobContext<'_>| Err(rejection()));
        let outcomes = blocked.release(edits).await;
        assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
        assert!(matches!(outcomes[1], Err(StoreError::Failed(_))), "{outcomes:?}");
        assert_eq!(outcomes[3], Err(StoreError::Rejected(rejection())));
        assert_eq!(names(&store).await, ["a", "b", "first"]);
        assert_eq!(store.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn edits_of_all_kinds_share_a_transaction() {
    with_server(async {
        let (database, store) = store_with_collection().await;
        for name in ["replaced", "deleted", "run", "kept"] {
            put_job(&store, name, put(None)).await;
        }
        let blocked = Blocked::new(&store, &database).await;
        let outcomes = blocked
            .release(vec![
                ("replaced", decide_put()),
                ("deleted", Box::new(|_: JobContext<'_>| Ok(JobWrite::Delete))),
                ("run", Box::new(|_: JobContext<'_>| Ok(JobWrite::Run { at: at(70) }))),
                ("kept", Box::new(|_: JobContext<'_>| Ok(JobWrite::Keep))),
                ("absent", Box::new(|_: JobContext<'_>| Ok(JobWrite::Run { at: at(70) }))),
                ("new", decide_put()),
            ])
            .await;
        let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
        let version = |edited: &EditedJob| edited.after.as_ref().map(|job| job.version);
        let versions: Vec<_> = outcomes.iter().map(version).collect();
        assert_eq!(versions, [Some(2), None, Some(1), Some(1), None, Some(1)]);
        let run = outcomes[2].after.as_ref().unwrap();
        let open = store.open_runs(run.key).await.unwrap();
        assert_eq!(open.iter().map(|run| run.scheduled).collect::<Vec<_>>(), [at(70)]);
        assert_eq!(names(&store).await, ["first", "kept", "new", "replaced", "run"]);
        assert_eq!(store.check().await.unwrap(), [""; 0]);
    });
}

#[test]
fn notes_of_edits_that_share_a_transaction_belong_to_their_jobs() {
    with_server(async {
        let (database, store) = store_with_collection().await;
        put_job(&store, "old", put(None)).await;
        let blocked = Blocked::new(&store, &database).await;
        let note = |text: &str| {
            let author = NoteAuthor { id: "someone".into(), name: None };
            Some(NewNote { author, text: NoteText::new(text).unwrap() })
        };
        let mut noted: Vec<Edit<'_>> = vec![
            store.edit_job_with_note(job_path("new"), decide_put(), note("of the new job")),
            store.edit_job_with_note(job_path("old"), decide_put(), note("of the old job")),
            store.edit_job_with_note(job_path("silent"), decide_put(), None),
        ];
        for edit in &mut noted {
            assert!(begin(edit).await.is_none());
        }
        blocked.release(vec![]).await;
        for edit in noted {
            edit.await.unwrap();
        }
        for (name, expected) in
            [("new", vec!["of the new job"]), ("old", vec!["of the old job"]), ("silent", vec![])]
        {
            let notes = store.notes_of_job(job_path(name), Page::first(9)).await.unwrap().unwrap();
            let texts: Vec<_> = notes.iter().map(|note| note.text.as_str()).collect();
            assert_eq!(texts, expected, "{name}");
        }
    });
}

#[test]
fn an_edit_whose_caller_gave_up_while_it_waited_does_not_happen() {
    with_server(async {
        let (database, store) = store_with_collection().await;
        let blocked = Blocked::new(&store, &database).await;
        let mut given_up = edit(&store, "given-up", decide_put());
        assert!(begin(&mut given_up).await.is_none());
        drop(given_up);
        blocked.release(vec![("last", decide_put())]).await.remove(0).unwrap();
        assert_eq!(names(&store).await, ["first", "last"]);
    });
}

#[test]
fn edits_beyond_the_limit_of_waiting_calls_are_busy_at_once() {
    with_server(async {
        let database = TestDatabase::create().await;
        let settings = PostgresSettings { waiting_max: 3, ..settings() };
        let store = PostgresStore::connect(&database.url, settings, codec(1)).await.unwrap();
        put_collection(&store, "c", standard()).await;
        let blocked = Blocked::new(&store, &database).await;
        let mut waiting: Vec<_> =
            ["a", "b", "c"].map(|name| edit(&store, name, decide_put())).into();
        for edit in &mut waiting {
            assert!(begin(edit).await.is_none());
        }
        let refused = begin(&mut edit(&store, "d", decide_put())).await;
        assert!(matches!(refused, Some(Err(StoreError::Busy(_)))), "{refused:?}");
        // A place becomes free when a caller gives up.
        drop(waiting.pop());
        blocked.release(vec![("e", decide_put())]).await.remove(0).unwrap();
        for edit in waiting {
            edit.await.unwrap();
        }
        assert_eq!(names(&store).await, ["a", "b", "e", "first"]);
    });
}

#[test]
fn edits_go_on_after_one_whose_decision_panics() {
    with_server(async {
        let (database, store) = store_with_collection().await;
        let blocked = Blocked::new(&store, &database).await;
        let panics: DecideJob = Box::new(|_: JobContext<'_>| panic!("planned"));
        // The second edit of the job waits for a transaction after that of the first.
        let outcomes = blocked.release(vec![("j", panics), ("j", decide_put())]).await;
        assert!(matches!(outcomes[0], Err(StoreError::Unknown(_))), "{outcomes:?}");
        assert!(outcomes[1].is_ok(), "{outcomes:?}");
        assert_eq!(put_job(&store, "j", put(None)).await.version, 2);
    });
}
