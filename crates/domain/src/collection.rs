//! Collections of jobs: where they are, their plan, whether they run, their quota.

use std::sync::Arc;

use kalends_recurrence::Frequency;

use crate::job::Switch;
use crate::plan::Plan;
use crate::validation_error::{ValidationError, ValidationErrorKind};

/// A collection as its author defined it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Where it is said to be.
    pub location: Location,
    /// For people, in their order.
    pub tags: Option<Vec<(String, String)>>,
    /// What it may hold.
    pub plan: Plan,
    /// Whether its jobs run.
    pub state: CollectionState,
    /// What it may hold less than its plan allows.
    pub quota: Option<Quota>,
}

/// Whether the jobs of a collection run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollectionState {
    /// They do.
    #[default]
    Enabled,
    /// They do not.
    Disabled,
    /// As disabled; a word of the retired service for unpaid bills.
    Suspended,
}

impl CollectionState {
    /// Whether its jobs run.
    pub fn switch(self) -> Switch {
        match self {
            CollectionState::Enabled => Switch::Enabled,
            CollectionState::Disabled | CollectionState::Suspended => Switch::Disabled,
        }
    }
}

/// What a collection may hold, where that is less than its plan allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// How many jobs.
    pub max_job_count: Option<u32>,
    /// Accepted, without effect and not answered, as the retired service did.
    pub max_job_occurrence: Option<i64>,
    /// The most frequent recurrence.
    pub max_recurrence: Option<MaxRecurrence>,
}

/// The most frequent recurrence that a quota allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxRecurrence {
    /// The unit of `interval`.
    pub frequency: Frequency,
    /// Every how many units at most.
    pub interval: u32,
}

/// A place, spelled as clients know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(Arc<str>);

/// The places that the retired service was in. Only their spelling matters.
const KNOWN_LOCATIONS: [&str; 25] = [
    "North Central US",
    "South Central US",
    "North Europe",
    "West Europe",
    "East Asia",
    "Southeast Asia",
    "West US",
    "East US",
    "Japan West",
    "Japan East",
    "Brazil South",
    "Central US",
    "East US 2",
    "Canada Central",
    "Canada East",
    "West US 2",
    "West Central US",
    "Australia East",
    "Australia Southeast",
    "UK South",
    "UK West",
    "East US 2 EUAP",
    "Central US EUAP",
    "Korea Central",
    "Korea South",
];

const LOCATION_CHARS_MAX: usize = 100;

impl Location {
    /// A place. A known one comes back in its usual spelling: `westus` is `West US`.
    pub fn new(text: &str) -> Result<Location, ValidationError> {
        let squeezed = |text: &str| text.replace(' ', "").to_ascii_lowercase();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || " -_()".contains(c);
        if text.trim().is_empty() || text.len() > LOCATION_CHARS_MAX || !text.chars().all(is_plain)
        {
            let message = format!(
                "expected a place such as West US, of at most {LOCATION_CHARS_MAX} letters, digits and blanks"
            );
            return Err(ValidationError::new(ValidationErrorKind::LocationRequired, message));
        }
        let known = KNOWN_LOCATIONS.iter().find(|known| squeezed(known) == squeezed(text));
        Ok(Location(known.copied().unwrap_or(text).into()))
    }

    /// A place that was checked when it was stored.
    pub fn restore(text: String) -> Location {
        Location(text.into())
    }

    /// The places that clients are told of.
    pub fn known() -> impl Iterator<Item = &'static str> {
        KNOWN_LOCATIONS.into_iter()
    }

    /// As it is answered.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_places_are_answered_in_their_usual_spelling() {
        for (written, answered) in [
            ("westus", "West US"),
            ("West US", "West US"),
            ("SOUTHCENTRALUS", "South Central US"),
            ("east us 2", "East US 2"),
            ("Moon Base 1", "Moon Base 1"),
        ] {
            assert_eq!(Location::new(written).unwrap().as_str(), answered);
        }
        for bad in ["", "  ", "<script>", &"x".repeat(101)] {
            assert!(Location::new(bad).is_err(), "{bad}");
        }
    }
}
