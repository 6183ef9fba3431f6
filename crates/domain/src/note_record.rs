//! Notes as a store keeps them: who did what, and why.

use kalends_recurrence::Instant;

use crate::job::Switch;
use crate::name::{CollectionPath, JobPath};
use crate::note::NoteText;

/// The action that a note was given with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteAction {
    /// The job or collection was created.
    Created,
    /// It was edited, and stayed enabled or disabled.
    Edited,
    /// It was enabled, perhaps with other changes.
    Enabled,
    /// It was disabled, perhaps with other changes.
    Disabled,
    /// A manual run of the job was started.
    Ran,
    /// The next occurrence of the job was skipped.
    Skipped,
    /// All jobs were paused.
    Paused,
    /// The pause of all jobs was ended.
    Resumed,
    /// The request changed nothing.
    Noted,
}

impl NoteAction {
    /// All actions.
    pub const ALL: [NoteAction; 9] = [
        NoteAction::Created,
        NoteAction::Edited,
        NoteAction::Enabled,
        NoteAction::Disabled,
        NoteAction::Ran,
        NoteAction::Skipped,
        NoteAction::Paused,
        NoteAction::Resumed,
        NoteAction::Noted,
    ];

    /// The action of an edit, by the switch before and after it.
    pub fn of_edit(before: Option<Switch>, after: Switch) -> NoteAction {
        match (before, after) {
            (None, _) => NoteAction::Created,
            (Some(before), after) if before == after => NoteAction::Edited,
            (Some(_), Switch::Enabled) => NoteAction::Enabled,
            (Some(_), Switch::Disabled) => NoteAction::Disabled,
        }
    }

    /// The name in responses and views.
    pub fn as_str(self) -> &'static str {
        match self {
            NoteAction::Created => "Created",
            NoteAction::Edited => "Edited",
            NoteAction::Enabled => "Enabled",
            NoteAction::Disabled => "Disabled",
            NoteAction::Ran => "Ran",
            NoteAction::Skipped => "Skipped",
            NoteAction::Paused => "Paused",
            NoteAction::Resumed => "Resumed",
            NoteAction::Noted => "Noted",
        }
    }
}

/// The caller who gave a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteAuthor {
    /// Unique id, as in the audit log.
    pub id: String,
    /// Display name.
    pub name: Option<String>,
}

/// A note that a caller gives with a request. The store adds time, action and resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNote {
    /// The caller.
    pub author: NoteAuthor,
    /// The text.
    pub text: NoteText,
}

/// The resource that a note belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteSubject {
    /// All jobs of the store.
    AllJobs,
    /// A collection.
    Collection(CollectionPath),
    /// A job.
    Job(JobPath),
}

impl NoteSubject {
    /// The collection; `None` if the note is about all jobs.
    pub fn collection(&self) -> Option<&CollectionPath> {
        match self {
            NoteSubject::AllJobs => None,
            NoteSubject::Collection(path) => Some(path),
            NoteSubject::Job(path) => Some(&path.collection),
        }
    }

    /// The job; `None` if the note is not about a single one.
    pub fn job(&self) -> Option<&JobPath> {
        match self {
            NoteSubject::AllJobs | NoteSubject::Collection(_) => None,
            NoteSubject::Job(path) => Some(path),
        }
    }
}

/// A stored note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteRecord {
    /// Increases with every note of the store.
    pub number: u64,
    /// Time of the action, by the clock of the store.
    pub time: Instant,
    /// The action.
    pub action: NoteAction,
    /// The resource.
    pub subject: NoteSubject,
    /// The caller.
    pub author: NoteAuthor,
    /// A [`NoteText`].
    pub text: String,
}

impl NoteRecord {
    /// Notes that a store keeps of each job, of each collection itself, and of all jobs; the newest stay.
    pub const PER_SUBJECT_MAX: usize = 100;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_action_of_an_edit_follows_the_switch() {
        use NoteAction::{Created, Disabled, Edited, Enabled};
        for (before, after, action) in [
            (None, Switch::Disabled, Created),
            (Some(Switch::Enabled), Switch::Enabled, Edited),
            (Some(Switch::Disabled), Switch::Disabled, Edited),
            (Some(Switch::Enabled), Switch::Disabled, Disabled),
            (Some(Switch::Disabled), Switch::Enabled, Enabled),
        ] {
            assert_eq!(NoteAction::of_edit(before, after), action, "{before:?} {after:?}");
        }
    }
}
