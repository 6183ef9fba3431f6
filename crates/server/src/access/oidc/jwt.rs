//! Parses JSON Web Tokens: header, claims and signature, each in base64url.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kalends_recurrence::Instant;
use kalends_wire::{ErrorDetails, Json, Number};

use crate::access::oidc::invalid;

/// Signature algorithm of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
}

/// A parsed token whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct Jwt<'a> {
    pub(super) algorithm: Algorithm,
    /// `kid` of the signing key.
    pub(super) key_id: String,
    /// The signed part: header and claims as they were sent.
    pub(super) signed: &'a [u8],
    pub(super) signature: Vec<u8>,
    claims: &'a str,
}

impl<'a> Jwt<'a> {
    pub(super) fn read(text: &'a str) -> Result<Jwt<'a>, &'static str> {
        let form = "lacks the three parts of a signed JWT";
        let (signed, signature) = text.rsplit_once('.').ok_or(form)?;
        let (head, claims) = signed.split_once('.').ok_or(form)?;
        if claims.contains('.') {
            return Err(form);
        }
        let head = object(head).ok_or("has an unreadable header")?;
        let algorithm = match head.text("alg") {
            Some("RS256") => Algorithm::Rs256,
            Some("ES256") => Algorithm::Es256,
            _ => return Err("must have the algorithm RS256 or ES256"),
        };
        let types = ["JWT", "at+jwt", "application/at+jwt"];
        let is_known = |kind: &str| types.iter().any(|known| known.eq_ignore_ascii_case(kind));
        if head.get("typ").is_some() && !head.text("typ").is_some_and(is_known) {
            return Err("must have the type JWT");
        }
        // Nested tokens and critical extensions are not supported.
        if head.get("cty").is_some() || head.get("crit").is_some() {
            return Err("must not have the headers cty and crit");
        }
        let key_id = head.text("kid").ok_or("lacks the header kid")?.to_owned();
        let signature = URL_SAFE_NO_PAD.decode(signature).ok();
        let signature = signature.ok_or("has an unreadable signature")?;
        Ok(Jwt { algorithm, key_id, signed: signed.as_bytes(), signature, claims })
    }

    pub(super) fn claims(&self) -> Result<Claims, &'static str> {
        object(self.claims).ok_or("has unreadable claims")
    }
}

fn object(base64: &str) -> Option<Claims> {
    let bytes = URL_SAFE_NO_PAD.decode(base64).ok()?;
    match Json::parse(&bytes).ok()?.into_owned() {
        value @ Json::Object(_) => Some(Claims(value)),
        _ => None,
    }
}

/// A JSON object whose member names are case-sensitive.
#[derive(Clone, Debug)]
pub(super) struct Claims(Json<'static>);

impl Claims {
    pub(super) fn get(&self, name: &str) -> Option<&Json<'static>> {
        member(&self.0, name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether a claim is a string or a list of strings that contains `wanted`. `a.b` also names
    /// member `b` of `a`; `scp` and `scope` are space-separated lists.
    pub(super) fn has(&self, name: &str, wanted: &str) -> bool {
        let found = self
            .get(name)
            .or_else(|| name.split('.').try_fold(&self.0, |value, name| member(value, name)));
        match found {
            Some(Json::String(text)) if matches!(name, "scp" | "scope") => {
                text.split(' ').any(|word| word == wanted)
            }
            Some(Json::String(text)) => text == wanted,
            Some(Json::Array(values)) => {
                values.iter().any(|value| matches!(value, Json::String(text) if text == wanted))
            }
            _ => false,
        }
    }

    /// A NumericDate claim: seconds since 1970.
    pub(super) fn time(&self, name: &str) -> Result<Option<Instant>, ErrorDetails> {
        let seconds = match self.get(name) {
            None => return Ok(None),
            Some(Json::Number(Number::Integer(seconds))) => Some(*seconds),
            Some(Json::Number(Number::Other(seconds))) if seconds.abs() < 1e15 => {
                Some(seconds.floor() as i64)
            }
            Some(_) => None,
        };
        let instant = seconds.and_then(Instant::from_unix_seconds);
        instant.map(Some).ok_or_else(|| invalid(format!("must have a time as {name}")))
    }
}

fn member<'a>(value: &'a Json<'static>, name: &str) -> Option<&'a Json<'static>> {
    match value {
        Json::Object(members) => {
            members.iter().find(|(other, _)| other == name).map(|(_, value)| value)
        }
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::access::oidc) fn claims(json: &str) -> Claims {
        object(&URL_SAFE_NO_PAD.encode(json)).unwrap()
    }

    fn read(head: &str) -> Result<Algorithm, &'static str> {
        let text = format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(head));
        Jwt::read(&text).map(|jwt| jwt.algorithm)
    }

    #[test]
    fn rs256_and_es256_are_the_only_algorithms() {
        assert_eq!(read(r#"{"alg":"RS256","kid":"k","typ":"JWT"}"#), Ok(Algorithm::Rs256));
        assert_eq!(read(r#"{"alg":"ES256","kid":"k","typ":"at+jwt"}"#), Ok(Algorithm::Es256));
        // Header members that point to a key are ignored.
        let with_key = r#"{"alg":"ES256","kid":"k","jku":"https://evil.test","jwk":{},"x5u":"x"}"#;
        assert_eq!(read(with_key), Ok(Algorithm::Es256));
        for algorithm in ["none", "None", "HS256", "RS512", "PS256", "ES384", "rs256", "EdDSA", ""]
        {
            let head = format!(r#"{{"alg":"{algorithm}","kid":"k"}}"#);
            assert!(read(&head).is_err(), "{algorithm}");
        }
    }

    #[test]
    fn malformed_and_nested_tokens_are_rejected() {
        for head in [
            r#"{"kid":"k"}"#,
            r#"{"alg":"RS256"}"#,
            r#"{"alg":["RS256"],"kid":"k"}"#,
            r#"{"alg":"RS256","alg":"none","kid":"k"}"#,
            r#"{"alg":"RS256","kid":"k","cty":"JWT"}"#,
            r#"{"alg":"RS256","kid":"k","crit":["exp"]}"#,
            r#"{"alg":"RS256","kid":"k","typ":"JWE"}"#,
            r#"{"alg":"RS256","kid":"k","typ":7}"#,
            "[]",
            "",
        ] {
            assert!(read(head).is_err(), "{head}");
        }
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","kid":"k"}"#);
        for text in [
            "",
            ".",
            "..",
            "a.b",
            &format!("{head}.e30"),
            &format!("{head}.e30.A.A"),
            &format!("{head}.e30.===="),
        ] {
            assert!(Jwt::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn claims_match_strings_lists_nested_members_and_scopes() {
        let claims = claims(
            r#"{"roles":["a","b"],"one":"a b","scp":"a b","realm":{"roles":["c"]},"x.y":"z","n":1}"#,
        );
        for (name, value, expected) in [
            ("roles", "b", true),
            ("roles", "c", false),
            ("one", "a b", true),
            ("one", "a", false),
            ("scp", "b", true),
            ("realm.roles", "c", true),
            ("x.y", "z", true),
            ("n", "1", false),
            ("none", "", false),
            ("Roles", "a", false),
        ] {
            assert_eq!(claims.has(name, value), expected, "{name} {value}");
        }
    }

    #[test]
    fn times_are_whole_or_fractional_seconds() {
        let claims = claims(r#"{"a":1770000000,"b":1770000000.9,"c":"1770000000","d":1e300}"#);
        let at = |name| claims.time(name).ok().flatten().map(|at| at.to_string());
        assert_eq!(at("a"), at("b"));
        assert_eq!(at("a").as_deref(), Some("2026-02-02T02:40:00Z"));
        assert!(claims.time("c").is_err() && claims.time("d").is_err());
        assert_eq!(claims.time("e"), Ok(None));
    }
}
