//! System: this node, the store, and the pause of everything.

use askama::Template;

use super::{PageResult, rendered};
use crate::api::{Api, Data, read};
use crate::view::View;

#[derive(Template)]
#[template(path = "system.html")]
struct System<'a> {
    view: &'a View,
    node: Data,
    facts: Vec<(String, String)>,
}

pub(super) async fn page(view: &mut View, api: &dyn Api) -> PageResult {
    view.title = "System".to_owned();
    let node = read(api, "/api/node").await?;
    let facts = [
        ("Version", "version"),
        ("Node", "node"),
        ("Time zone data", "zoneData"),
        ("Started", "startedAt"),
        ("Store", "store.kind"),
        ("Scheduler", "scheduler.state"),
    ];
    let facts = facts.iter().map(|(name, path)| ((*name).to_owned(), node.text(path)));
    let facts = facts.filter(|(_, value)| !value.is_empty()).collect();
    rendered(&System { node, facts, view })
}
