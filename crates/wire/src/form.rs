//! In which form a definition is written.

use kalends_domain::Secret;

use crate::json::Json;
use crate::version::Version;

/// For which version, and whether secrets are in it.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) version: Version,
    pub(crate) secrets: Secrets,
}

/// Whether secrets are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// Answers have none.
    LeftOut,
    /// What is patched in memory has them, or a patch would lose them.
    Revealed,
}

impl Form {
    pub(crate) fn secret<'a>(&self, secret: &'a Option<Secret>) -> Option<Json<'a>> {
        match self.secrets {
            Secrets::LeftOut => None,
            Secrets::Revealed => secret.as_ref().map(|secret| Json::from(secret.reveal())),
        }
    }
}
