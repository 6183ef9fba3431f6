//! Names of imported jobs and collections.

use std::collections::HashSet;

use kalends_domain::{CollectionName, JobName};

/// Longest name of a job or collection.
const LENGTH_MAX: usize = 100;
/// Jobs of a collection that have the same name in their source, at most.
const SAME_NAME_MAX: usize = 100_000;
/// The collection of jobs whose source has nothing like it.
pub(super) const DEFAULT_COLLECTION: &str = "default";

/// Gives each job a valid name that no other job of its collection has.
#[derive(Debug, Default)]
pub(super) struct Names {
    used: HashSet<(CollectionName, JobName)>,
}

impl Names {
    /// The valid name nearest to that of a group in the source.
    pub(super) fn collection(&self, name: &str) -> Option<CollectionName> {
        CollectionName::new(&valid_name(name, DEFAULT_COLLECTION)).ok()
    }

    /// The valid name nearest to that of a job in the source, with a number if it is taken.
    pub(super) fn job(&mut self, collection: &CollectionName, name: &str) -> Option<JobName> {
        let base = valid_name(name, "job");
        let mut candidates = (1..=SAME_NAME_MAX).filter_map(|number| {
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            let kept: String = base.chars().take(LENGTH_MAX - suffix.len()).collect();
            JobName::new(&format!("{kept}{suffix}")).ok()
        });
        candidates.find(|candidate| self.used.insert((collection.clone(), candidate.clone())))
    }
}

/// Replaces characters that a name cannot have. `prefix` precedes a name that does not begin with a
/// letter.
fn valid_name(name: &str, prefix: &str) -> String {
    let mut valid = String::new();
    for any in name.chars() {
        match any {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => valid.push(any),
            _ if valid.ends_with('-') || valid.is_empty() => {}
            _ => valid.push('-'),
        }
    }
    let valid = valid.trim_end_matches('-');
    let valid = match valid.chars().next() {
        None => prefix.to_owned(),
        Some(first) if first.is_ascii_alphabetic() => valid.to_owned(),
        Some(_) => format!("{prefix}-{valid}"),
    };
    valid.chars().take(LENGTH_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_valid_and_unique() {
        let mut names = Names::default();
        let collection = names.collection("kube-system.eu").unwrap();
        assert_eq!(collection.as_str(), "kube-system-eu");
        let mut job = |name: &str| names.job(&collection, name).unwrap().to_string();
        assert_eq!(job("backup.daily"), "backup-daily");
        assert_eq!(job("Backup daily"), "Backup-daily-2");
        assert_eq!(job("2fast"), "job-2fast");
        assert_eq!(job("…"), "job");
        assert_eq!(job(&"x".repeat(200)).len(), 100);
        assert_eq!(job(&"x".repeat(200)).len(), 100);
    }
}
