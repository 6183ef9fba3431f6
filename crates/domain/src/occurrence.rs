//! What becomes of an occurrence that has come due, and of those that were missed before it.
//!
//! An occurrence is *missed* when nothing could run at its instant: the service was down, or the
//! clock jumped over it. One that is merely late, because there was much to do, is not: it runs.
//! Every occurrence that does not run is closed with a reason.

use std::time::Duration;

use kalends_recurrence::{Instant, Rule};

use crate::job::{MissedPolicy, Overlap, Switch};
use crate::ledger::{Cause, Disposition, LedgerRecord};

/// What is asked when a job is due.
#[derive(Clone, Copy, Debug)]
pub struct DueInput<'a> {
    /// The job's rule, without its count.
    pub rule: &'a Rule,
    /// The occurrence that is neither begun nor closed yet.
    pub due: Instant,
    /// The present.
    pub now: Instant,
    /// Since when occurrences have been watched for without a break. What lies before was missed.
    pub watched_since: Instant,
    /// Since when the job's collection is enabled. What came due before does not run by itself.
    pub enabled_since: Instant,
    /// How many occurrences have started a run.
    pub used: u64,
    /// How many may.
    pub count: Option<u64>,
    /// What becomes of missed ones; `within` absent means the job's own interval.
    pub missed: (MissedPolicy, Option<Duration>),
    /// What becomes of one that is due while another runs.
    pub overlap: Overlap,
    /// What is under way.
    pub in_flight: InFlight,
}

/// What is under way of a job when an occurrence is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// Nothing.
    Nothing,
    /// A run, or its retries.
    Running,
    /// A run, and another that waits its turn.
    RunningAndWaiting,
}

/// What becomes of the occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDecision {
    /// The occurrence that runs.
    pub begin: Option<RunStart>,
    /// Those that do not.
    pub closed: Vec<ClosedOccurrences>,
    /// The next occurrence; none where there is none, or where the count is used up.
    pub next: Option<Instant>,
    /// How many occurrences have started a run, with this one.
    pub used: u64,
}

/// An occurrence that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// Its instant.
    pub scheduled: Instant,
    /// When it runs.
    pub when: StartTiming,
}

/// When an occurrence runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartTiming {
    /// At its instant, or at once where that has passed.
    Now,
    /// When the run that is under way is over.
    AfterCurrentRun,
}

/// Occurrences that do not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedOccurrences {
    /// The first.
    pub from: Instant,
    /// The last.
    pub to: Instant,
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: CloseReason,
}

/// Why an occurrence does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Nothing could run at its instant, and it does not run later.
    Missed,
    /// The one before still runs or retries.
    Overlap,
    /// The job was edited before it could run.
    Edited,
    /// The job or its collection was disabled at its instant.
    Disabled,
}

impl ClosedOccurrences {
    /// The row of the ledger that closes them, of an edit of the job.
    pub fn row(&self, generation: u64, closed: Instant) -> LedgerRecord {
        LedgerRecord {
            generation,
            from: self.from,
            to: self.to,
            count: self.count,
            cause: Cause::Scheduled,
            disposition: self.reason.disposition(),
            closed,
        }
    }
}

impl CloseReason {
    /// What the ledger says of it.
    pub fn disposition(self) -> Disposition {
        match self {
            CloseReason::Missed => Disposition::Missed,
            CloseReason::Overlap => Disposition::SkippedOverlap,
            CloseReason::Edited => Disposition::Superseded,
            CloseReason::Disabled => Disposition::SkippedDisabled,
        }
    }
}

/// What becomes of a job that is due. `None` means: ask again when what is under way is over, as
/// for missed occurrences that are made up for one after the other.
pub fn decide_due(question: DueInput<'_>) -> Option<DueDecision> {
    let DueInput { rule, due, .. } = question;
    let is_once = rule.definition().recurrence.is_none();
    if is_once {
        return Some(run_or_skip(question, due, vec![]));
    }
    // Where the clock was set back since, what comes now comes while it is enabled.
    let enabled_since = question.enabled_since.min(question.now);
    if due < enabled_since {
        let held = passed(rule, due, enabled_since.previous_tick(), CloseReason::Disabled);
        return Some(pass(question, vec![held], held.to));
    }
    if due >= question.watched_since {
        return Some(run_or_skip(question, due, vec![]));
    }
    let makes_up_for_all = question.missed.0 == MissedPolicy::All;
    if makes_up_for_all && question.in_flight != InFlight::Nothing {
        return None;
    }
    Some(decide_missed(question))
}

fn decide_missed(question: DueInput<'_>) -> DueDecision {
    let DueInput { rule, due, .. } = question;
    // The instant before the watch began; the clock may have jumped past it.
    let unwatched = question.watched_since.previous_tick().min(question.now);
    let newest = rule.last_at_or_before(unwatched).filter(|&newest| newest >= due).unwrap_or(due);
    let (policy, within) = question.missed;
    let young = |at: Instant| match within {
        Some(within) => at.saturating_add(within) >= question.now,
        None => rule.next_after(at).is_none_or(|next| question.now < next),
    };
    match policy {
        MissedPolicy::Last if young(newest) => {
            let earlier = missed(rule, due, newest.previous_tick());
            run_or_skip(question, newest, earlier)
        }
        MissedPolicy::All => {
            let oldest = match within {
                Some(within) => {
                    let window_start = question.now.saturating_sub(within);
                    let first = rule.next_after(window_start.previous_tick());
                    first.map_or(due, |first| first.max(due))
                }
                None => due,
            };
            match oldest <= newest {
                true => run_or_skip(question, oldest, missed(rule, due, oldest.previous_tick())),
                false => pass(question, missed(rule, due, newest), newest),
            }
        }
        MissedPolicy::Last | MissedPolicy::Skip => {
            pass(question, missed(rule, due, newest), newest)
        }
    }
}

/// What keeps a job from running, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switches {
    /// Whether the job is switched on.
    pub(crate) job: Switch,
    /// Whether its collection is.
    pub(crate) collection: Switch,
}

/// The occurrences that had come due at `now` and were not begun, as far as `due` is the first of
/// them: what an edit passes over. Of a job that is disabled, or in a disabled collection, they would
/// not have run without it either; what runs once would have when the collection is enabled.
pub(crate) fn passed_over(
    rule: &Rule,
    due: Instant,
    now: Instant,
    switches: Switches,
) -> Option<ClosedOccurrences> {
    if due > now {
        return None;
    }
    let reason = match (switches.job, switches.collection, &rule.definition().recurrence) {
        (Switch::Disabled, ..) | (_, Switch::Disabled, Some(_)) => CloseReason::Disabled,
        _ => CloseReason::Edited,
    };
    Some(passed(rule, due, now, reason))
}

/// The occurrences from `due` up to `until` as one stretch, of one at least.
fn passed(rule: &Rule, due: Instant, until: Instant, reason: CloseReason) -> ClosedOccurrences {
    let to = match rule.definition().recurrence {
        // One that runs at once after an edit is due then, and not where its rule has a point.
        None => due,
        Some(_) => rule.last_at_or_before(until).filter(|&last| last >= due).unwrap_or(due),
    };
    let count = rule.count_between(due.previous_tick(), to).max(1);
    ClosedOccurrences { from: due, to, count, reason }
}

/// The occurrence runs, unless another is in its way.
fn run_or_skip(
    question: DueInput<'_>,
    scheduled: Instant,
    mut closed: Vec<ClosedOccurrences>,
) -> DueDecision {
    let when = match (question.in_flight, question.overlap) {
        (InFlight::Nothing, _) | (_, Overlap::Allow) => Some(StartTiming::Now),
        (InFlight::Running, Overlap::QueueOne) => Some(StartTiming::AfterCurrentRun),
        _ => None,
    };
    let Some(when) = when else {
        closed.push(ClosedOccurrences {
            from: scheduled,
            to: scheduled,
            count: 1,
            reason: CloseReason::Overlap,
        });
        return pass(question, closed, scheduled);
    };
    let used = question.used + 1;
    let is_last = question.count.is_some_and(|count| used >= count);
    let next = if is_last { None } else { question.rule.next_after(scheduled) };
    DueDecision { begin: Some(RunStart { scheduled, when }), closed, next, used }
}

/// Nothing runs, and the job goes on after `last`.
fn pass(question: DueInput<'_>, closed: Vec<ClosedOccurrences>, last: Instant) -> DueDecision {
    let next = question.rule.next_after(last);
    DueDecision { begin: None, closed, next, used: question.used }
}

/// The occurrences in `from..=to` as one stretch, however many they are.
fn missed(rule: &Rule, from: Instant, to: Instant) -> Vec<ClosedOccurrences> {
    let last = rule.last_at_or_before(to).filter(|&last| last >= from);
    let stretch = |last: Instant| {
        let count = rule.count_between(from.previous_tick(), last);
        ClosedOccurrences { from, to: last, count, reason: CloseReason::Missed }
    };
    last.map(stretch).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use kalends_recurrence::{Definition, Frequency, Recurrence, Settings};

    use super::*;

    fn at(text: &str) -> Instant {
        format!("2026-01-{text}:00Z").parse().unwrap()
    }

    fn hourly() -> Rule {
        let recurrence = Some(Recurrence::every(1, Frequency::Hour));
        let definition =
            Definition { start: Some(at("01T00:00")), created: at("01T00:00"), recurrence };
        Rule::new(definition, &Settings::default()).unwrap()
    }

    /// Due at one o'clock, asked at `now`, watched since `since`.
    fn question<'a>(rule: &'a Rule, now: &str, since: &str) -> DueInput<'a> {
        DueInput {
            rule,
            due: at("01T01:00"),
            now: at(now),
            watched_since: at(since),
            enabled_since: Instant::MIN,
            used: 1,
            count: None,
            missed: (MissedPolicy::Last, None),
            overlap: Overlap::Skip,
            in_flight: InFlight::Nothing,
        }
    }

    fn decided(question: DueInput<'_>) -> DueDecision {
        decide_due(question).expect("a decision")
    }

    fn begin(scheduled: &str) -> Option<RunStart> {
        Some(RunStart { scheduled: at(scheduled), when: StartTiming::Now })
    }

    fn closed(from: &str, to: &str, count: u64, reason: CloseReason) -> ClosedOccurrences {
        ClosedOccurrences { from: at(from), to: at(to), count, reason }
    }

    #[test]
    fn what_is_due_runs_and_what_is_late_runs_too() {
        let rule = hourly();
        for now in ["01T01:00", "01T01:01", "01T05:30"] {
            let decision = decided(question(&rule, now, "01T00:00"));
            assert_eq!(decision.begin, begin("01T01:00"), "{now}");
            assert_eq!((decision.next, decision.used), (Some(at("01T02:00")), 2));
            assert_eq!(decision.closed, []);
        }
    }

    #[test]
    fn after_downtime_the_newest_missed_runs_once_and_the_others_are_one_record() {
        let rule = hourly();
        let decision = decided(question(&rule, "02T00:30", "02T00:30"));
        assert_eq!(decision.begin, begin("02T00:00"));
        assert_eq!(decision.closed, [closed("01T01:00", "01T23:00", 23, CloseReason::Missed)]);
        assert_eq!((decision.next, decision.used), (Some(at("02T01:00")), 2));
    }

    #[test]
    fn missed_ones_that_are_too_old_do_not_run() {
        let rule = hourly();
        let within = |minutes: u64| DueInput {
            missed: (MissedPolicy::Last, Some(Duration::from_secs(minutes * 60))),
            ..question(&rule, "02T00:30", "02T00:30")
        };
        assert_eq!(decided(within(30)).begin, begin("02T00:00"));
        let decision = decided(within(29));
        assert_eq!(decision.begin, None);
        assert_eq!(decision.closed, [closed("01T01:00", "02T00:00", 24, CloseReason::Missed)]);
        assert_eq!((decision.next, decision.used), (Some(at("02T01:00")), 1));
        let skip = DueInput { missed: (MissedPolicy::Skip, None), ..within(30) };
        assert_eq!(decided(skip), decision);
    }

    #[test]
    fn all_missed_ones_run_one_after_the_other_from_the_oldest_in_the_window() {
        let rule = hourly();
        let all = |within: Option<u64>, due: &str| DueInput {
            missed: (MissedPolicy::All, within.map(Duration::from_secs)),
            due: at(due),
            ..question(&rule, "01T06:30", "01T06:30")
        };
        let first = decided(all(None, "01T01:00"));
        assert_eq!((first.begin, first.next), (begin("01T01:00"), Some(at("01T02:00"))));
        let windowed = decided(all(Some(3 * 3_600), "01T01:00"));
        assert_eq!(windowed.begin, begin("01T04:00"));
        assert_eq!(windowed.closed, [closed("01T01:00", "01T03:00", 3, CloseReason::Missed)]);
        let busy = DueInput { in_flight: InFlight::Running, ..all(None, "01T01:00") };
        assert_eq!(decide_due(busy), None, "one at a time");
        let none = decided(all(Some(60), "01T01:00"));
        assert_eq!((none.begin, none.next), (None, Some(at("01T07:00"))));
        assert_eq!(none.closed, [closed("01T01:00", "01T06:00", 6, CloseReason::Missed)]);
    }

    #[test]
    fn a_job_that_runs_once_runs_however_late() {
        let definition =
            Definition { start: Some(at("01T01:00")), created: at("01T00:00"), recurrence: None };
        let rule = Rule::new(definition, &Settings::default()).unwrap();
        let late = DueInput {
            missed: (MissedPolicy::Skip, None),
            enabled_since: at("20T00:00"),
            ..question(&rule, "20T00:00", "20T00:00")
        };
        let decision = decided(late);
        assert_eq!((decision.begin, decision.next), (begin("01T01:00"), None));
    }

    #[test]
    fn what_came_due_before_the_collection_was_enabled_is_one_record_and_the_job_goes_on_after() {
        let rule = hourly();
        let since = |enabled: &str, now: &str| DueInput {
            enabled_since: at(enabled),
            count: Some(3),
            ..question(&rule, now, "01T00:00")
        };
        let decision = decided(since("01T05:30", "01T07:10"));
        assert_eq!(decision.begin, None);
        assert_eq!(decision.closed, [closed("01T01:00", "01T05:00", 5, CloseReason::Disabled)]);
        assert_eq!((decision.next, decision.used), (Some(at("01T06:00")), 1), "late, not held");
        let sharp = decided(since("01T05:00", "01T05:00"));
        assert_eq!(sharp.closed, [closed("01T01:00", "01T04:00", 4, CloseReason::Disabled)]);
        assert_eq!(sharp.next, Some(at("01T05:00")), "at the very instant it runs");
        let missed_too = DueInput {
            watched_since: at("01T07:10"),
            missed: (MissedPolicy::All, None),
            in_flight: InFlight::Running,
            ..since("01T05:30", "01T07:10")
        };
        assert_eq!(decided(missed_too), decision, "enabled is asked first");
        let set_back = since("20T00:00", "01T01:00");
        assert_eq!(decided(set_back).begin, begin("01T01:00"), "the clock was set back");
    }

    #[test]
    fn overlapping_ones_are_skipped_queued_or_allowed() {
        let rule = hourly();
        let over = |overlap, in_flight| {
            decided(DueInput { overlap, in_flight, ..question(&rule, "01T01:00", "01T00:00") })
        };
        let skipped = over(Overlap::Skip, InFlight::Running);
        assert_eq!(skipped.begin, None);
        assert_eq!(skipped.closed, [closed("01T01:00", "01T01:00", 1, CloseReason::Overlap)]);
        assert_eq!((skipped.next, skipped.used), (Some(at("01T02:00")), 1));
        let queued = over(Overlap::QueueOne, InFlight::Running).begin.map(|begin| begin.when);
        assert_eq!(queued, Some(StartTiming::AfterCurrentRun));
        assert_eq!(over(Overlap::QueueOne, InFlight::RunningAndWaiting).begin, None);
        assert_eq!(over(Overlap::Allow, InFlight::RunningAndWaiting).begin, begin("01T01:00"));
    }

    #[test]
    fn the_last_of_a_count_has_no_next() {
        let rule = hourly();
        let counted = |used| {
            decided(DueInput { used, count: Some(3), ..question(&rule, "01T01:00", "01T00:00") })
        };
        assert_eq!((counted(1).next, counted(1).used), (Some(at("01T02:00")), 2));
        assert_eq!((counted(2).next, counted(2).used), (None, 3));
    }

    #[test]
    fn what_an_edit_passes_over_is_one_stretch() {
        let rule = hourly();
        let on = Switches { job: Switch::Enabled, collection: Switch::Enabled };
        let passed = |due, now| passed_over(&rule, at(due), at(now), on);
        assert_eq!(passed("01T01:00", "01T00:59"), None);
        let stretch = |to, count| Some(closed("01T01:00", to, count, CloseReason::Edited));
        assert_eq!(passed("01T01:00", "01T01:00"), stretch("01T01:00", 1));
        assert_eq!(passed("01T01:00", "01T05:30"), stretch("01T05:00", 5));
        let off = Switch::Disabled;
        for off in [Switches { collection: off, ..on }, Switches { job: off, ..on }] {
            let held = passed_over(&rule, at("01T01:00"), at("01T05:30"), off);
            assert_eq!(held, Some(closed("01T01:00", "01T05:00", 5, CloseReason::Disabled)));
        }
    }

    #[test]
    fn a_year_of_missed_minutes_is_one_record() {
        let recurrence = Some(Recurrence::every(1, Frequency::Minute));
        let start: Instant = "2025-01-01T00:00:00Z".parse().unwrap();
        let definition = Definition { start: Some(start), created: start, recurrence };
        let rule = Rule::new(definition, &Settings::default()).unwrap();
        let now = at("01T00:00").saturating_add(Duration::from_secs(30));
        let decision = decided(DueInput {
            due: start,
            now,
            watched_since: now,
            ..question(&rule, "01T00:00", "01T00:00")
        });
        assert_eq!(decision.begin, begin("01T00:00"));
        assert_eq!(decision.closed.len(), 1);
        assert_eq!(decision.closed[0].count, 525_600);
    }
}
