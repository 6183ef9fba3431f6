//! Tags: names and values for people.

use kalends_domain::Limits;

use crate::code::Code;
use crate::error::Errors;
use crate::read::Node;

pub(crate) fn read_tags(
    node: Node<'_>,
    limits: &Limits,
    errors: &mut Errors,
) -> Option<Vec<(String, String)>> {
    let node = node.or(Code::InvalidTag);
    let tags = node.map(errors)?;
    if tags.len() > limits.tags_max {
        node.refuse(format!("{} tags; allowed are {}", tags.len(), limits.tags_max), errors);
    }
    for (name, value) in &tags {
        let mut check = |what: &str, text: &str, max: usize| {
            let length = text.chars().count();
            if length > max {
                let message = format!("its {what} has {length} characters; allowed are {max}");
                errors.add(Code::InvalidTag, node.place.member(name).path(), message);
            }
        };
        check("name", name, limits.tag_name_chars_max);
        check("value", value, limits.tag_value_chars_max);
    }
    Some(tags)
}
