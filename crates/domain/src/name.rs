//! Resource names: case-insensitive, stored in their original spelling.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Error of validating a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Invalid name of a collection or job.
    #[error("must begin with a letter and have 1 to 100 letters, digits, - and _")]
    Resource,
    /// Invalid name of a resource group.
    #[error("must have 1 to 90 letters, digits and -_.(), and must not end with a dot")]
    Group,
    /// Invalid subscription id.
    #[error("must be a GUID such as 6c55a6f0-6593-472f-9b3e-a51a9a757b40")]
    Subscription,
}

/// A string that compares and hashes without regard to ASCII case. The order is that of the upper-case
/// form, as in the lists of Azure Scheduler. Clones are cheap because every run has several.
#[derive(Clone, Debug)]
struct CaseInsensitive(Arc<str>);

impl CaseInsensitive {
    fn upper_case(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.bytes().map(|byte| byte.to_ascii_uppercase())
    }
}

impl PartialEq for CaseInsensitive {
    fn eq(&self, other: &CaseInsensitive) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for CaseInsensitive {}

impl PartialOrd for CaseInsensitive {
    fn partial_cmp(&self, other: &CaseInsensitive) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CaseInsensitive {
    fn cmp(&self, other: &CaseInsensitive) -> Ordering {
        self.upper_case().cmp(other.upper_case())
    }
}

impl Hash for CaseInsensitive {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // In chunks: hashing byte by byte is several times slower.
        let mut upper_case = [0; 32];
        for piece in self.0.as_bytes().chunks(upper_case.len()) {
            let (upper_case, _) = upper_case.split_at_mut(piece.len());
            upper_case.copy_from_slice(piece);
            upper_case.make_ascii_uppercase();
            state.write(upper_case);
        }
        state.write_u8(0);
    }
}

/// Defines a name type over [`CaseInsensitive`] with its own validation.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $error:expr, $is_valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(CaseInsensitive);

        impl $name {
            /// Validates a name.
            pub fn new(text: &str) -> Result<$name, NameError> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) { Ok($name(CaseInsensitive(text.into()))) } else { Err($error) }
            }

            /// The name in its original spelling.
            pub fn as_str(&self) -> &str {
                &self.0.0
            }

            /// The upper-case form, which determines equality and order.
            pub fn key(&self) -> String {
                self.as_str().to_ascii_uppercase()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }
    };
}

name!(
    /// The name of a collection.
    CollectionName,
    NameError::Resource,
    is_resource_name
);
name!(
    /// The name of a job.
    JobName,
    NameError::Resource,
    is_resource_name
);
name!(
    /// The name of a resource group.
    GroupName,
    NameError::Group,
    |text| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.()".contains(&byte);
        (1..=90).contains(&text.len()) && text.bytes().all(allowed) && !text.ends_with('.')
    }
);
name!(
    /// The id of a subscription, which owns resource groups.
    SubscriptionId,
    NameError::Subscription,
    |text| {
        let dashes = [8, 13, 18, 23];
        text.len() == 36
            && text.bytes().enumerate().all(|(position, byte)| match dashes.contains(&position) {
                true => byte == b'-',
                false => byte.is_ascii_hexdigit(),
            })
    }
);

fn is_resource_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.len() <= 100
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
        && text.bytes().all(allowed)
}

/// The path of a resource group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupPath {
    /// Subscription that owns the group.
    pub subscription: SubscriptionId,
    /// Name of the group.
    pub group: GroupName,
}

impl Default for GroupPath {
    /// The subscription and the resource group of users who need neither.
    fn default() -> GroupPath {
        GroupPath {
            subscription: SubscriptionId(CaseInsensitive(
                "00000000-0000-0000-0000-000000000000".into(),
            )),
            group: GroupName(CaseInsensitive("default".into())),
        }
    }
}

/// The path of a collection. Ordered by group, then by name, as in lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionPath {
    /// Resource group of the collection.
    pub group: GroupPath,
    /// Name of the collection.
    pub collection: CollectionName,
}

/// The path of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobPath {
    /// Collection of the job.
    pub collection: CollectionPath,
    /// Name of the job.
    pub job: JobName,
}

impl fmt::Display for CollectionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CollectionPath { group: GroupPath { subscription, group }, collection } = self;
        write!(
            f,
            "/subscriptions/{subscription}/resourceGroups/{group}\
             /providers/Microsoft.Scheduler/jobCollections/{collection}"
        )
    }
}

impl fmt::Display for JobPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/jobs/{}", self.collection, self.job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ignore_case_and_keep_their_spelling() {
        let (mine, yours) = (JobName::new("MyJob").unwrap(), JobName::new("myjob").unwrap());
        assert_eq!(mine, yours);
        assert_eq!(mine.key(), yours.key());
        assert_eq!(mine.as_str(), "MyJob");
    }

    #[test]
    fn the_order_is_that_of_the_upper_case_form() {
        let names = [
            "InsightsDash",
            "jc1",
            "july2",
            "ScheduledDeployments",
            "sdk-test",
            "sdkz",
            "sdk_test",
        ];
        let names = names.map(|name| CollectionName::new(name).unwrap());
        assert!(names.is_sorted());
    }

    #[test]
    fn invalid_job_names_are_rejected() {
        let long = "x".repeat(100);
        for good in ["a", "A1", "a-b_c", &long] {
            assert!(JobName::new(good).is_ok(), "{good}");
        }
        let too_long = "x".repeat(101);
        for bad in ["", "-", "1a", "a.b", "a b", "a/b", "..", "ä", "p\u{430}ypal", "a\0", &too_long]
        {
            assert_eq!(JobName::new(bad), Err(NameError::Resource), "{bad}");
        }
    }

    #[test]
    fn groups_and_subscriptions_have_their_own_rules() {
        assert!(GroupName::new("CS-SouthCentralUS-scheduler_(1).x").is_ok());
        assert!(GroupName::new("81542896").is_ok());
        for bad in ["", "x.", "a/b", &"x".repeat(91)] {
            assert_eq!(GroupName::new(bad), Err(NameError::Group), "{bad}");
        }
        assert!(SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").is_ok());
        for bad in [
            "not-a-guid",
            "6c55a6f06593472f9b3ea51a9a757b40",
            "6c55a6f0-6593-472f-9b3e-a51a9a757b4g",
        ] {
            assert_eq!(SubscriptionId::new(bad), Err(NameError::Subscription), "{bad}");
        }
    }
}
