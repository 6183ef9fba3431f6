//! Many jobs at once, for who begins and ends their runs.

use std::collections::HashMap;

use kalends_domain::Switch;

use crate::record::{GateState, JobForRun, JobKey};
use crate::sqlite::around::{Around, Arounds};
use crate::sqlite::memory::Memory;
use crate::sqlite::remembered::Changes;
use crate::sqlite::state::{StateRow, States as _};
use crate::sqlite::trouble::Worked;
use crate::sqlite::view::View;
use crate::sqlite::{collections, jobs, runs};
use crate::stored_form::DefinitionCodec;

/// What there is to know of jobs before runs of them are begun.
pub(crate) fn jobs_for_run(
    view: &View,
    codec: &DefinitionCodec,
    jobs: &[JobKey],
) -> Worked<Vec<Option<JobForRun>>> {
    let mut arounds = Arounds::default();
    let mut brief = |key: &JobKey| {
        let found = jobs::by_key(view, codec, *key, &mut arounds)?;
        let Some((job, Around { key: collection, enabled_since, location, .. })) = found else {
            return Ok(None);
        };
        let open = runs::of_job(view, *key);
        Ok(Some(JobForRun { job, collection, location, enabled_since, open }))
    };
    jobs.iter().map(&mut brief).collect()
}

/// How jobs stand, where all of them were changed lately, as those are that have just been begun: so
/// nobody has to wait for a reader. All that was answered before is in it.
pub(crate) fn cached_gate_states(
    memory: &Memory,
    jobs: &[JobKey],
) -> Option<Vec<Option<GateState>>> {
    let standing = |key: &JobKey| {
        let Some(row) = memory.overlay.as_committed(*key)? else { return Some(None) };
        let is_enabled = memory.switches.get(&row.collection)?;
        Some(is_enabled.map(|is_enabled| standing_of(&row, is_enabled)))
    };
    jobs.iter().map(standing).collect()
}

/// How jobs stand. `since` is from before the view was taken.
pub(crate) fn gate_states(
    view: &View,
    jobs: &[JobKey],
    since: Changes,
) -> Worked<Vec<Option<GateState>>> {
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

fn standing_of(row: &StateRow, is_enabled: bool) -> GateState {
    GateState {
        generation: row.generation,
        switch: switch(row.switched_on),
        collection: switch(is_enabled),
        state: row.state,
    }
}

fn switch(is_on: bool) -> Switch {
    if is_on { Switch::Enabled } else { Switch::Disabled }
}
