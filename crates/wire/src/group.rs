//! Reading resource groups.

use kalends_domain::{Limits, Location};

use crate::error::ErrorDetails;
use crate::json::Json;
use crate::node::Node;
use crate::shape;
use crate::tags::read_tags;
use crate::unknown_members::reject_unknown_members;
use crate::version::Version;

/// The body of a resource group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupBody {
    /// Location of the group.
    pub location: Option<String>,
    /// Names and values of its tags.
    pub tags: Vec<(String, String)>,
}

/// Reads the body of a PUT.
pub fn read_group(
    body: &Json<'_>,
    version: Version,
    limits: &Limits,
) -> Result<GroupBody, ErrorDetails> {
    let mut errors = ErrorDetails::default();
    let root = Node::root(body, &shape::GROUP, version);
    reject_unknown_members(root, &mut errors);
    root.is_object(&mut errors);
    let location = root.member("location").and_then(|node| read_location(node, &mut errors));
    let tags = root.member("tags").and_then(|node| read_tags(node, limits, &mut errors));
    match errors.is_empty() {
        true => Ok(GroupBody { location, tags: tags.unwrap_or_default() }),
        false => Err(errors),
    }
}

fn read_location(node: Node<'_>, errors: &mut ErrorDetails) -> Option<String> {
    let location = Location::new(node.text(errors)?);
    let location = location.map_err(|error| node.reject(error.message, errors)).ok()?;
    Some(location.as_str().to_owned())
}
