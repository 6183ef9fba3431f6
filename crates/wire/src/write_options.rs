//! In which form a definition is written.

use kalends_domain::Secret;

use crate::json::Json;
use crate::version::Version;

/// For which version, and whether secrets are in it.
#[derive(Clone, Copy)]
pub(crate) struct WriteOptions {
    pub(crate) version: Version,
    pub(crate) secrets: Secrets,
}

/// Whether secrets are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// Answers have none.
    Omit,
    /// What is patched in memory has them, or a patch would lose them.
    Include,
}

impl WriteOptions {
    pub(crate) fn secret<'a>(&self, secret: &'a Option<Secret>) -> Option<Json<'a>> {
        match self.secrets {
            Secrets::Omit => None,
            Secrets::Include => secret.as_ref().map(|secret| Json::from(secret.reveal())),
        }
    }
}
