//! Texts that are kept in the clear or sealed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use kalends_domain::{SECRET_HEADERS, SECRET_PARAMETERS, Secret};
use serde::{Deserialize, Serialize};

use crate::encryption::Cipher;
use crate::error::StoreError;
use crate::record::JobUid;
use crate::stored_form::damaged;

/// A text, in the clear or sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Clear(String),
    Sealed { sealed: String },
}

/// Seals and opens the texts of jobs.
#[derive(Clone, Debug)]
pub struct DefinitionCodec {
    cipher: Cipher,
    secret_headers: Vec<String>,
}

impl DefinitionCodec {
    /// Seals with `cipher`; `secret_headers` are sealed beside those that always are.
    pub fn new(cipher: Cipher, secret_headers: &[String]) -> DefinitionCodec {
        let always = SECRET_HEADERS.iter().map(|name| name.to_string());
        let named = secret_headers.iter().map(|name| name.to_ascii_lowercase());
        DefinitionCodec { cipher, secret_headers: always.chain(named).collect() }
    }

    /// What seals.
    pub fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    pub(crate) fn seal(&self, uid: JobUid, member: &str, text: &str) -> Result<Text, StoreError> {
        let sealed = self.cipher.seal(&place(uid, member), text)?;
        Ok(Text::Sealed { sealed: STANDARD_NO_PAD.encode(sealed) })
    }

    pub(crate) fn open(&self, uid: JobUid, member: &str, text: Text) -> Result<String, StoreError> {
        match text {
            Text::Clear(text) => Ok(text),
            Text::Sealed { sealed } => {
                let sealed = STANDARD_NO_PAD.decode(sealed).map_err(damaged)?;
                Ok(self.cipher.open(&place(uid, member), &sealed)?.reveal().to_owned())
            }
        }
    }

    pub(crate) fn open_secret(
        &self,
        uid: JobUid,
        member: &str,
        text: Text,
    ) -> Result<Secret, StoreError> {
        self.open(uid, member, text).map(Secret::new)
    }

    pub(crate) fn header(
        &self,
        uid: JobUid,
        member: &str,
        name: &str,
        value: &str,
    ) -> Result<Text, StoreError> {
        match self.secret_headers.iter().any(|secret| secret.eq_ignore_ascii_case(name)) {
            true => self.seal(uid, &format!("{member}.{}", name.to_ascii_lowercase()), value),
            false => Ok(Text::Clear(value.to_owned())),
        }
    }

    pub(crate) fn address(&self, uid: JobUid, member: &str, uri: &str) -> Result<Text, StoreError> {
        let query = uri.split_once('?').map_or("", |(_, query)| query);
        let is_secret = |parameter: &str| {
            let name = parameter.split_once('=').map_or(parameter, |(name, _)| name);
            SECRET_PARAMETERS.iter().any(|secret| secret.eq_ignore_ascii_case(name))
        };
        match query.split('&').any(is_secret) {
            true => self.seal(uid, member, uri),
            false => Ok(Text::Clear(uri.to_owned())),
        }
    }
}

fn place(uid: JobUid, member: &str) -> String {
    format!("{uid} {member}")
}
