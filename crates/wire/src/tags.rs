//! Tags of jobs and collections.

use kalends_domain::Limits;

use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::node::Node;

pub(crate) fn read_tags(
    node: Node<'_>,
    limits: &Limits,
    errors: &mut ErrorDetails,
) -> Option<Vec<(String, String)>> {
    let node = node.with_code(ErrorCode::InvalidTag);
    let tags = node.map(errors)?;
    if tags.len() > limits.tags_max {
        let (max, found) = (limits.tags_max, tags.len());
        node.reject_any(format!("must have at most {max} tags (found {found})"), errors);
    }
    for (name, value) in &tags {
        let mut check = |part: &str, text: &str, max: usize| {
            let length = text.chars().count();
            if length > max {
                let message =
                    format!("must have a {part} of at most {max} characters (found {length})");
                errors.add(ErrorCode::InvalidTag, node.path.member(name).to_string(), message);
            }
        };
        check("name", name, limits.tag_name_chars_max);
        check("value", value, limits.tag_value_chars_max);
    }
    Some(tags)
}
