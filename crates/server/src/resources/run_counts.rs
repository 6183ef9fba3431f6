//! `GET /api/run-counts`: closed runs per time, of all jobs that the caller may read.

use std::time::Duration;

use http::StatusCode;
use kalends_recurrence::{Instant, duration_to_ticks};
use kalends_store::{RUN_COUNTS_BUCKET, RUN_COUNTS_RETENTION, RunCounts};
use kalends_wire::{ErrorDetails, RunCountsOfTime, parse_duration, quoted, write_run_counts};

use super::{HandlerResult, RequestContext};
use crate::request::{Query, invalid};
use crate::response::{ApiError, ApiResponse};

const DAY: Duration = Duration::from_secs(86_400);
/// Default of `bucket`.
const BUCKET_DEFAULT: Duration = Duration::from_secs(3_600);

pub(super) async fn get(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    let (query, now) = (&request.query, request.app.now());
    let bucket = read_bucket(query)?;
    let oldest = now.saturating_sub(RUN_COUNTS_RETENTION);
    let to = query.time("to")?.unwrap_or(now);
    let from = query.time("from")?.unwrap_or_else(|| to.saturating_sub(DAY)).max(oldest);
    let to = to.min(now);
    if from > to {
        let message = format!("must lie between {oldest} and to, {to} (found {from})");
        return Err(ApiError::from(invalid("from", message)));
    }
    // Whole buckets, which include `from` and `to`.
    let from = start_of(from, bucket);
    let scopes = request.caller.readable_scopes();
    let counts = request.app.store.run_counts(scopes, from, to.next_tick()).await?;
    let mut buckets: Vec<RunCountsOfTime> = Vec::new();
    let mut start = from;
    while start <= to {
        let end = start.saturating_add(bucket);
        let mut sum = RunCounts::default();
        let inside = counts.iter().filter(|(at, _)| (start..end).contains(at));
        inside.for_each(|(_, counts)| sum.add(*counts));
        let RunCounts { succeeded, failed, skipped, missed } = sum;
        buckets.push(RunCountsOfTime { start, succeeded, failed, skipped, missed });
        start = end;
    }
    Ok(ApiResponse::json(StatusCode::OK, &write_run_counts(bucket, &buckets)))
}

fn read_bucket(query: &Query) -> Result<Duration, ErrorDetails> {
    let Some(text) = query.text("bucket")? else { return Ok(BUCKET_DEFAULT) };
    let is_allowed = |duration: &Duration| {
        (RUN_COUNTS_BUCKET..=DAY).contains(duration)
            && duration.as_nanos().is_multiple_of(RUN_COUNTS_BUCKET.as_nanos())
    };
    parse_duration(text).filter(is_allowed).ok_or_else(|| {
        let message = "must be a multiple of PT10M up to P1D";
        invalid("bucket", format!("{message} (found {})", quoted(text)))
    })
}

/// The start of the bucket of a time; buckets are counted from 1970.
fn start_of(time: Instant, bucket: Duration) -> Instant {
    let length = duration_to_ticks(bucket);
    let start = time.ticks().div_euclid(length) * length;
    Instant::from_ticks(start).unwrap_or(time)
}
