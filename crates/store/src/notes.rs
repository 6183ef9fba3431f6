//! The action of a note, by the write that it was given with.

use kalends_domain::NoteAction;

use crate::api_store::{CollectionWrite, JobWrite, PauseWrite};
use crate::record::{CollectionRecord, JobRecord};

/// The action of a write of a job; `None` if there is no job afterwards, whose note it could be.
pub(crate) fn action_on_job(write: &JobWrite, before: Option<&JobRecord>) -> Option<NoteAction> {
    match (write, before) {
        (JobWrite::Put(put), Some(before))
            if put.state.skip_until.is_some()
                && put.state.skip_until != before.state.skip_until =>
        {
            Some(NoteAction::Skipped)
        }
        (JobWrite::Put(put), before) => {
            let before = before.map(|before| before.job.definition.switch);
            Some(NoteAction::of_edit(before, put.definition.switch))
        }
        (JobWrite::Delete, _) | (_, None) => None,
        (JobWrite::Keep, Some(_)) => Some(NoteAction::Noted),
        (JobWrite::Run { .. }, Some(_)) => Some(NoteAction::Ran),
    }
}

/// The action of a write of a collection; `None` if there is no collection afterwards.
pub(crate) fn action_on_collection(
    write: &CollectionWrite,
    before: Option<&CollectionRecord>,
) -> Option<NoteAction> {
    match (write, before) {
        (CollectionWrite::Put(collection), before) => {
            let before = before.map(|before| before.collection.state.switch());
            Some(NoteAction::of_edit(before, collection.state.switch()))
        }
        (CollectionWrite::Delete, _) | (CollectionWrite::Keep, None) => None,
        (CollectionWrite::Keep, Some(_)) => Some(NoteAction::Noted),
    }
}

/// The action of a write of the pause.
pub(crate) fn action_on_pause(write: &PauseWrite) -> NoteAction {
    match write {
        PauseWrite::Keep => NoteAction::Noted,
        PauseWrite::Put(record) if record.pause.resumed_at().is_some() => NoteAction::Resumed,
        PauseWrite::Put(_) => NoteAction::Paused,
    }
}
