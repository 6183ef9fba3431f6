//! Collections: state, quota and plan.

use askama::Template;

use super::{PageResult, rendered};
use crate::address::CollectionAddress;
use crate::api::{Api, Data, read};
use crate::format::count;
use crate::mark::Mark;
use crate::view::View;

#[derive(Template)]
#[template(path = "collections.html")]
struct Collections<'a> {
    view: &'a View,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    href: String,
    resource: String,
    mark: Mark,
    state: String,
    jobs: String,
    failing: u64,
    disabled: u64,
    /// Share of the quota in use, in per cent; `None` without a limit.
    usage: Option<u64>,
    quota: String,
}

pub(super) async fn page(view: &mut View, api: &dyn Api) -> PageResult {
    view.title = "Collections".to_owned();
    let overview = read(api, "/api/overview").await?;
    let rows = overview.list("collections").iter().map(|row| Row::new(row, view)).collect();
    rendered(&Collections { rows, view })
}

impl Row {
    fn new(row: &Data, view: &View) -> Row {
        let address = CollectionAddress::of_id(&row.text("id"), &view.default_group);
        let jobs = row.integer("jobs");
        let max = row.integer("maxJobs");
        let state = row.text("state");
        Row {
            name: row.text("collection"),
            href: address.as_ref().map_or(String::new(), |address| {
                format!("{}collections/{}", view.root, address.in_console())
            }),
            resource: address.map(|address| address.in_api()).unwrap_or_default(),
            mark: if state == "Enabled" { Mark::Scheduled } else { Mark::Disabled },
            state,
            jobs: count(jobs),
            failing: row.integer("failing"),
            disabled: row.integer("disabled"),
            usage: (max > 0).then(|| (jobs * 100 / max.max(1)).min(100)),
            quota: if max > 0 {
                format!("{} of {}", count(jobs), count(max))
            } else {
                "no limit".to_owned()
            },
        }
    }
}

#[derive(Template)]
#[template(path = "collection.html")]
struct Collection<'a> {
    view: &'a View,
    name: String,
    resource: String,
    mark: Mark,
    state: String,
    definition: String,
    jobs_href: String,
}

pub(super) async fn one(view: &mut View, address: &CollectionAddress, api: &dyn Api) -> PageResult {
    view.title.clone_from(&address.collection);
    let collection = read(api, &format!("{}?api-version=2026-11-01", address.in_api())).await?;
    let state = collection.text("properties.state");
    let page = Collection {
        name: address.collection.clone(),
        resource: address.in_api(),
        mark: if state == "Enabled" { Mark::Scheduled } else { Mark::Disabled },
        state,
        definition: collection.pretty(),
        jobs_href: format!(
            "{}jobs?collection={}",
            view.root,
            crate::address::encode(&address.collection)
        ),
        view,
    };
    rendered(&page)
}
