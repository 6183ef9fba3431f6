//! Jitter: spreads jobs with the same scheduled time over a configured duration. Each job has a constant
//! offset.

use std::time::Duration;

use kalends_recurrence::{Instant, Rule, duration_to_ticks, ticks_to_duration};

/// The start time of the occurrence `scheduled`: never before it and always before the next one.
///
/// The offset is a fraction, derived from the job's `uid`, of `jitter` or of the time to the next
/// occurrence, whichever is shorter.
pub fn jittered(
    uid: [u8; 16],
    jitter: Option<Duration>,
    scheduled: Instant,
    rule: &Rule,
) -> Instant {
    let Some(jitter) = jitter else { return scheduled };
    let gap = rule.next_after(scheduled).map(|next| next.ticks() - scheduled.ticks());
    let jitter = duration_to_ticks(jitter);
    let span = gap.map_or(jitter, |gap| gap.min(jitter));
    // The uid is random, so its first half is uniformly distributed.
    let number = uid.iter().take(8).fold(0, |number: u128, &byte| number << 8 | u128::from(byte));
    let offset = (number * u128::from(span.unsigned_abs())) >> 64;
    scheduled.saturating_add(ticks_to_duration(i64::try_from(offset).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use kalends_recurrence::{Definition, Frequency, Recurrence, Settings};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const LAST: [u8; 16] = [0xff; 16];

    fn at(text: &str) -> Instant {
        format!("2026-01-01T{text}Z").parse().unwrap()
    }

    fn rule(recurrence: Option<Recurrence>) -> Rule {
        let definition =
            Definition { start: Some(at("00:00:00")), created: at("00:00:00"), recurrence };
        Rule::new(definition, &Settings::default()).unwrap()
    }

    fn check(uid: [u8; 16], jitter: Option<Duration>, expected: &str) {
        let hourly = rule(Some(Recurrence::every(1, Frequency::Hour)));
        assert_eq!(jittered(uid, jitter, at("01:00:00"), &hourly), at(expected), "{jitter:?}");
    }

    #[test]
    fn the_offset_depends_on_the_job_and_is_never_negative() {
        let half = [0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        check(half, None, "01:00:00");
        check(half, Some(Duration::ZERO), "01:00:00");
        check([0; 16], Some(MINUTE), "01:00:00");
        check(half, Some(MINUTE), "01:00:30");
        check(LAST, Some(MINUTE), "01:00:59.9999999");
    }

    #[test]
    fn the_offset_ends_before_the_next_occurrence() {
        check(LAST, Some(60 * MINUTE), "01:59:59.9999999");
        check(LAST, Some(600 * MINUTE), "01:59:59.9999999");
        check(LAST, Some(Duration::MAX), "01:59:59.9999999");
        check([0x80; 16], Some(600 * MINUTE), "01:30:07.0588235");
    }

    #[test]
    fn the_last_occurrence_uses_the_full_jitter() {
        let half = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let once = rule(None);
        assert_eq!(jittered(half, Some(120 * MINUTE), at("00:00:00"), &once), at("01:00:00"));
    }
}
