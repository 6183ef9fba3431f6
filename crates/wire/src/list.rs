//! Pages of list responses.

use crate::json::Json;
use crate::object::ObjectBuilder;

/// Serialises a page. `nextLink` is always present: `null` on the last page, and in the old
/// versions.
pub fn write_list<'a>(values: Vec<Json<'a>>, next_link: Option<&'a str>) -> Json<'a> {
    ObjectBuilder::new()
        .put("value", Json::Array(values))
        .put("nextLink", next_link.map_or(Json::Null, Json::from))
        .into()
}
