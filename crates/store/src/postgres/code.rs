//! Conversion between values and columns: enums as numbers, times as ticks, text without NUL.

use kalends_domain::{ActionRole, AttemptStatus, Lifecycle, NoteAction, Plan};
use kalends_recurrence::Instant;

use crate::error::StoreError;
use crate::record::{Cause, Disposition};

/// An enum that is stored as a number. A number never changes its meaning.
pub(super) trait Code: Copy + PartialEq + 'static {
    /// Every variant with its number.
    const CODES: &'static [(Self, i16)];

    fn code(self) -> i16 {
        let found = Self::CODES.iter().find(|(variant, _)| *variant == self);
        found.map_or(-1, |(_, code)| *code)
    }

    fn of(code: i16) -> Result<Self, StoreError> {
        let found = Self::CODES.iter().find(|(_, known)| *known == code);
        found.map(|(variant, _)| *variant).ok_or_else(|| {
            let name = std::any::type_name::<Self>();
            StoreError::Damaged(format!("{code} is no code of {name}"))
        })
    }
}

impl Code for Lifecycle {
    const CODES: &'static [(Lifecycle, i16)] =
        &[(Lifecycle::Active, 0), (Lifecycle::Completed, 1), (Lifecycle::Faulted, 2)];
}

impl Code for Plan {
    const CODES: &'static [(Plan, i16)] = &[
        (Plan::Free, 0),
        (Plan::Standard, 1),
        (Plan::P10Premium, 2),
        (Plan::P20Premium, 3),
        (Plan::StandardUnlimited, 4),
    ];
}

impl Code for Cause {
    const CODES: &'static [(Cause, i16)] = &[(Cause::Scheduled, 0), (Cause::Manual, 1)];
}

impl Code for ActionRole {
    const CODES: &'static [(ActionRole, i16)] = &[(ActionRole::Main, 0), (ActionRole::Error, 1)];
}

impl Code for AttemptStatus {
    const CODES: &'static [(AttemptStatus, i16)] =
        &[(AttemptStatus::Completed, 0), (AttemptStatus::Failed, 1), (AttemptStatus::Postponed, 2)];
}

impl Code for Disposition {
    const CODES: &'static [(Disposition, i16)] = &[
        (Disposition::Completed, 0),
        (Disposition::Failed, 1),
        (Disposition::SkippedOverlap, 2),
        (Disposition::SkippedDisabled, 3),
        (Disposition::SkippedQuota, 4),
        (Disposition::Missed, 5),
        (Disposition::Superseded, 6),
        (Disposition::SkippedPaused, 7),
        (Disposition::SkippedByRequest, 8),
    ];
}

impl Code for NoteAction {
    const CODES: &'static [(NoteAction, i16)] = &[
        (NoteAction::Created, 0),
        (NoteAction::Edited, 1),
        (NoteAction::Enabled, 2),
        (NoteAction::Disabled, 3),
        (NoteAction::Ran, 4),
        (NoteAction::Skipped, 5),
        (NoteAction::Paused, 6),
        (NoteAction::Resumed, 7),
        (NoteAction::Noted, 8),
    ];
}

pub(super) fn instant(ticks: i64) -> Result<Instant, StoreError> {
    Instant::from_ticks(ticks)
        .ok_or_else(|| StoreError::Damaged(format!("{ticks} is out of range for an instant")))
}

/// A number of rows for LIMIT or OFFSET.
pub(super) fn rows_max(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Replaces NUL, which PostgreSQL cannot store, with U+FFFF, which is no character.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{ffff}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_round_trip_and_unknown_codes_are_damage() {
        for (variant, code) in Disposition::CODES {
            assert_eq!((variant.code(), Disposition::of(*code)), (*code, Ok(*variant)));
        }
        assert!(matches!(Lifecycle::of(3), Err(StoreError::Damaged(_))));
    }
}
