//! Text members, stored in plain text or encrypted.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use kalends_domain::{Secret, SecretHeaders, is_secret_parameter};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::encryption::Cipher;
use crate::error::StoreError;
use crate::record::JobUid;
use crate::stored_form::damaged;

/// A text in plain text or encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Plain(String),
    Encrypted {
        /// Base64 of the output of [`Cipher::encrypt`].
        #[serde(rename = "sealed")]
        ciphertext: String,
    },
}

/// By hand: the derived one for untagged enums copies the value before it looks at it, and every run
/// reads a definition.
impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        struct TextVisitor;

        #[derive(Deserialize)]
        struct Encrypted {
            sealed: String,
        }

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text, or an object with `sealed`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text::Plain(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Text, E> {
                Ok(Text::Plain(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
                let encrypted = Encrypted::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Text::Encrypted { ciphertext: encrypted.sealed })
            }
        }

        deserializer.deserialize_any(TextVisitor)
    }
}

/// Encodes and decodes definitions, encrypting their secrets.
#[derive(Clone, Debug)]
pub struct DefinitionCodec {
    cipher: Cipher,
    secret_headers: SecretHeaders,
}

impl DefinitionCodec {
    /// A codec that encrypts with `cipher`, also the values of `secret_headers`.
    pub fn new(cipher: Cipher, secret_headers: SecretHeaders) -> DefinitionCodec {
        DefinitionCodec { cipher, secret_headers }
    }

    /// The cipher for secrets.
    pub fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    pub(crate) fn encrypt(
        &self,
        uid: JobUid,
        member: &str,
        text: &str,
    ) -> Result<Text, StoreError> {
        let encrypted = self.cipher.encrypt(&context(uid, member), text)?;
        Ok(Text::Encrypted { ciphertext: STANDARD_NO_PAD.encode(encrypted) })
    }

    pub(crate) fn decrypt(
        &self,
        uid: JobUid,
        member: &str,
        text: Text,
    ) -> Result<String, StoreError> {
        match text {
            Text::Plain(text) => Ok(text),
            Text::Encrypted { ciphertext } => {
                let encrypted = STANDARD_NO_PAD.decode(ciphertext).map_err(damaged)?;
                Ok(self.cipher.decrypt(&context(uid, member), &encrypted)?.reveal().to_owned())
            }
        }
    }

    pub(crate) fn decrypt_secret(
        &self,
        uid: JobUid,
        member: &str,
        text: Text,
    ) -> Result<Secret, StoreError> {
        self.decrypt(uid, member, text).map(Secret::new)
    }

    /// The stored form of a header value, encrypted if the header is secret.
    pub(crate) fn write_header(
        &self,
        uid: JobUid,
        member: &str,
        name: &str,
        value: &str,
    ) -> Result<Text, StoreError> {
        match self.secret_headers.contains(name) {
            true => self.encrypt(uid, &format!("{member}.{}", name.to_ascii_lowercase()), value),
            false => Ok(Text::Plain(value.to_owned())),
        }
    }

    /// The stored form of a URI, encrypted if a query parameter is secret.
    pub(crate) fn write_uri(
        &self,
        uid: JobUid,
        member: &str,
        uri: &str,
    ) -> Result<Text, StoreError> {
        let query = uri.split_once('?').map_or("", |(_, query)| query);
        let is_secret = |parameter: &str| {
            let name = parameter.split_once('=').map_or(parameter, |(name, _)| name);
            is_secret_parameter(name)
        };
        match query.split('&').any(is_secret) {
            true => self.encrypt(uid, member, uri),
            false => Ok(Text::Plain(uri.to_owned())),
        }
    }
}

/// The encryption context of a member. Part of every ciphertext: never change its format.
fn context(uid: JobUid, member: &str) -> String {
    format!("{uid} {member}")
}
