//! Many jobs at once, for who begins and ends their runs.

use std::collections::HashMap;

use kalends_domain::{Location, Switch};

use crate::form::{Keeper, read_collection};
use crate::record::{CollectionKey, JobBrief, JobKey, JobStanding};
use crate::sqlite::state::States as _;
use crate::sqlite::trouble::Worked;
use crate::sqlite::view::View;
use crate::sqlite::{collections, jobs, runs};

/// What there is to know of jobs before runs of them are begun.
pub(crate) fn briefs(
    view: &View,
    keeper: &Keeper,
    jobs: &[JobKey],
) -> Worked<Vec<Option<JobBrief>>> {
    // Many jobs are of few collections.
    let mut locations: HashMap<CollectionKey, Location> = HashMap::new();
    let mut brief = |key: &JobKey| {
        let Some((job, around)) = jobs::by_key(view, keeper, *key)? else { return Ok(None) };
        let location = match locations.get(&around.key) {
            Some(location) => location.clone(),
            None => {
                let location = read_collection(&around.definition)?.location;
                locations.insert(around.key, location.clone());
                location
            }
        };
        let open = runs::of_job(view, *key);
        let (collection, enabled_since) = (around.key, around.enabled_since);
        Ok(Some(JobBrief { job, collection, location, enabled_since, open }))
    };
    jobs.iter().map(&mut brief).collect()
}

/// How jobs stand.
pub(crate) fn standings(view: &View, jobs: &[JobKey]) -> Worked<Vec<Option<JobStanding>>> {
    let mut enabled: HashMap<i64, Option<bool>> = HashMap::new();
    let mut standing = |key: &JobKey| {
        let Some(row) = view.state(*key)? else { return Ok(None) };
        let is_enabled = match enabled.get(&row.collection) {
            Some(known) => *known,
            None => {
                let found = collections::is_enabled(view.connection(), row.collection)?;
                enabled.insert(row.collection, found);
                found
            }
        };
        Ok(is_enabled.map(|is_enabled| JobStanding {
            generation: row.generation,
            switch: switch(row.switched_on),
            collection: switch(is_enabled),
            state: row.state,
        }))
    };
    jobs.iter().map(&mut standing).collect()
}

fn switch(is_on: bool) -> Switch {
    if is_on { Switch::Enabled } else { Switch::Disabled }
}
