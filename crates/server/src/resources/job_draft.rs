//! The definition of a PUT or a preview, before the transaction that saves it.

use std::sync::Arc;

use kalends_domain::{JobDefinition, JobPath};
use kalends_store::StoreError;
use kalends_store::record::JobRecord;
use kalends_wire::{
    ErrorDetails, FinalState, JobBody, Json, Version, has_stored_placeholder, keep_extensions,
    keep_stored_secrets, keep_type_spelling,
};

use super::jobs::{changed_meanwhile, read_certificates, store_error};
use crate::app::{App, Settings};
use crate::edit::unread_certificates;
use crate::response::ApiError;

/// The certificates of a definition that keeps stored secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredCertificates {
    /// Parsed, as before every save.
    Read,
    /// Not parsed: the result would confirm a guessed password of the stored file to a caller who may
    /// not save the definition.
    Skip,
}

/// A definition that was read from a body.
pub(super) struct JobDraft {
    settings: Arc<Settings>,
    version: Version,
    /// As read, with the data of its certificates unless it keeps stored secrets.
    definition: JobDefinition,
    final_state: Option<FinalState>,
    kept: Option<KeptSecrets>,
}

/// The stored definition that secrets were taken from, and the result.
struct KeptSecrets {
    stored: Option<JobDefinition>,
    complete: JobDefinition,
    certificates: StoredCertificates,
}

impl JobDraft {
    /// Reads a body. Certificates are parsed here, outside the transaction.
    pub(super) async fn read(
        app: &App,
        path: &JobPath,
        body: &Json<'_>,
        version: Version,
        certificates: StoredCertificates,
    ) -> Result<JobDraft, ApiError> {
        let settings = Arc::clone(&app.settings);
        let JobBody { definition, final_state } = JobBody::read(body, version, &settings.limits)?;
        let draft = JobDraft { settings, version, definition, final_state, kept: None };
        if version.is_old() || !has_stored_placeholder(body) {
            let definition = read_certificates(app, draft.definition).await?;
            return Ok(JobDraft { definition, ..draft });
        }
        let stored = match app.store.job(path.clone()).await {
            Ok(found) => found.map(|(job, _)| job.job.definition),
            // A PUT may replace a job that cannot be read, but nothing of it can be kept.
            Err(StoreError::Unreadable(_)) => None,
            Err(error) => return Err(store_error(error, &path.collection)),
        };
        let complete = draft.with_stored_secrets(stored.as_ref())?;
        let complete = match certificates {
            StoredCertificates::Read => read_certificates(app, complete).await?,
            StoredCertificates::Skip => complete,
        };
        Ok(JobDraft { kept: Some(KeptSecrets { stored, complete, certificates }), ..draft })
    }

    /// The definition to save in place of the existing job's.
    pub(super) fn complete(&self, existing: Option<&JobRecord>) -> Result<JobDefinition, ApiError> {
        let mut complete = self.with_stored_members(existing.map(|job| &job.job.definition))?;
        if let Some(state) = &self.final_state {
            let present = existing.map(|job| (job.state.lifecycle, job.job.definition.switch));
            complete.switch = state.switch_of(present)?;
        }
        Ok(complete)
    }

    fn with_stored_members(
        &self,
        stored: Option<&JobDefinition>,
    ) -> Result<JobDefinition, ApiError> {
        let Some(kept) = &self.kept else {
            let mut definition = self.definition.clone();
            match stored {
                Some(stored) if self.version.is_old() => keep_extensions(stored, &mut definition),
                Some(stored) => keep_type_spelling(stored, &mut definition),
                None => {}
            }
            return Ok(definition);
        };
        if kept.stored.as_ref() == stored {
            return Ok(kept.complete.clone());
        }
        let mut complete = self.with_stored_secrets(stored)?;
        let is_unread = unread_certificates(&mut complete).next().is_some();
        match is_unread && kept.certificates == StoredCertificates::Read {
            true => Err(changed_meanwhile()),
            false => Ok(complete),
        }
    }

    fn with_stored_secrets(
        &self,
        stored: Option<&JobDefinition>,
    ) -> Result<JobDefinition, ErrorDetails> {
        let mut definition = self.definition.clone();
        let Settings { limits, secret_headers, .. } = &*self.settings;
        keep_stored_secrets(stored, &mut definition, limits, secret_headers)?;
        if let Some(stored) = stored {
            keep_type_spelling(stored, &mut definition);
        }
        Ok(definition)
    }
}
