//! Options of serialising a definition.

use kalends_domain::Secret;

use crate::json::Json;
use crate::version::Version;

/// API version and treatment of secrets.
#[derive(Clone, Copy)]
pub(crate) struct WriteOptions {
    pub(crate) version: Version,
    pub(crate) secrets: Secrets,
}

/// Whether secrets are serialised.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// For responses.
    Omit,
    /// For definitions that a patch is merged into: without its secrets the patched job would lose
    /// them. Never for anything that leaves the process.
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
