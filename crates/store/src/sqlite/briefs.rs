//! Many jobs at once, for who begins and ends their runs.

use std::collections::HashMap;

use kalends_domain::Switch;

use crate::form::Keeper;
use crate::record::{JobBrief, JobKey, JobStanding};
use crate::sqlite::around::{Around, Arounds};
use crate::sqlite::memory::Memory;
use crate::sqlite::remembered::Changes;
use crate::sqlite::state::{StateRow, States as _};
use crate::sqlite::trouble::Worked;
use crate::sqlite::view::View;
use crate::sqlite::{collections, jobs, runs};

/// What there is to know of jobs before runs of them are begun.
pub(crate) fn briefs(
    view: &View,
    keeper: &Keeper,
    jobs: &[JobKey],
) -> Worked<Vec<Option<JobBrief>>> {
    let mut arounds = Arounds::default();
    let mut brief = |key: &JobKey| {
        let found = jobs::by_key(view, keeper, *key, &mut arounds)?;
        let Some((job, Around { key: collection, enabled_since, location, .. })) = found else {
            return Ok(None);
        };
        let open = runs::of_job(view, *key);
        Ok(Some(JobBrief { job, collection, location, enabled_since, open }))
    };
    jobs.iter().map(&mut brief).collect()
}

/// How jobs stand, where all of them were changed lately, as those are that have just been begun: so
/// nobody has to wait for a reader. All that was answered before is in it.
pub(crate) fn standings_at_once(
    memory: &Memory,
    jobs: &[JobKey],
) -> Option<Vec<Option<JobStanding>>> {
    let standing = |key: &JobKey| {
        let Some(row) = memory.overlay.as_committed(*key)? else { return Some(None) };
        let is_enabled = memory.switches.get(&row.collection)?;
        Some(is_enabled.map(|is_enabled| standing_of(&row, is_enabled)))
    };
    jobs.iter().map(standing).collect()
}

/// How jobs stand. `since` is from before the view was taken.
pub(crate) fn standings(
    view: &View,
    jobs: &[JobKey],
    since: Changes,
) -> Worked<Vec<Option<JobStanding>>> {
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
        Ok(is_enabled.map(|is_enabled| standing_of(&row, is_enabled)))
    };
    let standings = jobs.iter().map(&mut standing).collect();
    view.memory.switches.learn(since, enabled);
    standings
}

fn standing_of(row: &StateRow, is_enabled: bool) -> JobStanding {
    JobStanding {
        generation: row.generation,
        switch: switch(row.switched_on),
        collection: switch(is_enabled),
        state: row.state,
    }
}

fn switch(is_on: bool) -> Switch {
    if is_on { Switch::Enabled } else { Switch::Disabled }
}
