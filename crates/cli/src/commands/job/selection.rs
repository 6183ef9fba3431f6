//! Selects jobs by a filter of the API.

use crate::error::CliError;

/// Conditions that select jobs
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Selection {
    /// Filter of the API, such as "contains(name,'export')" or "tag eq 'team=billing'"
    #[arg(long, value_name = "FILTER")]
    pub(super) filter: Option<String>,

    /// Only jobs in this state: enabled, disabled, completed or faulted
    #[arg(long, value_name = "STATE")]
    pub(super) state: Option<String>,

    /// Only jobs with this tag, such as team=billing
    #[arg(long, value_name = "NAME=VALUE")]
    pub(super) tag: Option<String>,
}

impl Selection {
    /// The filter in the language of the API; `None` for all jobs.
    pub(super) fn filter(&self) -> Result<Option<String>, CliError> {
        let mut conditions = Vec::new();
        if let Some(state) = &self.state {
            let states = ["Enabled", "Disabled", "Completed", "Faulted"];
            let known = states.iter().find(|known| known.eq_ignore_ascii_case(state));
            let known = known.ok_or_else(|| {
                CliError::usage(format!(
                    "--state must be enabled, disabled, completed or faulted (found {state:?})"
                ))
            })?;
            conditions.push(format!("state eq '{known}'"));
        }
        if let Some(tag) = &self.tag {
            conditions.push(format!("tag eq '{}'", tag.replace('\'', "''")));
        }
        conditions.extend(self.filter.clone());
        Ok((!conditions.is_empty()).then(|| conditions.join(" and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_joined() {
        let selection = Selection {
            filter: Some("contains(name,'a')".into()),
            state: Some("disabled".into()),
            tag: Some("owner=O'Neil".into()),
        };
        let filter = "state eq 'Disabled' and tag eq 'owner=O''Neil' and contains(name,'a')";
        assert_eq!(selection.filter().unwrap().as_deref(), Some(filter));
        assert_eq!(Selection::default().filter().unwrap(), None);
        let unknown = Selection { state: Some("on".into()), ..Selection::default() };
        assert!(unknown.filter().is_err());
    }
}
