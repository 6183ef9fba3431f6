//! Jobs, the same for every contender: one-time jobs that post 256 bytes to the sink.

use crate::engine::BODY_BYTES;

/// Jobs of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of jobs.
    pub count: usize,
    /// Scheduled time of the first job, in microseconds since 1970.
    pub first: i64,
    /// Microseconds between the scheduled times of two jobs; 0 if all are due at the same time.
    pub spacing: i64,
}

impl Load {
    /// Scheduled time of a job, in microseconds since 1970.
    pub fn due(&self, job: usize) -> i64 {
        self.first + job as i64 * self.spacing
    }

    /// Request body of a job, which tells the sink its number and scheduled time.
    pub fn body(&self, job: usize) -> String {
        let mut body = format!("id={job:010};due={:016};", self.due(job));
        body.extend(std::iter::repeat_n('x', BODY_BYTES - body.len()));
        body
    }
}

/// Number and scheduled time of a job from its request body.
pub fn parse(body: &[u8]) -> Option<(u128, i64)> {
    let text = std::str::from_utf8(body.get(..35)?).ok()?;
    let (id, due) = text.strip_prefix("id=")?.split_once(";due=")?;
    Some((id.parse().ok()?, due.strip_suffix(';')?.parse().ok()?))
}
