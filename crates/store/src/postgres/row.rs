//! Converts rows to records. The column lists are in `columns`.

use kalends_domain::{
    ClosedRun, CollectionName, CollectionPath, Execution, GroupName, GroupPath, HistoryEntry,
    JobName, JobPath, Micros, NameError, RunOutcome, SubscriptionId, Timing,
};
use kalends_recurrence::{Instant, ticks_to_duration};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::{StoreError, UnreadableJob};
use crate::postgres::clock::clock_of;
use crate::postgres::code::{Code, instant};
use crate::postgres::pause::pause;
use crate::record::{
    Claim, CollectionRecord, CollectionStatus, FencingToken, GroupRecord, HistoryRecord, Job,
    JobKey, JobRecord, JobState, JobUid, LedgerRecord, NodeId, OpenRun, Progress, RunId, SlotKey,
};
use crate::run_reports::RecordedAttempts;
use crate::stored_form::{DefinitionCodec, read_collection, read_definition};

pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: &str) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| StoreError::Damaged(format!("{column}: {error}")))
}

pub(super) fn unsigned(row: &Row, column: &str) -> Result<u64, StoreError> {
    get::<i64>(row, column).map(i64::cast_unsigned)
}

/// A time, stored as ticks of 100 ns.
pub(super) fn at(row: &Row, column: &str) -> Result<Instant, StoreError> {
    get(row, column).and_then(instant)
}

pub(super) fn optional_at(row: &Row, column: &str) -> Result<Option<Instant>, StoreError> {
    get::<Option<i64>>(row, column)?.map(instant).transpose()
}

pub(super) fn coded<C: Code>(row: &Row, column: &str) -> Result<C, StoreError> {
    get(row, column).and_then(C::of)
}

fn unsigned_32(row: &Row, column: &str) -> Result<u32, StoreError> {
    let number = u32::try_from(get::<i64>(row, column)?);
    number.map_err(|_| StoreError::Damaged(format!("{column} is out of range")))
}

fn invalid_name(error: NameError) -> StoreError {
    StoreError::Damaged(error.to_string())
}

fn group_path(row: &Row) -> Result<GroupPath, StoreError> {
    Ok(GroupPath {
        subscription: SubscriptionId::new(get(row, "subscription")?).map_err(invalid_name)?,
        group: GroupName::new(get(row, "group_name")?).map_err(invalid_name)?,
    })
}

pub(super) fn collection_path(row: &Row) -> Result<CollectionPath, StoreError> {
    let collection = CollectionName::new(get(row, "collection_name")?).map_err(invalid_name)?;
    Ok(CollectionPath { group: group_path(row)?, collection })
}

pub(super) fn job_path(row: &Row) -> Result<JobPath, StoreError> {
    let job = JobName::new(get(row, "job_name")?).map_err(invalid_name)?;
    Ok(JobPath { collection: collection_path(row)?, job })
}

pub(super) fn group(row: &Row) -> Result<GroupRecord, StoreError> {
    let (location, tags) = read_group(get(row, "group_definition")?)?;
    Ok(GroupRecord { path: group_path(row)?, location, tags })
}

type GroupForm = (Option<String>, Vec<(String, String)>);

/// The stored form of a group: its location and tags as JSON.
pub(super) fn write_group(group: &GroupRecord) -> Result<String, StoreError> {
    serde_json::to_string(&(&group.location, &group.tags))
        .map_err(|error| StoreError::Failed(error.to_string()))
}

fn read_group(text: &str) -> Result<GroupForm, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Damaged(error.to_string()))
}

pub(super) fn collection(row: &Row) -> Result<CollectionRecord, StoreError> {
    Ok(CollectionRecord {
        path: collection_path(row)?,
        collection: read_collection(get(row, "collection_definition")?)?,
        created: at(row, "collection_created")?,
        enabled_since: at(row, "enabled_since")?,
        version: unsigned(row, "collection_version")?,
    })
}

/// The columns of `collection_status_columns!`.
pub(super) fn collection_status(row: &Row) -> Result<CollectionStatus, StoreError> {
    let (state, now) = (
        read_collection(get(row, "collection_definition")?)?.state,
        clock_of(std::slice::from_ref(row))?,
    );
    let is_paused = pause(row)?.is_some_and(|pause| pause.is_active(now));
    Ok(CollectionStatus { state, is_paused })
}

/// Reads a job with the path of its collection. Fails with [`StoreError::Unreadable`] if its contents
/// cannot be decoded.
pub(super) fn job(row: &Row, codec: &DefinitionCodec) -> Result<JobRecord, StoreError> {
    match collection_path(row) {
        Ok(collection) => job_of(row, &collection, codec),
        Err(StoreError::Damaged(reason)) => Err(unreadable(row, None, reason)),
        Err(error) => Err(error),
    }
}

/// Reads a job of a collection. Fails with [`StoreError::Unreadable`] if its contents cannot be decoded.
pub(super) fn job_of(
    row: &Row,
    collection: &CollectionPath,
    codec: &DefinitionCodec,
) -> Result<JobRecord, StoreError> {
    decode_job(row, collection, codec).map_err(|error| match error {
        StoreError::Damaged(reason) => unreadable(row, Some(collection), reason),
        other => other,
    })
}

/// The error of a job that cannot be read.
fn unreadable(row: &Row, collection: Option<&CollectionPath>, reason: String) -> StoreError {
    let Ok(key) = get(row, "key").map(JobKey) else { return StoreError::Damaged(reason) };
    let path = collection.and_then(|collection| {
        let name: &str = get(row, "job_name").ok()?;
        Some(format!("{collection}/jobs/{name}"))
    });
    StoreError::Unreadable(vec![UnreadableJob { key, path, reason }])
}

pub(super) fn uid(row: &Row) -> Result<JobUid, StoreError> {
    let uid: &[u8] = get(row, "uid")?;
    let uid = uid.try_into().map(JobUid);
    uid.map_err(|_| StoreError::Damaged("uid does not have 16 bytes".into()))
}

fn decode_job(
    row: &Row,
    collection: &CollectionPath,
    codec: &DefinitionCodec,
) -> Result<JobRecord, StoreError> {
    let uid = uid(row)?;
    Ok(JobRecord {
        key: JobKey(get(row, "key")?),
        path: JobPath {
            collection: collection.clone(),
            job: JobName::new(get(row, "job_name")?).map_err(invalid_name)?,
        },
        job: Job {
            uid,
            created: at(row, "created")?,
            definition: read_definition(get(row, "definition")?, uid, codec)?,
            generation: unsigned(row, "generation")?,
            schedule_generation: unsigned(row, "schedule_generation")?,
            enabled_since: optional_at(row, "job_enabled_since")?,
        },
        state: state(row)?,
        version: unsigned(row, "version")?,
    })
}

pub(super) fn state(row: &Row) -> Result<JobState, StoreError> {
    Ok(JobState {
        lifecycle: coded(row, "lifecycle")?,
        due: optional_at(row, "due")?,
        used: unsigned(row, "used")?,
        last_execution: optional_at(row, "last_execution")?,
        executions: unsigned(row, "executions")?,
        failures: unsigned(row, "failures")?,
        faulted: unsigned(row, "faulted")?,
        finished: optional_at(row, "finished")?,
        consecutive_failures: unsigned(row, "consecutive_failures")?,
        skip_until: optional_at(row, "skip_until")?,
    })
}

pub(super) fn run(row: &Row) -> Result<OpenRun, StoreError> {
    let owner = get::<Option<i64>>(row, "owner")?;
    let claim = |owner: i64| {
        Ok::<_, StoreError>(Claim {
            owner: NodeId(owner.cast_unsigned()),
            token: FencingToken(unsigned(row, "token")?),
            lease_until: at(row, "lease_until")?,
        })
    };
    Ok(OpenRun {
        id: RunId(get(row, "id")?),
        job: JobKey(get(row, "job")?),
        generation: unsigned(row, "generation")?,
        scheduled: at(row, "scheduled")?,
        cause: coded(row, "cause")?,
        repeat: unsigned(row, "repeat")?,
        progress: Progress {
            role: coded(row, "role")?,
            retry: unsigned_32(row, "retry")?,
            redelivery: unsigned_32(row, "redelivery")?,
            next_at: at(row, "next_at")?,
            first_started: optional_at(row, "first_started")?,
        },
        claim: owner.map(claim).transpose()?,
        waits_for: get::<Option<i64>>(row, "waits_for")?.map(|key| SlotKey(key.cast_unsigned())),
    })
}

pub(super) fn history(row: &Row) -> Result<HistoryRecord, StoreError> {
    Ok(HistoryRecord {
        sequence: unsigned(row, "sequence")?,
        entry: HistoryEntry {
            started: at(row, "started")?,
            ended: at(row, "ended")?,
            expected: at(row, "expected")?,
            status: coded(row, "status")?,
            message: message(row)?,
            retry: unsigned_32(row, "retry")?,
            repeat: unsigned(row, "repeat")?,
            role: coded(row, "role")?,
            timing: Timing {
                dns: micros(row, "dns")?,
                connect: micros(row, "connect")?,
                tls: micros(row, "tls")?,
                first_byte: micros(row, "first_byte")?,
                total: micros(row, "total")?,
            },
            generation: get::<Option<i64>>(row, "generation")?.map(i64::cast_unsigned),
        },
    })
}

/// The message of a history entry, which is stored as JSON.
pub(super) fn message(row: &Row) -> Result<String, StoreError> {
    let message = serde_json::from_str(get(row, "message")?);
    message.map_err(|error| StoreError::Damaged(error.to_string()))
}

fn micros(row: &Row, column: &str) -> Result<Option<Micros>, StoreError> {
    Ok(get::<Option<i32>>(row, column)?.map(|micros| Micros::new(micros.unsigned_abs())))
}

pub(super) fn ledger(row: &Row) -> Result<LedgerRecord, StoreError> {
    Ok(LedgerRecord {
        generation: unsigned(row, "generation")?,
        from: at(row, "first_at")?,
        to: at(row, "last_at")?,
        count: unsigned(row, "count")?,
        cause: coded(row, "cause")?,
        disposition: coded(row, "disposition")?,
        closed: at(row, "closed")?,
    })
}

pub(super) fn closed_run(row: &Row) -> Result<ClosedRun, StoreError> {
    let attempts = get::<Option<i32>>(row, "attempts")?.map(i32::unsigned_abs);
    let times = optional_at(row, "started")?.zip(optional_at(row, "ended")?);
    let execution = times.zip(attempts);
    let execution =
        execution.map(|((started, ended), attempts)| Execution { started, ended, attempts });
    Ok(ClosedRun { record: ledger(row)?, execution })
}

/// The outcomes of closed runs, from a row with an array of each column.
pub(super) fn outcomes(row: &Row) -> Result<Vec<RunOutcome>, StoreError> {
    let scheduled: Vec<i64> = get(row, "first_at")?;
    let dispositions: Vec<i16> = get(row, "disposition")?;
    let durations: Vec<Option<i64>> = get(row, "duration")?;
    let outcome = |((scheduled, disposition), duration): ((i64, i16), Option<i64>)| {
        Ok(RunOutcome {
            scheduled: instant(scheduled)?,
            disposition: Code::of(disposition)?,
            duration: duration.map(ticks_to_duration),
        })
    };
    scheduled.into_iter().zip(dispositions).zip(durations).map(outcome).collect()
}

/// The finished attempts of an open run.
pub(super) fn attempts(row: &Row) -> Result<RecordedAttempts, StoreError> {
    let count = get::<i32>(row, "attempts")?.unsigned_abs();
    Ok(RecordedAttempts { count, first_started: optional_at(row, "started")? })
}

/// The keys of a path: subscription, group and collection, each for comparison without case.
pub(super) fn path_keys(path: &CollectionPath) -> [String; 3] {
    [path.group.subscription.key(), path.group.group.key(), path.collection.key()]
}

/// The rows for which an outer join found a match, which `column` of the joined table tells.
pub(super) fn matched<'a>(rows: &'a [Row], column: &str) -> Result<Vec<&'a Row>, StoreError> {
    let match_in = |row: &'a Row| Ok(get::<Option<i64>>(row, column)?.map(|_| row));
    rows.iter().filter_map(|row| match_in(row).transpose()).collect()
}
