//! Names: compared without regard to case, kept as they were first spelled.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not the name of a collection or a job.
    #[error("a name begins with a letter and has 1 to 100 letters, digits, - and _")]
    Resource,
    /// Not the name of a resource group.
    #[error("a resource group has 1 to 90 letters, digits, - _ . ( ) and does not end with a dot")]
    Group,
    /// Not the id of a subscription.
    #[error("a subscription id is a GUID such as 6c55a6f0-6593-472f-9b3e-a51a9a757b40")]
    Subscription,
}

/// A text that is compared without regard to the case of ASCII letters. Order is that of the
/// upper-case form, which is how the service ordered its lists. Copies are cheap: every run has some.
#[derive(Clone, Debug)]
struct Spelled(Arc<str>);

impl Spelled {
    fn folded(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.bytes().map(|byte| byte.to_ascii_uppercase())
    }
}

impl PartialEq for Spelled {
    fn eq(&self, other: &Spelled) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Spelled {}

impl PartialOrd for Spelled {
    fn partial_cmp(&self, other: &Spelled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Spelled {
    fn cmp(&self, other: &Spelled) -> Ordering {
        self.folded().cmp(other.folded())
    }
}

impl Hash for Spelled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // In pieces: hashing byte by byte costs several times as much.
        let mut folded = [0; 32];
        for piece in self.0.as_bytes().chunks(folded.len()) {
            let (folded, _) = folded.split_at_mut(piece.len());
            folded.copy_from_slice(piece);
            folded.make_ascii_uppercase();
            state.write(folded);
        }
        state.write_u8(0);
    }
}

/// Makes a name type over [`Spelled`] with its own rule.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $error:expr, $is_valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Spelled);

        impl $name {
            /// Checks a text.
            pub fn new(text: &str) -> Result<$name, NameError> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) { Ok($name(Spelled(text.into()))) } else { Err($error) }
            }

            /// As it was spelled.
            pub fn as_str(&self) -> &str {
                &self.0.0
            }

            /// The form by which it is compared and ordered.
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
    /// The id of a subscription: whose collections they are.
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

/// Where a resource group is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupPath {
    /// Whose it is.
    pub subscription: SubscriptionId,
    /// Its name.
    pub group: GroupName,
}

/// Where a collection is. Ordered as lists are: by group, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionPath {
    /// The group that holds it.
    pub group: GroupPath,
    /// Its name.
    pub collection: CollectionName,
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobPath {
    /// The collection that holds it.
    pub collection: CollectionPath,
    /// Its name.
    pub job: JobName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case_and_keep_their_spelling() {
        let (mine, yours) = (JobName::new("MyJob").unwrap(), JobName::new("myjob").unwrap());
        assert_eq!(mine, yours);
        assert_eq!(mine.key(), yours.key());
        assert_eq!(mine.as_str(), "MyJob");
    }

    #[test]
    fn order_is_ordinal_without_case() {
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
    fn names_of_jobs_are_limited() {
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
    fn groups_and_subscriptions_follow_their_own_rules() {
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
