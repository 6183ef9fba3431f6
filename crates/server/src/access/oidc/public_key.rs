//! Public keys of a provider, and signature verification.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kalends_wire::Json;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

use crate::access::oidc::jwt::Algorithm;

/// Keys of a key set; providers have two or three, and a few more during a key rotation.
const KEYS_MAX: usize = 50;
/// Bytes of one coordinate of a P-256 point.
const COORDINATE_BYTES: usize = 32;

/// A signing key of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
}

impl PublicKey {
    /// Whether the signature of a text is valid. A key accepts only the algorithm of its type.
    pub(super) fn verifies(&self, algorithm: Algorithm, text: &[u8], signature: &[u8]) -> bool {
        match (self, algorithm) {
            (PublicKey::Rsa { modulus, exponent }, Algorithm::Rs256) => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, text, signature).is_ok()
            }
            (PublicKey::P256(point), Algorithm::Es256) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(text, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// Reads a key set: keys with their `kid`. Keys of other types or for other uses are skipped.
pub(super) fn read_keys(document: &[u8]) -> Result<Vec<(String, PublicKey)>, String> {
    let document = Json::parse(document).map_err(|errors| errors.to_string())?;
    match member(&document, "keys") {
        Some(Json::Array(keys)) if keys.len() <= KEYS_MAX => {
            Ok(keys.iter().filter_map(read_key).collect())
        }
        Some(Json::Array(keys)) => Err(format!("it has {} keys", keys.len())),
        _ => Err("it has no list of keys".into()),
    }
}

fn read_key(key: &Json<'_>) -> Option<(String, PublicKey)> {
    let is_for_signing = text(key, "use").is_none_or(|purpose| purpose == "sig");
    let id = text(key, "kid").filter(|_| is_for_signing)?;
    let bytes = |name| URL_SAFE_NO_PAD.decode(text(key, name)?).ok();
    let algorithm = text(key, "alg");
    let read = match text(key, "kty")? {
        "RSA" if algorithm.is_none_or(|name| name == "RS256") => {
            let modulus = without_leading_zeros(bytes("n")?);
            PublicKey::Rsa { modulus, exponent: without_leading_zeros(bytes("e")?) }
        }
        "EC" if algorithm.is_none_or(|name| name == "ES256") => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let is_point = x.len() == COORDINATE_BYTES && y.len() == COORDINATE_BYTES;
            if text(key, "crv") != Some("P-256") || !is_point {
                return None;
            }
            PublicKey::P256([&[4], x.as_slice(), &y].concat())
        }
        _ => return None,
    };
    Some((id.to_owned(), read))
}

fn without_leading_zeros(bytes: Vec<u8>) -> Vec<u8> {
    bytes.into_iter().skip_while(|byte| *byte == 0).collect()
}

fn member<'a, 'b>(value: &'a Json<'b>, name: &str) -> Option<&'a Json<'b>> {
    match value {
        Json::Object(members) => {
            members.iter().find(|(other, _)| other == name).map(|(_, value)| value)
        }
        _ => None,
    }
}

/// A string member of a JSON object.
pub(super) fn text<'a>(value: &'a Json<'_>, name: &str) -> Option<&'a str> {
    match member(value, name)? {
        Json::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_keys_are_read_and_others_are_skipped() {
        let coordinate = URL_SAFE_NO_PAD.encode([7; 32]);
        let document = format!(
            r#"{{"keys":[
            {{"kty":"RSA","kid":"r","n":"AAEC","e":"AQAB","use":"sig","x5c":["ignored"]}},
            {{"kty":"EC","kid":"e","crv":"P-256","x":"{coordinate}","y":"{coordinate}"}},
            {{"kty":"EC","kid":"other curve","crv":"P-384","x":"{coordinate}","y":"{coordinate}"}},
            {{"kty":"EC","kid":"short","crv":"P-256","x":"AAEC","y":"{coordinate}"}},
            {{"kty":"RSA","kid":"for encryption","n":"AAEC","e":"AQAB","use":"enc"}},
            {{"kty":"RSA","kid":"other algorithm","n":"AAEC","e":"AQAB","alg":"PS256"}},
            {{"kty":"oct","kid":"shared","k":"AAEC"}},
            {{"kty":"RSA","n":"AAEC","e":"AQAB"}},
            7]}}"#
        );
        let keys = read_keys(document.as_bytes()).unwrap();
        let ids: Vec<_> = keys.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["r", "e"]);
        let rsa = PublicKey::Rsa { modulus: vec![1, 2], exponent: vec![1, 0, 1] };
        assert_eq!(keys[0].1, rsa);
        for bad in ["", "[]", "{}", r#"{"keys":{}}"#] {
            assert!(read_keys(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
