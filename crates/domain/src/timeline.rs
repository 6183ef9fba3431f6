//! What a job did and will do, as one row for each scheduled instant: from the ledger, from the runs
//! under way and from the rule, in the order of their instants.
//!
//! What the ledger says nothing of is told as one stretch: the job was defined otherwise then, or the
//! rows have been removed in time.

use kalends_recurrence::{Instant, Rule};

use crate::job::Switch;
use crate::ledger::{Cause, Disposition, LedgerRecord};
use crate::run::{ActionRole, Lifecycle};

/// What is known of a job's occurrences in a span.
#[derive(Clone, Debug)]
pub struct Timeline<'a> {
    /// The job's rule, without its count.
    pub rule: &'a Rule,
    /// How the job goes on.
    pub job: JobSnapshot,
    /// Only rows whose last instant is not before this.
    pub from: Instant,
    /// Only rows whose first instant is not after this.
    pub to: Instant,
    /// What the ledger has there, in the order of its instants.
    pub ledger: Vec<LedgerRecord>,
    /// The runs under way.
    pub runs: Vec<RunInFlight>,
}

/// How a job goes on.
#[derive(Clone, Copy, Debug)]
pub struct JobSnapshot {
    /// The present.
    pub now: Instant,
    /// Whether it goes on.
    pub lifecycle: Lifecycle,
    /// Whether the job is switched on.
    pub switch: Switch,
    /// Whether its collection is.
    pub collection: Switch,
    /// The next occurrence that is neither begun nor closed.
    pub due: Option<Instant>,
    /// How many more occurrences may start a run; absent where there is no count.
    pub left: Option<u64>,
    /// When the job was finished.
    pub finished: Option<Instant>,
}

/// An occurrence that is being worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunInFlight {
    /// Its instant.
    pub scheduled: Instant,
    /// Why there is one.
    pub cause: Cause,
    /// Of which edit of the job.
    pub generation: u64,
    /// Which action the present or next attempt carries out.
    pub role: ActionRole,
    /// Retries of that action made so far.
    pub retry: u32,
    /// When the present attempt was to be made, or the next is.
    pub attempt_at: Instant,
    /// Whether somebody works on it.
    pub is_claimed: bool,
}

/// One row: an occurrence, or a stretch of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineRow {
    /// The instant, or the first of a stretch.
    pub from: Instant,
    /// The same, or the last of a stretch.
    pub to: Instant,
    /// How many occurrences it stands for.
    pub count: u64,
    /// Why there are any.
    pub cause: Cause,
    /// Of which edit of the job, where that is known.
    pub generation: Option<u64>,
    /// What became or becomes of it.
    pub state: OccurrenceState,
}

/// What became or becomes of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OccurrenceState {
    /// It is over.
    Closed(Disposition, Instant),
    /// It is being worked on.
    InFlight(RunInFlight),
    /// It is to come.
    Upcoming,
    /// It would come if the job were enabled, or would have if it had been.
    JobDisabled,
    /// It would come if the collection were enabled, or would have if it had been.
    CollectionDisabled,
    /// It has passed, and nothing is kept of it.
    NotRetained,
}

impl Timeline<'_> {
    /// The first `limit` rows.
    pub fn rows(&self, limit: usize) -> Vec<TimelineRow> {
        let mut rows = Vec::new();
        // What is neither in a row yet nor passed over begins here.
        let mut open = self.from;
        for known in self.known() {
            self.fill(open, known.from.previous_tick(), limit, &mut rows);
            // A manual run says nothing of the schedule.
            let done =
                if known.cause == Cause::Scheduled { known.to.next_tick() } else { known.from };
            open = open.max(done);
            rows.push(known);
        }
        self.fill(open, self.to, limit, &mut rows);
        rows.truncate(limit);
        rows
    }

    /// What is recorded, in the order of its instants.
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
        let in_span = |row: &TimelineRow| row.to >= self.from && row.from <= self.to;
        let mut known: Vec<_> = closed.chain(runs).filter(in_span).collect();
        known.sort_by_key(|row| (row.from, row.to));
        known
    }

    /// Rows for the instants of the rule in `from..=to`, of which nothing is recorded.
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
        let held = self.job.held(self.rule, from, to);
        rows.extend(
            held.map(|(first, last, count)| {
                plain(first, last, count, self.job.state_of_upcoming())
            }),
        );
        let room = limit.saturating_sub(rows.len());
        let coming = self.job.coming(self.rule, from, to).take(room);
        rows.extend(coming.map(|at| plain(at, at, 1, self.job.state_of_upcoming())));
    }
}

impl JobSnapshot {
    /// Occurrences up to here have a row, or are not kept.
    fn passed_until(&self, runs: &[RunInFlight]) -> Instant {
        match (self.lifecycle, self.due, self.switch) {
            (Lifecycle::Active, Some(due), _) => due.previous_tick(),
            (Lifecycle::Active, None, Switch::Disabled) => self.now,
            // The last run is under way.
            (Lifecycle::Active, None, Switch::Enabled) => {
                runs.iter().map(|run| run.scheduled).max().map_or(self.now, Instant::previous_tick)
            }
            _ => self.finished.unwrap_or(self.now).min(self.now),
        }
    }

    /// The occurrences in `from..=to` that are to come, or would.
    fn coming<'r>(
        &self,
        rule: &'r Rule,
        from: Instant,
        to: Instant,
    ) -> impl Iterator<Item = Instant> + use<'r> {
        let first = self.first_coming(rule);
        // Of a count only so many are left, from the next on.
        let passed = first.filter(|&first| first < from).map_or(0, |first| {
            let since_first = rule.count_between(first.previous_tick(), from.previous_tick());
            // A late run at once is not on the grid of its rule.
            since_first.max(1)
        });
        let left = self.left.map_or(u64::MAX, |left| left.saturating_sub(passed));
        let start = first.map(|first| {
            if first >= from { Some(first) } else { rule.next_after(from.previous_tick()) }
        });
        let points = std::iter::successors(start.flatten(), |&last| rule.next_after(last));
        points.take_while(move |&at| at <= to).take(usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// The occurrences in `from..=to` that came due since the job or its collection is disabled, and
    /// how many they are: when it is enabled they do not run. What runs once does, late; where it
    /// is disabled itself, at the instant of being enabled.
    pub(crate) fn held(
        &self,
        rule: &Rule,
        from: Instant,
        to: Instant,
    ) -> Option<(Instant, Instant, u64)> {
        let is_off = self.state_of_upcoming() != OccurrenceState::Upcoming;
        let due = self.due.filter(|_| is_off && self.lifecycle == Lifecycle::Active)?;
        let until = to.min(self.now);
        if rule.definition().recurrence.is_none() {
            let is_held = self.switch == Switch::Disabled && from <= due && due <= until;
            return is_held.then_some((due, due, 1));
        }
        let first =
            rule.next_after(from.max(due).previous_tick()).filter(|&first| first <= until)?;
        let last = rule.last_at_or_before(until).unwrap_or(first);
        Some((first, last, rule.count_between(first.previous_tick(), last)))
    }

    /// The next occurrence, or what would be the next.
    pub(crate) fn first_coming(&self, rule: &Rule) -> Option<Instant> {
        let is_held = self.held(rule, Instant::MIN, Instant::MAX).is_some();
        match (self.lifecycle, self.switch) {
            (Lifecycle::Active, Switch::Enabled) if is_held => rule.next_after(self.now),
            (Lifecycle::Active, Switch::Enabled) => self.due,
            (Lifecycle::Active, Switch::Disabled) => {
                self.due.filter(|&due| due > self.now).or_else(|| rule.next_after(self.now))
            }
            _ => None,
        }
        .filter(|_| self.left != Some(0))
    }

    /// Whether an instant of the rule is to come, or would.
    pub(crate) fn is_coming(&self, rule: &Rule, at: Instant) -> bool {
        self.coming(rule, at, at).next().is_some()
    }

    pub(crate) fn state_of_upcoming(&self) -> OccurrenceState {
        match (self.switch, self.collection) {
            (Switch::Disabled, _) => OccurrenceState::JobDisabled,
            (_, Switch::Disabled) => OccurrenceState::CollectionDisabled,
            _ => OccurrenceState::Upcoming,
        }
    }
}

fn plain(from: Instant, to: Instant, count: u64, state: OccurrenceState) -> TimelineRow {
    TimelineRow { from, to, count, cause: Cause::Scheduled, generation: None, state }
}

#[cfg(test)]
mod tests;
