//! Writes jobs and runs to a store and prints each acknowledged write, for tests that kill the process
//! or simulate power loss.
//!
//! ```text
//! durable_writer write FILE FIRST COUNT STREAMS   # prints a line for each acknowledged write
//! durable_writer verify FILE < lines              # checks that the store contains all of them
//! ```

#[path = "../tests/it/sample.rs"]
mod sample;

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{ActionRole, AttemptStatus, HistoryEntry, Target, Timing};
use kalends_environment::{SeededEntropy, SystemClock};
use kalends_recurrence::Instant;
use kalends_store::encryption::{Cipher, MasterKey};
use kalends_store::record::{
    Cause, Disposition, FencingToken, JobRecord, LedgerRecord, NodeId, Progress, RunId,
};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use kalends_store::stored_form::DefinitionCodec;
use kalends_store::{
    AdminStore, ApiStore, AttemptCounts, CollectionContext, CollectionWrite, DueJob, EngineStore,
    HistoryFilter, JobContext, JobWrite, Page, RunWrite, RunWriteResult,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// One of this many jobs is deleted after its run.
const DELETE_EVERY: u64 = 8;

/// A low threshold, so that the store flushes continuously.
const FLUSH_THRESHOLD_ROWS: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["write", file, first, count, streams] => write(Path::new(file), (first, count, streams)),
        ["verify", file] => verify(Path::new(file)),
        _ => Err("usage: durable_writer write FILE FIRST COUNT STREAMS | verify FILE".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

fn open(file: &Path) -> Outcome<SqliteStore> {
    let entropy = Arc::new(SeededEntropy::new(1));
    let (key, _) = MasterKey::generate(&*entropy)?;
    let codec = DefinitionCodec::new(Cipher::new(key, vec![], entropy), Default::default());
    let settings =
        SqliteSettings { flush_threshold_rows: FLUSH_THRESHOLD_ROWS, ..SqliteSettings::default() };
    Ok(SqliteStore::open(file, settings, codec, Arc::new(SystemClock))?)
}

fn print_line(line: &str) -> Outcome<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

fn write(file: &Path, (first, count, streams): (&str, &str, &str)) -> Outcome<()> {
    let (first, count, streams): (u64, u64, u64) =
        (first.parse()?, count.parse()?, streams.parse()?);
    let store = open(file)?;
    block_on(async {
        let decide =
            Box::new(|_: CollectionContext<'_>| Ok(CollectionWrite::Put(sample::collection())));
        store.edit_collection(sample::collection_path("c")?, decide).await?;
        print_line("collection")
    })?;
    // Each stream waits for its own writes only, so that commits contain requests of several streams.
    std::thread::scope(|scope| {
        let streams = (0..streams).map(|stream| {
            let store = &store;
            let numbers = (first..first + count).filter(move |number| number % streams == stream);
            scope.spawn(move || {
                let written = block_on(write_jobs(store, numbers));
                written.map_err(|error| error.to_string())
            })
        });
        let streams: Vec<_> = streams.collect();
        streams.into_iter().try_for_each(|stream| {
            let written = stream.join().map_err(|_| "a stream panicked")?;
            Ok(written?)
        })
    })
}

async fn write_jobs(store: &SqliteStore, numbers: impl Iterator<Item = u64>) -> Outcome<()> {
    let due: Instant = "2026-01-01T00:00:00Z".parse().map_err(|_| "invalid time")?;
    for number in numbers {
        let path = sample::job_path("c", &format!("job-{number}"))?;
        let uri = format!("https://example.com/{number}?sig=secret");
        let definition = sample::definition(Target::Http(sample::request(&uri)));
        let put = sample::put(definition, number.into(), due);
        let decide = move |_: JobContext<'_>| Ok(JobWrite::Put(Box::new(put.clone())));
        let edited = store.edit_job(path.clone(), Box::new(decide)).await?;
        print_line(&format!("job {number}"))?;
        run(store, &edited.after.ok_or("no job was created")?, due).await?;
        print_line(&format!("run {number}"))?;
        if number % DELETE_EVERY == 0 {
            print_line(&format!("deleting {number}"))?;
            let decide = Box::new(|_: JobContext<'_>| Ok(JobWrite::Delete));
            store.edit_job(path, decide).await?;
            print_line(&format!("gone {number}"))?;
        }
    }
    Ok(())
}

/// Begins and finishes a run.
async fn run(store: &SqliteStore, job: &JobRecord, due: Instant) -> Outcome<()> {
    let begin = RunWrite::Begin {
        on: DueJob { job: job.key, generation: job.job.generation, due },
        scheduled: due,
        progress: Progress::first(due),
        owner: Some(NodeId(1)),
        lease: Duration::from_secs(10),
        advance: sample::advance(due, 1),
        closed: vec![],
        postponed: vec![],
        waits_for: None,
    };
    let begun = store.commit(vec![begin]).await?;
    let [RunWriteResult::Begun { run, claim: Some(claim) }] = begun.as_slice() else {
        return Err(format!("not begun: {begun:?}").into());
    };
    let finished = store.commit(vec![finish(*run, claim.token, due)]).await?;
    match finished == [RunWriteResult::Done] {
        true => Ok(()),
        false => Err(format!("not finished: {finished:?}").into()),
    }
}

fn finish(run: RunId, token: FencingToken, due: Instant) -> RunWrite {
    let entry = HistoryEntry {
        started: due,
        ended: due,
        expected: due,
        status: AttemptStatus::Completed,
        message: "200 OK".into(),
        retry: 0,
        repeat: 1,
        role: ActionRole::Main,
        timing: Timing::default(),
        generation: Some(1),
    };
    let closed = LedgerRecord {
        generation: 1,
        from: due,
        to: due,
        count: 1,
        cause: Cause::Scheduled,
        disposition: Disposition::Completed,
        closed: due,
    };
    let counts = AttemptCounts { executed: Some(due), failed: false, faulted: false };
    RunWrite::Finish {
        run,
        token,
        entry: Some(entry),
        counts,
        closed,
        lifecycle: None,
        unused: None,
    }
}

fn verify(file: &Path) -> Outcome<()> {
    let lines: Vec<String> = std::io::stdin().lock().lines().collect::<Result<_, _>>()?;
    let numbers = |word: &str| {
        let of_word = |line: &String| line.strip_prefix(word)?.strip_prefix(' ')?.parse().ok();
        lines.iter().filter_map(of_word).collect::<BTreeSet<u64>>()
    };
    let (jobs, runs) = (numbers("job"), numbers("run"));
    let (deleting, gone) = (numbers("deleting"), numbers("gone"));
    let store = open(file)?;
    let mut findings = block_on(store.check())?;
    for &number in &jobs {
        let path = sample::job_path("c", &format!("job-{number}"))?;
        let page = Page::first(10);
        let job = block_on(store.job(path.clone()))?;
        let history = block_on(store.history(path, HistoryFilter::default(), page))?;
        match job {
            None if !deleting.contains(&number) => findings.push(format!("job {number} is lost")),
            Some(_) if gone.contains(&number) => findings.push(format!("job {number} reappeared")),
            Some((job, _)) if runs.contains(&number) => {
                let ledger = block_on(store.ledger(job.key, Instant::MIN, Instant::MAX, 10))?.len();
                let entries = history.map_or(0, |entries| entries.len());
                if (job.state.executions, entries, ledger) != (1, 1, 1) {
                    findings.push(format!("the run of job {number} is lost"));
                }
            }
            _ => {}
        }
    }
    match findings.is_empty() {
        true => print_line(&format!("{} acknowledged writes, none lost", lines.len())),
        false => Err(findings.join("\n").into()),
    }
}

/// Runs a future to completion.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    // The store needs no async runtime.
    let mut future = std::pin::pin!(future);
    let wake = Arc::new(Unpark(std::thread::current()));
    let waker = wake.into();
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// Unparks the waiting thread.
struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
