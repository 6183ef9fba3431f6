//! The credential in a job's `sasToken`: a shared access signature, which is sent in the query, or
//! the account key, which signs the request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kalends_domain::Secret;
use zeroize::Zeroizing;

use super::error::StorageQueueError;
use crate::signature::signature;

pub(super) const CONTENT_TYPE: &str = "application/xml";
/// Bytes of an account key.
const KEY_BYTES: usize = 64;

/// A parsed `sasToken`.
pub(super) enum Credential {
    /// A shared access signature.
    Query(Secret),
    /// The account key.
    Key(Zeroizing<Vec<u8>>),
}

impl Credential {
    /// Parses a `sasToken`. A signature may have a prefix that ends with a question mark, such as the
    /// URL of the queue.
    pub(super) fn parse(token: &Secret) -> Result<Credential, StorageQueueError> {
        let text = token.reveal().trim();
        if let Ok(key) = STANDARD.decode(text)
            && key.len() == KEY_BYTES
        {
            return Ok(Credential::Key(Zeroizing::new(key)));
        }
        let query = text.split_once('?').map_or(text, |(_, query)| query);
        if !query.split('&').any(|part| part.starts_with("sig=")) {
            return Err(StorageQueueError::InvalidToken);
        }
        Ok(Credential::Query(Secret::new(query.to_owned())))
    }
}

/// The parts of a request that a signature with the account key covers.
pub(super) struct SignedParts<'a> {
    pub(super) account: &'a str,
    pub(super) path: &'a str,
    pub(super) body_bytes: usize,
    /// The headers that begin with `x-ms-`, in alphabetical order.
    pub(super) headers: [(&'static str, &'a str); 3],
}

impl SignedParts<'_> {
    /// The value of the `Authorization` header.
    pub(super) fn authorization(&self, key: &[u8]) -> String {
        format!("SharedKey {}:{}", self.account, signature(key, &self.string_to_sign()))
    }

    /// Method, eleven standard headers of which two are sent, `x-ms-` headers, resource.
    fn string_to_sign(&self) -> String {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        format!(
            "POST\n\n\n{}\n\n{CONTENT_TYPE}\n\n\n\n\n\n\n{headers}/{}{}",
            self.body_bytes, self.account, self.path
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        match Credential::parse(&Secret::new(text.to_owned())).ok()? {
            Credential::Query(query) => Some(query.reveal().to_owned()),
            Credential::Key(key) => Some(format!("key of {}", key.len())),
        }
    }

    #[test]
    fn signatures_and_keys_are_distinguished() {
        let query = "sv=2014-02-14&sig=abc%3D&sp=a";
        for text in [query, &format!("?{query}"), &format!("s?{query}")] {
            assert_eq!(read(text).as_deref(), Some(query));
        }
        assert_eq!(read(&STANDARD.encode([7; 64])).as_deref(), Some("key of 64"));
        for text in ["", "ThIsiSmYtOkeNdoyOusEe", &STANDARD.encode([7; 32]), "a=b"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// The expected value comes from Python's hmac and hashlib.
    #[test]
    fn requests_are_signed_with_the_account_key() {
        let signed = SignedParts {
            account: "acc",
            path: "/work/messages",
            body_bytes: 70,
            headers: [
                ("x-ms-client-request-id", "1"),
                ("x-ms-date", "Sun, 15 Nov 2026 12:00:00 GMT"),
                ("x-ms-version", "2019-02-02"),
            ],
        };
        assert_eq!(
            signed.authorization(&[7; 64]),
            "SharedKey acc:ZRF5eK37ro/uOthT3HF/FVJWakxd6wcvcpA/e28QUqo="
        );
    }
}
