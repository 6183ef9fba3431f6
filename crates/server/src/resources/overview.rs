//! `GET /api/overview`, `/api/attention` and `/api/expected-runs`: numbers over all collections that
//! the caller may read. A scan in the background computes them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use http::StatusCode;
use kalends_domain::{AccessScope, CollectionPath};
use kalends_recurrence::Instant;
use kalends_store::record::JobKey;
use kalends_store::{OpenRunCount, SCAN_MAX};
use kalends_wire::{
    AttentionEntry, Counted, ExpectedBucket, JobCounts, OverviewCollection, OverviewNumbers,
    collection_id, job_id, write_attention, write_expected_runs, write_overview,
};

use super::all_jobs::collection_label;
use super::last_failures::{self, LastFailures};
use super::{HandlerResult, RequestContext};
use crate::access::Caller;
use crate::app::App;
use crate::overview::{
    ATTENTION_MAX, Attention, AttentionKind, CollectionOverview, Overview, SchedulesSnapshot,
    StateCounts, StatesSnapshot, align,
};
use crate::request::invalid;
use crate::response::{ApiError, ApiResponse};

/// Collections of an overview.
const COLLECTIONS_MAX: usize = 1_000;
/// Open runs up to which their number is exact.
const RUNNING_MAX: usize = 1_000;
/// Collections that a bucket of expected runs names.
const COLLECTIONS_NAMED_MAX: usize = 20;
/// Failing jobs of the attention list whose last failures are read.
const FAILURES_READ_MAX: usize = 50;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// `GET /api/overview`.
pub(super) async fn overview(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    let (app, caller) = (&request.app, &request.caller);
    let (states, schedules, running) =
        tokio::join!(Overview::states(app), Overview::schedules(app), running(app, caller));
    let running = running?;
    let Some(states) = states else {
        return Ok(ApiResponse::json(StatusCode::OK, &write_overview(running, None)));
    };
    let of_schedules = schedules.iter().flat_map(|found| found.readable(caller));
    let mut numbers = OverviewNumbers {
        calculated_at: states.calculated_at,
        jobs: JobCounts::default(),
        overdue: 0,
        due_within_hour: 0,
        attention: of_schedules.map(|collection| collection.attention_count).sum(),
        collections: vec![],
        more_collections: false,
    };
    let mut counts = StateCounts::default();
    for collection in states.readable(caller) {
        counts = counts.plus(collection.counts);
        numbers.due_within_hour += collection.due_within_hour;
        numbers.attention += collection.attention_count;
        match numbers.collections.len() < COLLECTIONS_MAX {
            true => numbers.collections.push(write_collection(app, collection)),
            false => numbers.more_collections = true,
        }
    }
    numbers.jobs = job_counts(counts);
    numbers.overdue = counts.overdue;
    Ok(ApiResponse::json(StatusCode::OK, &write_overview(running, Some(numbers))))
}

/// The open runs that the caller may read, as `GET /api/runs?status=Running` lists them.
async fn running(app: &App, caller: &Caller) -> Result<Counted, ApiError> {
    let scopes = caller.readable_scopes();
    let scan_max = match scopes.contains(&AccessScope::Everything) {
        true => RUNNING_MAX + 1,
        // Runs that the caller may not read are examined, too.
        false => SCAN_MAX,
    };
    let OpenRunCount { count, more } = app.store.open_run_count(scopes, scan_max).await?;
    let max = RUNNING_MAX as u64;
    Ok(Counted { count: count.min(max), more: more || count > max })
}

fn write_collection(app: &App, overview: &CollectionOverview) -> OverviewCollection {
    let counts = overview.counts;
    OverviewCollection {
        collection: collection_label(app, &overview.path),
        id: collection_id(&overview.path),
        state: overview.state,
        enabled: counts.enabled,
        disabled: counts.disabled,
        failing: counts.failing,
        jobs: counts.all,
        max_jobs: overview.jobs_max,
    }
}

fn job_counts(counts: StateCounts) -> JobCounts {
    let exact = |count| Counted { count, more: false };
    JobCounts {
        all: exact(counts.all),
        enabled: exact(counts.enabled),
        disabled: exact(counts.disabled),
        failing: exact(counts.failing),
        completed: exact(counts.completed),
        faulted: exact(counts.faulted),
    }
}

/// The counts of the jobs that a caller may read, or of one collection.
pub(super) fn counts_of(
    states: &StatesSnapshot,
    request: &RequestContext,
    within: Option<&CollectionPath>,
) -> JobCounts {
    let collections = states.readable(&request.caller);
    let collections =
        collections.filter(|collection| within.is_none_or(|within| collection.path == *within));
    job_counts(collections.fold(StateCounts::default(), |sum, one| sum.plus(one.counts)))
}

/// `GET /api/attention`.
pub(super) async fn attention(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    let limit = request.query.number("limit", 1..=ATTENTION_MAX)?.unwrap_or(ATTENTION_MAX);
    let (app, caller, now) = (&request.app, &request.caller, request.app.now());
    let (states, schedules) = tokio::join!(Overview::states(app), Overview::schedules(app));
    let (mut entries, mut count) = (Vec::new(), 0);
    for collection in states.iter().flat_map(|found| found.readable(caller)) {
        count += collection.attention_count;
        entries.extend(collection.attention.iter().map(|entry| (&collection.path, *entry)));
    }
    for collection in schedules.iter().flat_map(|found| found.readable(caller)) {
        count += collection.attention_count;
        entries.extend(collection.attention.iter().map(|entry| (&collection.path, *entry)));
    }
    // The sort is stable: within a kind, in the order of collections.
    entries.sort_by_key(|(_, entry)| entry.kind);
    entries.truncate(limit);
    let keys = entries.iter().filter_map(|(_, entry)| entry.job).collect();
    let names: HashMap<JobKey, _> = app.store.job_paths(keys).await?.into_iter().collect();
    let failing = entries.iter().filter(|(_, entry)| entry.kind == AttentionKind::Failing);
    let failing = failing.filter_map(|(_, entry)| Some((entry.job?, entry.count)));
    let mut failures_of =
        last_failures::read(app, failing.take(FAILURES_READ_MAX).collect()).await?;
    let mut write = |(path, entry): &(&CollectionPath, Attention)| {
        let collection = collection_label(app, path);
        let (job, id) = match entry.job {
            None => (None, collection_id(path)),
            // A job that was deleted meanwhile is left out.
            Some(job) => {
                let path = names.get(&job)?;
                (Some(path.job.to_string()), job_id(path))
            }
        };
        let failures = entry.job.filter(|_| entry.kind == AttentionKind::Failing);
        let failures = failures.and_then(|job| failures_of.remove(&job));
        let LastFailures { since, message } = failures.unwrap_or_default();
        Some(AttentionEntry {
            kind: entry.kind.word(),
            collection,
            job,
            id,
            since: entry.since().or(since),
            count: (entry.count > 0).then_some(entry.count),
            message: entry.message(now),
            last_message: message,
        })
    };
    let shown: Vec<_> = entries.iter().filter_map(&mut write).collect();
    let calculated_at = states.map(|found| found.calculated_at);
    let more = count > limit as u64;
    Ok(ApiResponse::json(StatusCode::OK, &write_attention(calculated_at, shown, more)))
}

/// The parameters of `GET /api/expected-runs`.
struct Span {
    from: Instant,
    to: Instant,
    bucket: Duration,
    bucket_text: &'static str,
    by_collection: bool,
}

/// `GET /api/expected-runs`.
pub(super) async fn expected_runs(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    let span = Span::read(&request)?;
    let schedules = Overview::schedules(&request.app).await;
    let calculated_at = schedules.as_ref().map(|found| found.calculated_at);
    let buckets = schedules.map_or_else(Vec::new, |found| span.count(&request, &found));
    let body = write_expected_runs(calculated_at, span.bucket_text, buckets);
    Ok(ApiResponse::json(StatusCode::OK, &body))
}

impl Span {
    fn read(request: &RequestContext) -> Result<Span, ApiError> {
        const BUCKETS: [(&str, (u32, &str)); 6] = [
            ("PT1M", (1, "PT1M")),
            ("PT5M", (5, "PT5M")),
            ("PT10M", (10, "PT10M")),
            ("PT15M", (15, "PT15M")),
            ("PT30M", (30, "PT30M")),
            ("PT1H", (60, "PT1H")),
        ];
        let query = &request.query;
        let (minutes, bucket_text) = query.word("bucket", &BUCKETS)?.unwrap_or((60, "PT1H"));
        let bucket = MINUTE * minutes;
        let by_collection = query.word("by", &[("collection", true)])?.unwrap_or(false);
        let now = request.app.now();
        let from = query.time("from")?.unwrap_or(now);
        let ahead = if bucket < HOUR { HOUR } else { WEEK };
        // A bucket more: the first one has begun already.
        let latest = now.saturating_add(ahead).saturating_add(bucket);
        let to = query.time("to")?.unwrap_or_else(|| from.saturating_add(ahead).min(latest));
        let earliest = now.saturating_sub(HOUR);
        if from < earliest {
            let message = format!("must not lie before {earliest} (found {from})");
            return Err(invalid("from", message).into());
        }
        if to < from || to > latest {
            let message = format!("must lie between from, {from}, and {latest} (found {to})");
            return Err(invalid("to", message).into());
        }
        Ok(Span { from: align(from, bucket), to, bucket, bucket_text, by_collection })
    }

    fn count(
        &self,
        request: &RequestContext,
        schedules: &SchedulesSnapshot,
    ) -> Vec<ExpectedBucket> {
        let starts: Vec<_> =
            std::iter::successors(Some(self.from), |start| Some(start.saturating_add(self.bucket)))
                .take_while(|start| *start < self.to)
                .collect();
        let mut counts = vec![0; starts.len()];
        let mut collections = Vec::new();
        for collection in schedules.readable(&request.caller) {
            let runs = |start: &Instant| {
                collection.expected(&schedules.buckets, *start, start.saturating_add(self.bucket))
            };
            let runs: Vec<u64> = starts.iter().map(runs).collect();
            let total: u64 = runs.iter().sum();
            counts.iter_mut().zip(&runs).for_each(|(count, runs)| *count += runs);
            if self.by_collection && total > 0 {
                collections.push((total, &collection.path, runs));
            }
        }
        collections.sort_by_key(|(total, ..)| std::cmp::Reverse(*total));
        let bucket = |(index, start): (usize, Instant)| {
            let mut named = BTreeMap::new();
            for (place, (_, path, runs)) in collections.iter().enumerate() {
                let runs = runs.get(index).copied().unwrap_or(0);
                let name = match place < COLLECTIONS_NAMED_MAX {
                    true => collection_label(&request.app, path),
                    false => String::new(),
                };
                if runs > 0 {
                    *named.entry(name).or_insert(0) += runs;
                }
            }
            let count = counts.get(index).copied().unwrap_or(0);
            ExpectedBucket { start, count, collections: self.by_collection.then_some(named) }
        };
        starts.into_iter().enumerate().map(bucket).collect()
    }
}
