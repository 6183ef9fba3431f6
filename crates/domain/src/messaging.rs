//! Messages that a job puts into storage queues and Service Bus.
//!
//! Account, queue and namespace become parts of an address, so each is checked here. Clients of
//! the old versions left members out; those are absent, and an attempt then fails and says so.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::secret::Secret;
use crate::validation_error::{ValidationError, ValidationErrorKind};
use crate::verbatim::Verbatim;

/// A message for a storage queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageQueueMessage {
    /// The account, as written; lower-case in the address.
    pub storage_account: Option<String>,
    /// The queue, as written; lower-case in the address.
    pub queue_name: Option<String>,
    /// A shared access signature or an account key. Never answered.
    pub sas_token: Option<Secret>,
    /// The text.
    pub message: Option<String>,
    /// In which form it is put.
    pub format: MessageFormat,
}

/// In which form a storage queue message is put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageFormat {
    /// As the installation has it.
    #[default]
    Unset,
    /// In the XML envelope of the retired service.
    Envelope,
    /// The text alone.
    Raw,
}

/// A message for a Service Bus queue or topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBusMessage {
    /// The queue or the topic.
    pub entity: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// How it is sent.
    pub transport: Option<Transport>,
    /// As whom.
    pub authentication: Option<ServiceBusAuthentication>,
    /// The text.
    pub message: Option<String>,
    /// Properties that the broker reads.
    pub brokered: Option<BrokeredProperties>,
    /// Properties of the sender's own, in their order.
    pub custom: Option<Vec<(String, String)>>,
}

/// How a Service Bus message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the documented values")]
pub enum Transport {
    NotSpecified,
    NetMessaging,
    Amqp,
}

/// As whom a Service Bus message is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBusAuthentication {
    /// Of which kind.
    pub kind: Option<ServiceBusAuthenticationKind>,
    /// Which key.
    pub sas_key_name: Option<String>,
    /// The key. Never answered.
    pub sas_key: Option<Secret>,
}

/// The kinds of authentication that Service Bus messages have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the documented values")]
pub enum ServiceBusAuthenticationKind {
    NotSpecified,
    SharedAccessKey,
}

/// Properties of a Service Bus message that the broker reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the documented members")]
pub struct BrokeredProperties {
    pub content_type: Option<String>,
    pub correlation_id: Option<String>,
    pub force_persistence: Option<bool>,
    pub label: Option<String>,
    pub message_id: Option<String>,
    pub partition_key: Option<String>,
    pub reply_to: Option<String>,
    pub reply_to_session_id: Option<String>,
    pub scheduled_enqueue_time_utc: Option<Instant>,
    pub session_id: Option<String>,
    pub time_to_live: Option<TimeToLive>,
    pub to: Option<String>,
    pub via_partition_key: Option<String>,
}

/// How long a message lives. The two oldest versions of the API wrote a date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// From when it is sent.
    For(Verbatim<Duration>),
    /// Until then.
    Until(Instant),
}

/// A storage account: 3 to 24 letters and digits.
pub fn check_storage_account(text: &str) -> Result<(), ValidationError> {
    let valid = (3..=24).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let message = "a storage account has 3 to 24 letters and digits";
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidStorageAccount, message))
}

/// A storage queue: 3 to 63 letters, digits and single dashes inside.
pub fn check_queue_name(text: &str) -> Result<(), ValidationError> {
    let valid = (3..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--");
    let message = "a queue has 3 to 63 letters, digits and single dashes, none at its ends";
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidQueueName, message))
}

/// A Service Bus namespace: 6 to 50 letters, digits and dashes, a letter first and no dash last.
pub fn check_namespace(text: &str) -> Result<(), ValidationError> {
    let valid = (6..=50).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && !text.ends_with('-');
    let message =
        "a namespace has 6 to 50 letters, digits and dashes, a letter first and no dash last";
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidServiceBus, message))
}

/// A Service Bus queue or topic: 1 to 260 characters, parts divided by single slashes.
pub fn check_entity(text: &str) -> Result<(), ValidationError> {
    let part = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$".contains(&byte);
        !part.is_empty() && part != "." && part != ".." && part.bytes().all(allowed)
    };
    let valid = (1..=260).contains(&text.len()) && text.split('/').all(part);
    let message = "a queue or topic has 1 to 260 letters, digits and -_.~, in parts divided by single slashes";
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidServiceBus, message))
}

/// A property that becomes a header or an AMQP property: short and without control characters.
pub fn check_property(text: &str) -> Result<(), ValidationError> {
    const CHARS_MAX: usize = 128;
    let valid = text.chars().count() <= CHARS_MAX && !text.contains(char::is_control);
    let message = format!("at most {CHARS_MAX} characters, without control characters");
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidBrokeredProperty, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_addresses_cannot_build_another_address() {
        let check =
            |check: fn(&str) -> Result<(), ValidationError>, good: &[&str], bad: &[&str]| {
                for text in good {
                    assert!(check(text).is_ok(), "{text}");
                }
                for text in bad {
                    assert!(check(text).is_err(), "{text}");
                }
            };
        check(
            check_storage_account,
            &["schedulersdktest", "myStorageAccount", "abc"],
            &["", "ab", "a_b", "Evil.com/x?", &"a".repeat(25)],
        );
        check(
            check_queue_name,
            &["queue1", "testQueue", "a-b", &"a".repeat(63)],
            &["A", "a--b", "../x", "-ab", "ab-", &"a".repeat(64)],
        );
        check(
            check_namespace,
            &["scheduler-sdk-ns", &"a".repeat(50)],
            &["a", "x@evil.com", "a.b@evil", "1abcdef", "abcde-", &"a".repeat(51)],
        );
        check(
            check_entity,
            &["scheduler-sdk-queue", "a/b", &"a".repeat(260)],
            &["", "a//../b", "..", "a?b", "a#b", "/a", "a/", "a b", &"a".repeat(261)],
        );
    }
}
