//! `--note` of commands that change or run something.

use crate::api::Call;

/// A note on the change
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct NoteArgument {
    /// Note to store with the change, such as its reason; `kalends job notes` lists them
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl NoteArgument {
    /// The request with the note, if there is one.
    pub(super) fn add_to(&self, call: Call) -> Call {
        call.query_some("note", self.note.as_deref())
    }
}
