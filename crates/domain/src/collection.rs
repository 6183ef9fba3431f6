//! Job collections: location, plan, state and quota.

use std::sync::Arc;

use kalends_recurrence::Frequency;

use crate::job::Switch;
use crate::plan::Plan;
use crate::validation_error::{ValidationError, ValidationErrorKind};

/// The definition of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Azure region; stored and returned, without effect.
    pub location: Location,
    /// Names and values in the order in which they were sent.
    pub tags: Option<Vec<(String, String)>>,
    /// Plan, which limits number, frequency and features of jobs.
    pub plan: Plan,
    /// Whether jobs of the collection run.
    pub state: CollectionState,
    /// Limits below those of the plan.
    pub quota: Option<Quota>,
}

/// Whether jobs of a collection run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollectionState {
    /// Jobs run.
    #[default]
    Enabled,
    /// Jobs do not run.
    Disabled,
    /// Same as disabled. Azure Scheduler used it for subscriptions with unpaid bills.
    Suspended,
}

impl CollectionState {
    /// Whether the state lets jobs run.
    pub fn switch(self) -> Switch {
        match self {
            CollectionState::Enabled => Switch::Enabled,
            CollectionState::Disabled | CollectionState::Suspended => Switch::Disabled,
        }
    }
}

/// Limits of a collection below those of its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Maximum number of jobs.
    pub max_job_count: Option<u32>,
    /// Accepted but not enforced or returned, as in Azure Scheduler.
    pub max_job_occurrence: Option<i64>,
    /// Highest allowed frequency of jobs.
    pub max_recurrence: Option<MaxRecurrence>,
}

/// The highest frequency that a quota allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxRecurrence {
    /// The unit of `interval`.
    pub frequency: Frequency,
    /// Minimum interval, in units of `frequency`.
    pub interval: u32,
}

/// The display name of an Azure region, such as `West US`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(Arc<str>);

/// The regions of Azure Scheduler, to normalize their spelling.
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
    /// Validates a region name and normalizes known ones: `westus` becomes `West US`.
    pub fn new(text: &str) -> Result<Location, ValidationError> {
        let normalized = |text: &str| text.replace(' ', "").to_ascii_lowercase();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || " -_()".contains(c);
        if text.trim().is_empty() || text.len() > LOCATION_CHARS_MAX || !text.chars().all(is_plain)
        {
            let message = format!(
                "must be a region such as West US, with at most {LOCATION_CHARS_MAX} letters, digits, spaces and -_()"
            );
            return Err(ValidationError::new(ValidationErrorKind::LocationRequired, message));
        }
        let known = KNOWN_LOCATIONS.iter().find(|known| normalized(known) == normalized(text));
        Ok(Location(known.copied().unwrap_or(text).into()))
    }

    /// A stored region name, without validation.
    pub fn restore(text: String) -> Location {
        Location(text.into())
    }

    /// The region of collections that the server creates by itself.
    pub fn local() -> Location {
        Location("local".into())
    }

    /// The region names that the API lists.
    pub fn known() -> impl Iterator<Item = &'static str> {
        KNOWN_LOCATIONS.into_iter()
    }

    /// The region name, as the API returns it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_regions_are_normalized() {
        for (written, returned) in [
            ("westus", "West US"),
            ("West US", "West US"),
            ("SOUTHCENTRALUS", "South Central US"),
            ("east us 2", "East US 2"),
            ("Moon Base 1", "Moon Base 1"),
        ] {
            assert_eq!(Location::new(written).unwrap().as_str(), returned);
        }
        for bad in ["", "  ", "<script>", &"x".repeat(101)] {
            assert!(Location::new(bad).is_err(), "{bad}");
        }
    }
}
