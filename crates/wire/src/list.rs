//! Pages of lists.

use crate::json::Json;
use crate::object::ObjectBuilder;

/// Writes a page. `next_link` is written even where there is none; the old versions never have
/// one.
pub fn write_list<'a>(values: Vec<Json<'a>>, next_link: Option<&'a str>) -> Json<'a> {
    ObjectBuilder::new()
        .put("value", Json::Array(values))
        .put("nextLink", next_link.map_or(Json::Null, Json::from))
        .into()
}
