//! Messages of jobs to Azure Storage queues and Service Bus.
//!
//! Account, queue and namespace become parts of a URI, so this module validates each of them. Members
//! can be absent, because old API versions did not require them; the attempt then fails with a
//! message.

use std::time::Duration;

use kalends_recurrence::Instant;

use crate::secret::Secret;
use crate::validation_error::{ValidationError, ValidationErrorKind};
use crate::verbatim::Verbatim;

/// A message to an Azure Storage queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageQueueMessage {
    /// Storage account in its original spelling; lower-case in the URI.
    pub storage_account: Option<String>,
    /// Queue name in its original spelling; lower-case in the URI.
    pub queue_name: Option<String>,
    /// Shared access signature or account key; never returned by the API.
    pub sas_token: Option<Secret>,
    /// Message text.
    pub message: Option<String>,
    /// Encoding of the message in the queue.
    pub format: MessageFormat,
}

/// The encoding of a storage queue message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageFormat {
    /// The default of the installation.
    #[default]
    Unset,
    /// The XML envelope of Azure Scheduler.
    Envelope,
    /// The text without an envelope.
    Raw,
}

/// A message to a Service Bus queue or topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBusMessage {
    /// Name of the queue or topic.
    pub entity: Option<String>,
    /// Service Bus namespace, without the domain.
    pub namespace: Option<String>,
    /// Protocol of the connection.
    pub transport: Option<Transport>,
    /// Credentials of the sender.
    pub authentication: Option<ServiceBusAuthentication>,
    /// Message text.
    pub message: Option<String>,
    /// Properties that the broker interprets.
    pub brokered: Option<Box<BrokeredProperties>>,
    /// Application properties, in the order in which they were sent.
    pub custom: Option<Vec<(String, String)>>,
}

/// The protocol of a Service Bus message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the documented values")]
pub enum Transport {
    NotSpecified,
    NetMessaging,
    Amqp,
}

/// Credentials for Service Bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBusAuthentication {
    /// `type`.
    pub kind: Option<ServiceBusAuthenticationKind>,
    /// Name of the shared access policy.
    pub sas_key_name: Option<String>,
    /// Shared access key; never returned by the API.
    pub sas_key: Option<Secret>,
}

/// Authentication types of Service Bus messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the documented values")]
pub enum ServiceBusAuthenticationKind {
    NotSpecified,
    SharedAccessKey,
}

/// Properties of a Service Bus message that the broker interprets.
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

/// The time to live of a message. The two oldest API versions used a date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// Duration from the time of sending.
    For(Verbatim<Duration>),
    /// Expiration time.
    Until(Instant),
}

/// Validates a storage account name: 3 to 24 letters and digits.
pub fn check_storage_account(text: &str) -> Result<(), ValidationError> {
    let valid = (3..=24).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let message = "must have 3 to 24 letters and digits";
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidStorageAccount, message))
}

/// Validates a storage queue name: 3 to 63 letters, digits and single dashes, no dash first or last.
pub fn check_queue_name(text: &str) -> Result<(), ValidationError> {
    let valid = (3..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--");
    let message = "must have 3 to 63 letters, digits and single dashes, and no dash first or last";
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidQueueName, message))
}

/// Validates a Service Bus namespace: 6 to 50 letters, digits and dashes, a letter first, no dash last.
pub fn check_namespace(text: &str) -> Result<(), ValidationError> {
    let valid = (6..=50).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && !text.ends_with('-');
    let message = "must have 6 to 50 letters, digits and dashes, a letter first and no dash last";
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidServiceBus, message))
}

/// Validates a Service Bus queue or topic name: 1 to 260 characters, segments separated by single slashes.
pub fn check_entity(text: &str) -> Result<(), ValidationError> {
    let part = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$".contains(&byte);
        !part.is_empty() && part != "." && part != ".." && part.bytes().all(allowed)
    };
    let valid = (1..=260).contains(&text.len()) && text.split('/').all(part);
    let message =
        "must have 1 to 260 letters, digits and -_.~$, in segments separated by single slashes";
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidServiceBus, message))
}

/// Validates a value that becomes an HTTP header or an AMQP property: short, no control characters.
pub fn check_property(text: &str) -> Result<(), ValidationError> {
    const CHARS_MAX: usize = 128;
    let valid = text.chars().count() <= CHARS_MAX && !text.contains(char::is_control);
    let message = format!("must have at most {CHARS_MAX} characters and no control characters");
    valid
        .then_some(())
        .ok_or_else(|| ValidationError::new(ValidationErrorKind::InvalidBrokeredProperty, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_change_the_host_or_path_of_a_uri() {
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
