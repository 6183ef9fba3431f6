//! Decides what happens to an occurrence that is due and to those missed before it.
//!
//! An occurrence is *missed* if the service could not run it at its scheduled time: the service was
//! down, or the clock jumped over that time. An occurrence that is late because of load is not missed
//! and runs. Every occurrence that does not run is closed with a reason.

use std::time::Duration;

use kalends_recurrence::{Instant, Rule};

use crate::job::{MissedPolicy, Overlap, Switch};
use crate::ledger::{Cause, Disposition, LedgerRecord};
use crate::pause::{OffTime, OffTimes, Pause};

/// Input of [`decide_due`].
#[derive(Clone, Copy, Debug)]
pub struct DueInput<'a> {
    /// The job's rule, without its count.
    pub rule: &'a Rule,
    /// The first occurrence that is neither started nor closed.
    pub due: Instant,
    /// Current time.
    pub now: Instant,
    /// Start of the current uninterrupted service. Earlier occurrences were missed.
    pub watched_since: Instant,
    /// Time at which the job or its collection was last enabled. Recurring occurrences before it do
    /// not run.
    pub enabled_since: Instant,
    /// Number of occurrences that started a run.
    pub used: u64,
    /// Maximum of `used`; unlimited if absent.
    pub count: Option<u64>,
    /// Policy for missed occurrences and their maximum age; if the age is absent, an occurrence must be
    /// younger than the next one for [`MissedPolicy::Last`].
    pub missed: (MissedPolicy, Option<Duration>),
    /// Policy for an occurrence that is due while another runs.
    pub overlap: Overlap,
    /// Runs of the job that have not finished.
    pub in_flight: InFlight,
    /// Number of open runs of the job, manual ones included.
    pub open_runs: usize,
    /// Limit of `open_runs`: an occurrence beyond it does not run.
    pub open_runs_max: OpenRunsMax,
    /// The newest pause of all jobs. Recurring occurrences before its end do not run.
    pub pause: Option<Pause>,
    /// Recurring occurrences up to this time are skipped by request.
    pub skip_until: Option<Instant>,
}

/// Maximum number of open runs of one job, scheduled and manual: those that run, retry or wait. It keeps
/// a job whose target hangs from filling the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRunsMax(pub u32);

impl OpenRunsMax {
    /// Whether a job with `open` runs may open another one.
    pub fn allows_another(self, open: usize) -> bool {
        open < self.0 as usize
    }
}

impl Default for OpenRunsMax {
    fn default() -> OpenRunsMax {
        OpenRunsMax(100)
    }
}

/// The unfinished runs of a job when an occurrence is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// No run.
    Nothing,
    /// One run, which is running or retrying.
    Running,
    /// One run, and another queued behind it.
    RunningAndWaiting,
}

/// Output of [`decide_due`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDecision {
    /// The occurrence to run, if any.
    pub begin: Option<RunStart>,
    /// The occurrences to close without a run.
    pub closed: Vec<ClosedOccurrences>,
    /// The next occurrence; `None` if the schedule has ended or the count is reached.
    pub next: Option<Instant>,
    /// Number of occurrences that started a run, including `begin`.
    pub used: u64,
}

/// An occurrence to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// Scheduled time.
    pub scheduled: Instant,
    /// Whether it starts now or is queued.
    pub when: StartTiming,
}

/// When a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartTiming {
    /// At the scheduled time, or immediately if that has passed.
    Now,
    /// After the current run has finished.
    AfterCurrentRun,
}

/// A range of occurrences that do not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedOccurrences {
    /// Scheduled time of the first occurrence.
    pub from: Instant,
    /// Scheduled time of the last occurrence.
    pub to: Instant,
    /// Number of occurrences.
    pub count: u64,
    /// Reason that applies to all of them.
    pub reason: CloseReason,
}

/// The reason for closing an occurrence without a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The service could not run it at its scheduled time, and the policy does not run it late.
    Missed,
    /// The previous run is still running or retrying.
    Overlap,
    /// The job was edited before the occurrence started.
    Edited,
    /// The job or its collection was disabled at the scheduled time.
    Disabled,
    /// The job had as many open runs as [`OpenRunsMax`] allows.
    Quota,
    /// All jobs were paused at the scheduled time.
    Paused,
    /// A user requested to skip it.
    Requested,
}

impl ClosedOccurrences {
    /// The ledger record of these occurrences, decided at `closed`.
    pub fn to_ledger_record(&self, generation: u64, closed: Instant) -> LedgerRecord {
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
    /// The disposition in the ledger.
    pub fn disposition(self) -> Disposition {
        match self {
            CloseReason::Missed => Disposition::Missed,
            CloseReason::Overlap => Disposition::SkippedOverlap,
            CloseReason::Edited => Disposition::Superseded,
            CloseReason::Disabled => Disposition::SkippedDisabled,
            CloseReason::Quota => Disposition::SkippedQuota,
            CloseReason::Paused => Disposition::SkippedPaused,
            CloseReason::Requested => Disposition::SkippedByRequest,
        }
    }
}

/// Decides what happens to a job that is due. Returns `None` if the decision must wait until the current
/// run has finished, because the job runs once, or because [`MissedPolicy::All`] runs missed
/// occurrences one after the other.
pub fn decide_due(input: DueInput<'_>) -> Option<DueDecision> {
    let DueInput { rule, due, .. } = input;
    let is_once = rule.definition().recurrence.is_none();
    if is_once {
        // A run in flight was superseded by an edit: the new occurrence follows it.
        let is_free = input.in_flight == InFlight::Nothing;
        return is_free.then(|| run_or_skip(input, due, vec![]));
    }
    let off = OffTimes { enabled_since: input.enabled_since, pause: input.pause };
    if let Some(OffTime { reason, end }) = off.passed(due, input.now) {
        let held = closed_range(rule, due, end.previous_tick(), reason);
        return Some(run_none(input, vec![held], held.to));
    }
    if let Some(until) = input.skip_until.filter(|&until| due <= until) {
        let skipped = closed_range(rule, due, until.min(input.now), CloseReason::Requested);
        return Some(run_none(input, vec![skipped], skipped.to));
    }
    if due >= input.watched_since {
        return Some(run_or_skip(input, due, vec![]));
    }
    let makes_up_for_all = input.missed.0 == MissedPolicy::All;
    if makes_up_for_all && input.in_flight != InFlight::Nothing {
        return None;
    }
    Some(decide_missed(input))
}

fn decide_missed(input: DueInput<'_>) -> DueDecision {
    let DueInput { rule, due, .. } = input;
    // The last missed time; `watched_since` can be later than `now` after a clock jump.
    let unwatched = input.watched_since.previous_tick().min(input.now);
    let newest = rule.last_at_or_before(unwatched).filter(|&newest| newest >= due).unwrap_or(due);
    let (policy, within) = input.missed;
    let young = |at: Instant| match within {
        Some(within) => at.saturating_add(within) >= input.now,
        None => rule.next_after(at).is_none_or(|next| input.now < next),
    };
    match policy {
        MissedPolicy::Last if young(newest) => {
            let earlier = missed(rule, due, newest.previous_tick());
            run_or_skip(input, newest, earlier)
        }
        MissedPolicy::All => {
            let oldest = match within {
                Some(within) => {
                    let window_start = input.now.saturating_sub(within);
                    let first = rule.next_after(window_start.previous_tick());
                    first.map_or(due, |first| first.max(due))
                }
                None => due,
            };
            match oldest <= newest {
                true => run_or_skip(input, oldest, missed(rule, due, oldest.previous_tick())),
                false => run_none(input, missed(rule, due, newest), newest),
            }
        }
        MissedPolicy::Last | MissedPolicy::Skip => {
            run_none(input, missed(rule, due, newest), newest)
        }
    }
}

/// Whether a job and its collection are enabled, and whether all jobs are paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switches {
    pub(crate) job: Switch,
    pub(crate) collection: Switch,
    pub(crate) is_paused: bool,
}

/// The occurrences from `due` to `now`, which an edit closes. They are closed as disabled if the job or
/// its collection was disabled, and as paused if all jobs were, except that a one-time job would still
/// have run after the collection was enabled or the pause ended.
pub(crate) fn due_and_not_started(
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
        (.., Some(_)) if switches.is_paused => CloseReason::Paused,
        _ => CloseReason::Edited,
    };
    Some(closed_range(rule, due, now, reason))
}

/// The occurrences from `due` to `until` as one range of at least one occurrence.
fn closed_range(
    rule: &Rule,
    due: Instant,
    until: Instant,
    reason: CloseReason,
) -> ClosedOccurrences {
    let to = match rule.definition().recurrence {
        // The immediate run of an edited one-time job is not an occurrence of its rule.
        None => due,
        Some(_) => rule.last_at_or_before(until).filter(|&last| last >= due).unwrap_or(due),
    };
    let count = rule.count_between(due.previous_tick(), to).max(1);
    ClosedOccurrences { from: due, to, count, reason }
}

/// Starts the occurrence, or closes it if it overlaps a run in flight or too many runs are open.
fn run_or_skip(
    input: DueInput<'_>,
    scheduled: Instant,
    mut closed: Vec<ClosedOccurrences>,
) -> DueDecision {
    let when = match (input.in_flight, input.overlap) {
        (InFlight::Nothing, _) | (_, Overlap::Allow) => Ok(StartTiming::Now),
        (InFlight::Running, Overlap::QueueOne) => Ok(StartTiming::AfterCurrentRun),
        _ => Err(CloseReason::Overlap),
    };
    let when = when.and_then(|when| match input.open_runs_max.allows_another(input.open_runs) {
        true => Ok(when),
        false => Err(CloseReason::Quota),
    });
    let when = match when {
        Ok(when) => when,
        Err(reason) => {
            let (from, to) = (scheduled, scheduled);
            closed.push(ClosedOccurrences { from, to, count: 1, reason });
            return run_none(input, closed, scheduled);
        }
    };
    let used = input.used + 1;
    let is_last = input.count.is_some_and(|count| used >= count);
    let next = if is_last { None } else { input.rule.next_after(scheduled) };
    DueDecision { begin: Some(RunStart { scheduled, when }), closed, next, used }
}

/// Starts no run and continues with the first occurrence after `last`.
fn run_none(input: DueInput<'_>, closed: Vec<ClosedOccurrences>, last: Instant) -> DueDecision {
    let next = input.rule.next_after(last);
    DueDecision { begin: None, closed, next, used: input.used }
}

/// The occurrences in `from..=to` as one range; empty if there are none.
fn missed(rule: &Rule, from: Instant, to: Instant) -> Vec<ClosedOccurrences> {
    let last = rule.last_at_or_before(to).filter(|&last| last >= from);
    let range = |last: Instant| {
        let count = rule.count_between(from.previous_tick(), last);
        ClosedOccurrences { from, to: last, count, reason: CloseReason::Missed }
    };
    last.map(range).into_iter().collect()
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

    /// Input for an hourly job that is due at 01:00.
    fn input<'a>(rule: &'a Rule, now: &str, since: &str) -> DueInput<'a> {
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
            open_runs: 0,
            open_runs_max: OpenRunsMax::default(),
            pause: None,
            skip_until: None,
        }
    }

    fn decided(input: DueInput<'_>) -> DueDecision {
        decide_due(input).expect("a decision")
    }

    fn begin(scheduled: &str) -> Option<RunStart> {
        Some(RunStart { scheduled: at(scheduled), when: StartTiming::Now })
    }

    fn closed(from: &str, to: &str, count: u64, reason: CloseReason) -> ClosedOccurrences {
        ClosedOccurrences { from: at(from), to: at(to), count, reason }
    }

    #[test]
    fn due_and_late_occurrences_run() {
        let rule = hourly();
        for now in ["01T01:00", "01T01:01", "01T05:30"] {
            let decision = decided(input(&rule, now, "01T00:00"));
            assert_eq!(decision.begin, begin("01T01:00"), "{now}");
            assert_eq!((decision.next, decision.used), (Some(at("01T02:00")), 2));
            assert_eq!(decision.closed, []);
        }
    }

    #[test]
    fn after_downtime_only_the_newest_missed_occurrence_runs() {
        let rule = hourly();
        let decision = decided(input(&rule, "02T00:30", "02T00:30"));
        assert_eq!(decision.begin, begin("02T00:00"));
        assert_eq!(decision.closed, [closed("01T01:00", "01T23:00", 23, CloseReason::Missed)]);
        assert_eq!((decision.next, decision.used), (Some(at("02T01:00")), 2));
    }

    #[test]
    fn missed_occurrences_that_are_too_old_do_not_run() {
        let rule = hourly();
        let within = |minutes: u64| DueInput {
            missed: (MissedPolicy::Last, Some(Duration::from_secs(minutes * 60))),
            ..input(&rule, "02T00:30", "02T00:30")
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
    fn policy_all_runs_missed_occurrences_one_after_the_other_from_the_oldest_in_the_window() {
        let rule = hourly();
        let all = |within: Option<u64>, due: &str| DueInput {
            missed: (MissedPolicy::All, within.map(Duration::from_secs)),
            due: at(due),
            ..input(&rule, "01T06:30", "01T06:30")
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
    fn a_one_time_job_runs_however_late() {
        let definition =
            Definition { start: Some(at("01T01:00")), created: at("01T00:00"), recurrence: None };
        let rule = Rule::new(definition, &Settings::default()).unwrap();
        let late = DueInput {
            missed: (MissedPolicy::Skip, None),
            enabled_since: at("20T00:00"),
            ..input(&rule, "20T00:00", "20T00:00")
        };
        let decision = decided(late);
        assert_eq!((decision.begin, decision.next), (begin("01T01:00"), None));
        for overlap in [Overlap::Skip, Overlap::QueueOne, Overlap::Allow] {
            let busy = DueInput { in_flight: InFlight::Running, overlap, ..late };
            assert_eq!(decide_due(busy), None, "after the superseded run");
        }
    }

    #[test]
    fn occurrences_before_the_collection_was_enabled_are_closed_as_one_record() {
        let rule = hourly();
        let since = |enabled: &str, now: &str| DueInput {
            enabled_since: at(enabled),
            count: Some(3),
            ..input(&rule, now, "01T00:00")
        };
        let decision = decided(since("01T05:30", "01T07:10"));
        assert_eq!(decision.begin, None);
        assert_eq!(decision.closed, [closed("01T01:00", "01T05:00", 5, CloseReason::Disabled)]);
        assert_eq!((decision.next, decision.used), (Some(at("01T06:00")), 1), "late, not disabled");
        let sharp = decided(since("01T05:00", "01T05:00"));
        assert_eq!(sharp.closed, [closed("01T01:00", "01T04:00", 4, CloseReason::Disabled)]);
        assert_eq!(sharp.next, Some(at("01T05:00")), "an occurrence at that time runs");
        let missed_too = DueInput {
            watched_since: at("01T07:10"),
            missed: (MissedPolicy::All, None),
            in_flight: InFlight::Running,
            ..since("01T05:30", "01T07:10")
        };
        assert_eq!(decided(missed_too), decision, "enabled_since takes precedence");
        let set_back = since("20T00:00", "01T01:00");
        assert_eq!(decided(set_back).begin, begin("01T01:00"), "the clock was set back");
        let set_back_and_late = since("20T00:00", "01T01:01");
        assert_eq!(decided(set_back_and_late).begin, begin("01T01:00"));
    }

    #[test]
    fn occurrences_of_a_pause_are_closed_as_paused_and_use_no_count() {
        let rule = hourly();
        let pause = |since: &str, end: &str| Some(Pause::new(at(since), Some(at(end))));
        let after =
            |pause, now: &str| DueInput { pause, count: Some(3), ..input(&rule, now, "01T00:00") };
        let decision = decided(after(pause("01T00:30", "01T05:30"), "01T07:10"));
        assert_eq!(decision.begin, None);
        assert_eq!(decision.closed, [closed("01T01:00", "01T05:00", 5, CloseReason::Paused)]);
        assert_eq!((decision.next, decision.used), (Some(at("01T06:00")), 1));
        let sharp = decided(after(pause("01T00:30", "01T05:00"), "01T05:00"));
        assert_eq!(sharp.next, Some(at("01T05:00")), "an occurrence at its end runs");
        let resumed = Pause::new(at("01T00:30"), Some(at("01T09:00"))).resumed(at("01T03:30"));
        let decision = decided(after(Some(resumed), "01T04:10"));
        assert_eq!(decision.closed, [closed("01T01:00", "01T03:00", 3, CloseReason::Paused)]);
    }

    #[test]
    fn occurrences_before_a_pause_that_passed_while_disabled_are_closed_as_disabled() {
        let rule = hourly();
        let pause = Pause::new(at("01T03:30"), None).resumed(at("01T05:30"));
        let first = DueInput {
            enabled_since: at("01T04:30"),
            pause: Some(pause),
            ..input(&rule, "01T07:10", "01T00:00")
        };
        let decision = decided(first);
        assert_eq!(decision.closed, [closed("01T01:00", "01T03:00", 3, CloseReason::Disabled)]);
        let second = DueInput { due: at("01T04:00"), ..first };
        let decision = decided(second);
        assert_eq!(decision.closed, [closed("01T04:00", "01T05:00", 2, CloseReason::Paused)]);
    }

    #[test]
    fn occurrences_that_are_skipped_by_request_close_at_their_time_and_use_no_count() {
        let rule = hourly();
        let skip = |until: &str, now: &str| DueInput {
            skip_until: Some(at(until)),
            count: Some(3),
            ..input(&rule, now, "01T00:00")
        };
        let one = [closed("01T01:00", "01T01:00", 1, CloseReason::Requested)];
        let decision = decided(skip("01T02:00", "01T01:00"));
        assert_eq!((decision.begin, decision.closed.as_slice()), (None, one.as_slice()));
        assert_eq!((decision.next, decision.used), (Some(at("01T02:00")), 1));
        let overlapping = DueInput { in_flight: InFlight::Running, ..skip("01T01:00", "01T01:00") };
        assert_eq!(decided(overlapping).closed, one);
        let late = DueInput { watched_since: at("01T04:30"), ..skip("01T02:00", "01T04:30") };
        let decision = decided(late);
        assert_eq!(decision.closed, [closed("01T01:00", "01T02:00", 2, CloseReason::Requested)]);
        assert_eq!(decision.next, Some(at("01T03:00")), "the policy for missed runs decides");
        let disabled = DueInput { enabled_since: at("01T01:30"), ..skip("01T02:00", "01T01:45") };
        assert_eq!(
            decided(disabled).closed,
            [closed("01T01:00", "01T01:00", 1, CloseReason::Disabled)]
        );
        let passed = DueInput { due: at("01T03:00"), ..skip("01T02:00", "01T03:00") };
        assert_eq!(decided(passed).begin, begin("01T03:00"));
    }

    #[test]
    fn overlapping_occurrences_are_skipped_queued_or_allowed() {
        let rule = hourly();
        let over = |overlap, in_flight| {
            decided(DueInput { overlap, in_flight, ..input(&rule, "01T01:00", "01T00:00") })
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
    fn an_occurrence_does_not_run_while_too_many_runs_of_its_job_are_open() {
        let rule = hourly();
        let with_open = |open_runs| {
            let (overlap, in_flight) = (Overlap::Allow, InFlight::RunningAndWaiting);
            let count = Some(3);
            let input = input(&rule, "01T01:00", "01T00:00");
            decided(DueInput { overlap, in_flight, open_runs, count, ..input })
        };
        assert_eq!(with_open(99).begin, begin("01T01:00"));
        let skipped = with_open(100);
        assert_eq!(skipped.begin, None);
        assert_eq!(skipped.closed, [closed("01T01:00", "01T01:00", 1, CloseReason::Quota)]);
        assert_eq!((skipped.next, skipped.used), (Some(at("01T02:00")), 1), "it uses no count");
    }

    #[test]
    fn the_last_occurrence_of_a_count_has_no_next() {
        let rule = hourly();
        let counted = |used| {
            decided(DueInput { used, count: Some(3), ..input(&rule, "01T01:00", "01T00:00") })
        };
        assert_eq!((counted(1).next, counted(1).used), (Some(at("01T02:00")), 2));
        assert_eq!((counted(2).next, counted(2).used), (None, 3));
    }

    #[test]
    fn an_edit_closes_open_occurrences_as_one_range() {
        let rule = hourly();
        let on = Switches { job: Switch::Enabled, collection: Switch::Enabled, is_paused: false };
        let passed = |due, now| due_and_not_started(&rule, at(due), at(now), on);
        assert_eq!(passed("01T01:00", "01T00:59"), None);
        let range = |to, count| Some(closed("01T01:00", to, count, CloseReason::Edited));
        assert_eq!(passed("01T01:00", "01T01:00"), range("01T01:00", 1));
        assert_eq!(passed("01T01:00", "01T05:30"), range("01T05:00", 5));
        let off = Switch::Disabled;
        for off in [Switches { collection: off, ..on }, Switches { job: off, ..on }] {
            let held = due_and_not_started(&rule, at("01T01:00"), at("01T05:30"), off);
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
            ..input(&rule, "01T00:00", "01T00:00")
        });
        assert_eq!(decision.begin, begin("01T00:00"));
        assert_eq!(decision.closed.len(), 1);
        assert_eq!(decision.closed[0].count, 525_600);
    }
}
