//! An input line of `kalends next --jsonl`.

use kalends_recurrence::{Definition, Instant};

use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::json::Json;
use crate::node::Node;
use crate::recurrence::definition;
use crate::shape;
use crate::version::Version;

/// A definition and the range of its occurrences to compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextRequest {
    /// Start time and recurrence.
    pub definition: Definition,
    /// Exclusive lower bound; absent means from the first occurrence.
    pub after: Option<Instant>,
    /// Maximum number of occurrences: 0 to 1,000,000, 10 by default.
    pub limit: usize,
}

const LIMIT_DEFAULT: i64 = 10;
/// About two years of a rule that fires every minute: a typing error must not produce output for
/// hours.
const LIMIT_MAX: i64 = 1_000_000;

impl NextRequest {
    /// Parses a line. `createdAt` defaults to `now`.
    pub fn read(line: &[u8], now: Instant) -> Result<NextRequest, ErrorDetails> {
        let body = Json::parse(line)?;
        let mut errors = ErrorDetails::default();
        let node = Node::root(&body, &shape::NEXT_REQUEST, Version::V2026_11_01);
        let request =
            if node.is_object(&mut errors) { request(node, now, &mut errors) } else { None };
        request.filter(|_| errors.is_empty()).ok_or(errors)
    }
}

fn request(node: Node<'_>, now: Instant, errors: &mut ErrorDetails) -> Option<NextRequest> {
    let created = node.member("createdAt").map_or(Some(now), |node| node.instant(errors));
    let after = node.member("after").and_then(|node| node.instant(errors));
    let limit = node.member("limit").map_or(Some(LIMIT_DEFAULT), |node| node.integer(errors));
    if let Some(limit) = limit.filter(|limit| !(0..=LIMIT_MAX).contains(limit)) {
        let message = format!("must be between 0 and {LIMIT_MAX} (found {limit})");
        errors.add(ErrorCode::InvalidRequestContent, "limit", message);
    }
    let definition = definition(node, created.unwrap_or(now), errors)?;
    Some(NextRequest { definition, after, limit: limit?.try_into().ok()? })
}
