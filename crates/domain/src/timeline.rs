//! The occurrence list of a job: past, running and upcoming occurrences in order of scheduled time, from
//! the ledger, the runs in flight and the rule.
//!
//! Past occurrences of the rule without a record are merged into one row: the job had another
//! definition at that time, or retention deleted the records.

use kalends_recurrence::{Instant, Rule};

use crate::job::Switch;
use crate::ledger::{Cause, Disposition, LedgerRecord};
use crate::pause::Pause;
use crate::run::{ActionRole, Lifecycle};

/// Input for the occurrence list of a job in a time range.
#[derive(Clone, Debug)]
pub struct Timeline<'a> {
    /// The job's rule, without its count.
    pub rule: &'a Rule,
    /// State of the job.
    pub job: JobSnapshot,
    /// Start of the range. Rows that end before it are omitted.
    pub from: Instant,
    /// End of the range. Rows that start after it are omitted.
    pub to: Instant,
    /// Ledger records in the range, in order of scheduled time.
    pub ledger: Vec<LedgerRecord>,
    /// Runs of the job that have not finished.
    pub runs: Vec<RunInFlight>,
}

/// The state of a job at the time `now`.
#[derive(Clone, Copy, Debug)]
pub struct JobSnapshot {
    /// Current time.
    pub now: Instant,
    /// Whether the job is active or finished.
    pub lifecycle: Lifecycle,
    /// Whether the job is enabled.
    pub switch: Switch,
    /// Whether the collection of the job is enabled.
    pub collection: Switch,
    /// The first occurrence that is neither started nor closed.
    pub due: Option<Instant>,
    /// Number of further occurrences that `count` allows; absent if unlimited.
    pub left: Option<u64>,
    /// Time at which the job finished.
    pub finished: Option<Instant>,
    /// The pause of all jobs, if it has not ended.
    pub pause: Option<Pause>,
    /// Occurrences up to this time are skipped by request.
    pub skip_until: Option<Instant>,
}

/// A run that has not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunInFlight {
    /// Scheduled time of the occurrence.
    pub scheduled: Instant,
    /// Trigger of the run.
    pub cause: Cause,
    /// Generation of the job definition; each edit increments it.
    pub generation: u64,
    /// Action of the current or next attempt.
    pub role: ActionRole,
    /// Number of retries of that action so far.
    pub retry: u32,
    /// Whether no attempt has started yet.
    pub is_unattempted: bool,
    /// Planned start time of the current or next attempt.
    pub attempt_at: Instant,
    /// Whether a node has claimed the run and an attempt is in flight.
    pub is_claimed: bool,
    /// The limit of attempts in flight that keeps a due run waiting.
    pub waits_for: Option<SlotLimit>,
}

/// A limit of attempts in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotLimit {
    /// [`HOST_ATTEMPTS_MAX`] per target host.
    Host,
    /// [`COLLECTION_ATTEMPTS_MAX`] per collection.
    Collection,
}

/// Maximum number of attempts in flight per node and target host.
pub const HOST_ATTEMPTS_MAX: usize = 256;
/// Maximum number of attempts in flight per node and collection.
pub const COLLECTION_ATTEMPTS_MAX: usize = 5_000;

/// A row of the list: one occurrence, or a range of occurrences in the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineRow {
    /// Scheduled time of the first occurrence.
    pub from: Instant,
    /// Scheduled time of the last occurrence; equal to `from` for a single one.
    pub to: Instant,
    /// Number of occurrences.
    pub count: u64,
    /// Trigger of the run.
    pub cause: Cause,
    /// Generation of the job definition; absent without a record or a run.
    pub generation: Option<u64>,
    /// State that applies to all occurrences of the row.
    pub state: OccurrenceState,
}

/// The state of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OccurrenceState {
    /// Closed with a disposition, at the given time.
    Closed(Disposition, Instant),
    /// The run has not finished.
    InFlight(RunInFlight),
    /// The occurrence will run.
    Upcoming,
    /// The occurrence does not run because the job is disabled.
    JobDisabled,
    /// The occurrence does not run because the collection is disabled.
    CollectionDisabled,
    /// The occurrence does not run because all jobs are paused.
    Paused,
    /// The occurrence will not run because a user requested to skip it.
    WillBeSkipped,
    /// The occurrence is past and has no record.
    NotRetained,
}

impl Timeline<'_> {
    /// The first `limit` rows.
    pub fn rows(&self, limit: usize) -> Vec<TimelineRow> {
        let mut rows = Vec::new();
        // Start of the range that no row covers yet.
        let mut open = self.from;
        for known in self.known() {
            self.fill(open, known.from.previous_tick(), limit, &mut rows);
            // A manual run does not cover an occurrence of the schedule.
            let done =
                if known.cause == Cause::Scheduled { known.to.next_tick() } else { known.from };
            open = open.max(done);
            rows.push(known);
        }
        self.fill(open, self.to, limit, &mut rows);
        rows.truncate(limit);
        rows
    }

    /// Rows from the ledger and the runs in flight, in order of scheduled time.
    fn known(&self) -> Vec<TimelineRow> {
        let closed = self.ledger.iter().map(|row| TimelineRow {
            from: row.from,
            to: row.to,
            count: row.count,
            cause: row.cause,
            generation: Some(row.generation),
            state: OccurrenceState::Closed(row.disposition, row.closed),
        });
        let runs = self.runs.iter().map(|run| TimelineRow {
            from: run.scheduled,
            to: run.scheduled,
            count: 1,
            cause: run.cause,
            generation: Some(run.generation),
            state: OccurrenceState::InFlight(*run),
        });
        let in_range = |row: &TimelineRow| row.to >= self.from && row.from <= self.to;
        let mut known: Vec<_> = closed.chain(runs).filter(in_range).collect();
        known.sort_by_key(|row| (row.from, row.to));
        known
    }

    /// Adds rows for the occurrences of the rule in `from..=to`, which has no record.
    fn fill(&self, from: Instant, to: Instant, limit: usize, rows: &mut Vec<TimelineRow>) {
        if from > to {
            return;
        }
        let passed = to.min(self.job.passed_until(&self.runs));
        let first = self.rule.next_after(from.previous_tick()).filter(|&first| first <= passed);
        if let Some(first) = first {
            let last = self.rule.last_at_or_before(passed).unwrap_or(first);
            let count = self.rule.count_between(first.previous_tick(), last);
            rows.push(plain(first, last, count, OccurrenceState::NotRetained));
        }
        let skipped = self.job.due_while_disabled(self.rule, from, to);
        rows.extend(skipped.map(|(first, last, count)| {
            plain(first, last, count, self.job.state_of_upcoming(last))
        }));
        let room = limit.saturating_sub(rows.len());
        let upcoming = self.job.upcoming(self.rule, from, to).take(room);
        rows.extend(upcoming.map(|at| plain(at, at, 1, self.job.state_of_upcoming(at))));
    }
}

impl JobSnapshot {
    /// Occurrences up to this time are past: they have a record, or it was not retained.
    fn passed_until(&self, runs: &[RunInFlight]) -> Instant {
        match (self.lifecycle, self.due, self.switch) {
            (Lifecycle::Active, Some(due), _) => due.previous_tick(),
            (Lifecycle::Active, None, Switch::Disabled) => self.now,
            // The last run is in flight.
            (Lifecycle::Active, None, Switch::Enabled) => {
                runs.iter().map(|run| run.scheduled).max().map_or(self.now, Instant::previous_tick)
            }
            _ => self.finished.unwrap_or(self.now).min(self.now),
        }
    }

    /// The occurrences in `from..=to` that are upcoming, or would be if the job were enabled. `rule` is
    /// the job's rule, without its count.
    pub fn upcoming<'r>(
        &self,
        rule: &'r Rule,
        from: Instant,
        to: Instant,
    ) -> impl Iterator<Item = Instant> + use<'r> {
        let first = self.first_upcoming(rule);
        // `left` counts from the first upcoming occurrence, which can be before `from`.
        let passed = first.filter(|&first| first < from).map_or(0, |first| {
            let since_first = rule.count_between(first.previous_tick(), from.previous_tick());
            // The immediate run of an edited one-time job is not an occurrence of its rule.
            since_first.max(1)
        });
        // Skipped occurrences use no count.
        let skipped = first
            .zip(self.skip_until)
            .map_or(0, |(first, until)| rule.count_between(first.previous_tick(), until));
        let left =
            self.left.map_or(u64::MAX, |left| left.saturating_add(skipped).saturating_sub(passed));
        let start = first.map(|first| {
            if first >= from { Some(first) } else { rule.next_after(from.previous_tick()) }
        });
        let points = std::iter::successors(start.flatten(), |&last| rule.next_after(last));
        points.take_while(move |&at| at <= to).take(usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// First, last and number of the occurrences in `from..=to` that came due while the job or its
    /// collection was disabled or all jobs were paused. They do not run later, except that a one-time
    /// job runs late: it is upcoming if its collection is disabled or all jobs are paused, and runs
    /// when it is enabled if it is disabled itself.
    pub(crate) fn due_while_disabled(
        &self,
        rule: &Rule,
        from: Instant,
        to: Instant,
    ) -> Option<(Instant, Instant, u64)> {
        let is_disabled = !matches!(
            self.state_of_upcoming(self.now),
            OccurrenceState::Upcoming | OccurrenceState::WillBeSkipped
        );
        let due = self.due.filter(|_| is_disabled && self.lifecycle == Lifecycle::Active)?;
        let until = to.min(self.now);
        if rule.definition().recurrence.is_none() {
            let did_not_run = self.switch == Switch::Disabled && from <= due && due <= until;
            return did_not_run.then_some((due, due, 1));
        }
        let first =
            rule.next_after(from.max(due).previous_tick()).filter(|&first| first <= until)?;
        let last = rule.last_at_or_before(until).unwrap_or(first);
        Some((first, last, rule.count_between(first.previous_tick(), last)))
    }

    /// The next occurrence, or the one that would be next if the job were enabled.
    pub(crate) fn first_upcoming(&self, rule: &Rule) -> Option<Instant> {
        let has_skipped = self.due_while_disabled(rule, Instant::MIN, Instant::MAX).is_some();
        match (self.lifecycle, self.switch) {
            (Lifecycle::Active, Switch::Enabled) if has_skipped => rule.next_after(self.now),
            (Lifecycle::Active, Switch::Enabled) => self.due,
            (Lifecycle::Active, Switch::Disabled) => {
                self.due.filter(|&due| due > self.now).or_else(|| rule.next_after(self.now))
            }
            _ => None,
        }
        .filter(|_| self.left != Some(0))
    }

    /// The next occurrence that is not skipped by request, or the one that would be next if the job were
    /// enabled.
    pub fn first_not_skipped(&self, rule: &Rule) -> Option<Instant> {
        let first = self.first_upcoming(rule)?;
        match self.skip_until.filter(|_| self.is_skipped(first)) {
            Some(until) => rule.next_after(until),
            None => Some(first),
        }
    }

    fn is_skipped(&self, at: Instant) -> bool {
        self.skip_until.is_some_and(|until| at <= until)
    }

    /// Whether an occurrence is upcoming, or would be if the job were enabled.
    pub(crate) fn is_upcoming(&self, rule: &Rule, at: Instant) -> bool {
        self.upcoming(rule, at, at).next().is_some()
    }

    /// Whether the run waits until its job and its collection are enabled and no pause holds it. A manual
    /// run does not need its job to be enabled.
    pub(crate) fn holds(&self, run: &RunInFlight) -> bool {
        let is_job_off = run.cause == Cause::Scheduled && self.switch == Switch::Disabled;
        let is_off = self.collection == Switch::Disabled || self.pause.is_some();
        !run.is_claimed && (is_job_off || is_off)
    }

    /// The state of an occurrence without a run at `at`.
    pub(crate) fn state_of_upcoming(&self, at: Instant) -> OccurrenceState {
        match (self.switch, self.collection) {
            (Switch::Disabled, _) => OccurrenceState::JobDisabled,
            (_, Switch::Disabled) => OccurrenceState::CollectionDisabled,
            _ if self.pause.is_some_and(|pause| pause.is_active(at)) => OccurrenceState::Paused,
            _ if self.is_skipped(at) => OccurrenceState::WillBeSkipped,
            _ => OccurrenceState::Upcoming,
        }
    }
}

fn plain(from: Instant, to: Instant, count: u64, state: OccurrenceState) -> TimelineRow {
    TimelineRow { from, to, count, cause: Cause::Scheduled, generation: None, state }
}

#[cfg(test)]
mod tests;
