//! Size limits of jobs. The defaults are the documented limits of Azure Scheduler; an operator can raise
//! them.

use std::time::Duration;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// Size limits of a job and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole job, as compact JSON.
    pub job_bytes_max: usize,
    /// Characters of a URL.
    pub uri_chars_max: usize,
    /// Number of HTTP headers.
    pub headers_max: usize,
    /// Characters of all headers together, names and values.
    pub headers_chars_max: usize,
    /// Characters of an HTTP request body.
    pub body_chars_max: usize,
    /// Characters of a storage queue message. The queue service accepts 64 KiB after base64 encoding.
    pub queue_message_chars_max: usize,
    /// Number of custom properties of a Service Bus message.
    pub custom_properties_max: usize,
    /// Number of tags.
    pub tags_max: usize,
    /// Characters of a tag's name.
    pub tag_name_chars_max: usize,
    /// Characters of a tag's value.
    pub tag_value_chars_max: usize,
    /// Minimum retry interval.
    pub retry_interval_min: Duration,
    /// Maximum retry interval.
    pub retry_interval_max: Duration,
    /// Maximum number of retries.
    pub retry_count_max: u32,
    /// Maximum timeout of an attempt.
    pub timeout_max: Duration,
    /// Characters of a description.
    pub description_chars_max: usize,
    /// Bytes of a PFX file.
    pub pfx_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            job_bytes_max: 16 * 1024,
            uri_chars_max: 2_048,
            headers_max: 50,
            headers_chars_max: 4_096,
            body_chars_max: 8_192,
            queue_message_chars_max: 48 * 1024,
            custom_properties_max: 100,
            tags_max: 15,
            tag_name_chars_max: 512,
            tag_value_chars_max: 256,
            retry_interval_min: Duration::from_secs(15),
            // 18 months of at most 31 days.
            retry_interval_max: Duration::from_secs(18 * 31 * DAY),
            retry_count_max: 20,
            timeout_max: Duration::from_secs(HOUR / 2),
            description_chars_max: 1_024,
            pfx_bytes_max: 12 * 1024,
        }
    }
}
