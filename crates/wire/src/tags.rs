//! Tags: names and values for people.

use kalends_domain::Limits;

use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::node::Node;

pub(crate) fn read_tags(
    node: Node<'_>,
    limits: &Limits,
    errors: &mut ErrorDetails,
) -> Option<Vec<(String, String)>> {
    let node = node.or(ErrorCode::InvalidTag);
    let tags = node.map(errors)?;
    if tags.len() > limits.tags_max {
        node.refuse(format!("{} tags; allowed are {}", tags.len(), limits.tags_max), errors);
    }
    for (name, value) in &tags {
        let mut check = |what: &str, text: &str, max: usize| {
            let length = text.chars().count();
            if length > max {
                let message = format!("its {what} has {length} characters; allowed are {max}");
                errors.add(ErrorCode::InvalidTag, node.path.member(name).to_string(), message);
            }
        };
        check("name", name, limits.tag_name_chars_max);
        check("value", value, limits.tag_value_chars_max);
    }
    Some(tags)
}
