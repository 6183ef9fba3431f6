//! What a job's `sasToken` is: a shared access signature, which goes into the query, or the
//! account's key, with which the request is signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kalends_domain::Secret;
use zeroize::Zeroizing;

use crate::signature::signature;

pub(super) const CONTENT_TYPE: &str = "application/xml";
/// Bytes of an account's key.
const KEY_BYTES: usize = 64;

/// As whom a message is put.
pub(super) enum Credential {
    /// A shared access signature.
    Query(Secret),
    /// The account's key.
    Key(Zeroizing<Vec<u8>>),
}

impl Credential {
    /// Tells which it is. Samples write signatures with a question mark or something else before
    /// the first one, and without.
    pub(super) fn read(token: &Secret) -> Result<Credential, String> {
        let text = token.reveal().trim();
        if let Ok(key) = STANDARD.decode(text)
            && key.len() == KEY_BYTES
        {
            return Ok(Credential::Key(Zeroizing::new(key)));
        }
        let query = text.split_once('?').map_or(text, |(_, query)| query);
        if !query.split('&').any(|part| part.starts_with("sig=")) {
            return Err(
                "the sasToken is neither a shared access signature nor an account key".into()
            );
        }
        Ok(Credential::Query(Secret::new(query.to_owned())))
    }
}

/// What a signature with the account's key covers.
pub(super) struct Signed<'a> {
    pub(super) account: &'a str,
    pub(super) path: &'a str,
    pub(super) body_bytes: usize,
    /// Those that begin with `x-ms-`, in alphabetical order.
    pub(super) headers: [(&'static str, &'a str); 3],
}

impl Signed<'_> {
    /// The value of the header that shows the signature.
    pub(super) fn authorization(&self, key: &[u8]) -> String {
        format!("SharedKey {}:{}", self.account, signature(key, &self.text()))
    }

    /// Method, eleven standard headers of which two are sent, own headers, resource.
    fn text(&self) -> String {
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
        match Credential::read(&Secret::new(text.to_owned())).ok()? {
            Credential::Query(query) => Some(query.reveal().to_owned()),
            Credential::Key(key) => Some(format!("key of {}", key.len())),
        }
    }

    #[test]
    fn signatures_and_keys_are_told_apart() {
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
        let signed = Signed {
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
