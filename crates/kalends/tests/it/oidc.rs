//! Tokens of an OpenID Connect provider: valid, expired and forged ones.

use std::sync::atomic::Ordering;

use kalends_environment::{Clock as _, SystemClock};
use ring::hmac;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::identity_provider::{Provider, SigningKey, encode};
use crate::test_server::TestServer;
use crate::tokens::{STANDARD, SUBSCRIPTION, code, collection, new, request_as};

/// Current Unix time in seconds.
pub(crate) fn now() -> i64 {
    SystemClock.now().as_second()
}

/// A server that trusts a provider with an RSA and an EC key.
pub(crate) struct Setup {
    provider: Provider,
    keys: Vec<(String, SigningKey)>,
    pub(crate) server: TestServer,
}

const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";

impl Setup {
    pub(crate) fn new(settings: &[(&str, &str)]) -> Setup {
        let keys = [Some(SigningKey::p256()), SigningKey::rsa()];
        let keys: Vec<_> =
            keys.into_iter().flatten().map(|key| (key.algorithm().to_lowercase(), key)).collect();
        let public: Vec<_> = keys.iter().map(|(name, key)| key.public(name)).collect();
        let provider = Provider::start(&public);
        let server = TestServer::start_with(|command, _| {
            command
                .env("KALENDS_OIDC_ISSUER", &provider.issuer)
                .env("KALENDS_OIDC_AUDIENCE", "api://kalends,second")
                .env("KALENDS_OIDC_TENANT", TENANT)
                .env("KALENDS_FAILURES_PER_MINUTE", "100000")
                .envs(settings.iter().copied());
        });
        Setup { provider, keys, server }
    }

    fn claims(&self) -> Value {
        json!({
            "iss": self.provider.issuer, "aud": "api://kalends", "tid": TENANT, "sub": "subject-1",
            "preferred_username": "ann@example.org", "roles": ["Kalends.Contributor"],
            "nbf": now() - 10, "exp": now() + 600,
        })
    }

    /// Valid claims with changes; null removes a claim.
    pub(crate) fn claims_with(&self, changes: Value) -> Value {
        let mut claims = self.claims();
        for (name, value) in changes.as_object().unwrap() {
            let claims = claims.as_object_mut().unwrap();
            claims.remove(name);
            if !value.is_null() {
                claims.insert(name.clone(), value.clone());
            }
        }
        claims
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let (name, key) = &self.keys[0];
        key.sign(&json!({"alg": key.algorithm(), "kid": name, "typ": "JWT"}), claims)
    }

    fn request(&self, connection: &mut Connection, token: &str) -> (u16, String) {
        let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
        let response = request_as(connection, token, "GET", &target, None);
        match response.status {
            200 => (200, String::new()),
            _ => code(&response),
        }
    }
}

#[test]
fn tokens_of_both_algorithms_are_accepted_and_carry_roles() {
    let setup = Setup::new(&[]);
    let mut connection = setup.server.connect();
    let target = new(&collection("g", "c"));
    for (name, key) in &setup.keys {
        let head = json!({"alg": key.algorithm(), "kid": name});
        let token = key.sign(&head, &setup.claims());
        let put = request_as(&mut connection, &token, "PUT", &target, Some(STANDARD));
        assert_eq!(put.status, 201, "{name} {put:?}");
        let group = new(&format!("{SUBSCRIPTION}/resourceGroups/g"));
        let delete = request_as(&mut connection, &token, "DELETE", &group, None);
        assert_eq!(code(&delete), (403, "AuthorizationFailed".into()));
    }
    let nothing = setup.sign(&setup.claims_with(json!({"roles": ["Other.Owner"]})));
    assert_eq!(request_as(&mut connection, &nothing, "GET", &target, None).status, 404);
    let list = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    assert!(
        request_as(&mut connection, &nothing, "GET", &list, None)
            .body
            .starts_with(r#"{"value":[]"#)
    );
    let many = setup.claims_with(json!({"aud": ["x", "second"], "nbf": null}));
    assert_eq!(request_as(&mut connection, &setup.sign(&many), "GET", &target, None).status, 200);
    let me = request_as(&mut connection, &setup.sign(&setup.claims()), "GET", "/api/me", None);
    assert!(me.body.contains(r#""name":"ann@example.org","authentication":"Oidc""#), "{me:?}");
    let audit = std::fs::read_to_string(setup.server.folder().join("audit.log")).unwrap();
    let who =
        format!(r#""who":"oidc:{}#subject-1","name":"ann@example.org""#, setup.provider.issuer);
    assert!(audit.contains(&who), "{audit}");
}

#[test]
fn tokens_with_invalid_claims_are_refused() {
    let setup = Setup::new(&[]);
    let mut connection = setup.server.connect();
    let invalid = "InvalidAuthenticationToken";
    for (changes, expected) in [
        (json!({"iss": "https://evil.test"}), invalid),
        (json!({"iss": format!("{}/", setup.provider.issuer)}), invalid),
        (json!({"iss": null}), invalid),
        (json!({"iss": [setup.provider.issuer]}), invalid),
        (json!({"aud": "api://other"}), "InvalidAuthenticationTokenAudience"),
        (json!({"aud": null}), "InvalidAuthenticationTokenAudience"),
        (
            json!({"tid": "00000000-0000-0000-0000-000000000000"}),
            "InvalidAuthenticationTokenTenant",
        ),
        (json!({"tid": null}), "InvalidAuthenticationTokenTenant"),
        (json!({"exp": now() - 130}), "ExpiredAuthenticationToken"),
        (json!({"exp": null}), invalid),
        (json!({"exp": "never"}), invalid),
        (json!({"nbf": now() + 3_600}), invalid),
        (json!({"sub": null}), invalid),
        (json!({"sub": "x".repeat(300)}), invalid),
        (json!({"sub": "a\nb"}), invalid),
    ] {
        let token = setup.sign(&setup.claims_with(changes.clone()));
        let found = setup.request(&mut connection, &token);
        assert_eq!(found, (401, expected.to_owned()), "{changes}");
    }
    for changes in [json!({"exp": now() - 60}), json!({"nbf": now() + 60}), json!({})] {
        let token = setup.sign(&setup.claims_with(changes.clone()));
        assert_eq!(
            setup.request(&mut connection, &token).0,
            200,
            "within the allowed clock skew: {changes}"
        );
    }
}

#[test]
fn forged_tokens_are_refused() {
    let setup = Setup::new(&[]);
    let mut connection = setup.server.connect();
    let claims = setup.claims();
    let (name, key) = &setup.keys[0];
    let good = setup.sign(&claims);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let unsigned =
        |head: Value| format!("{}.{}", encode(head.to_string()), encode(claims.to_string()));
    let mut forged = vec![
        // Unsigned, in several forms.
        format!("{}.", unsigned(json!({"alg": "none", "kid": name}))),
        format!("{}.{signature}", unsigned(json!({"alg": "none", "kid": name}))),
        format!("{}.", unsigned(json!({"alg": key.algorithm(), "kid": name}))),
        format!("{signed}."),
        signed.to_owned(),
        // Another key with the id of a known one, also embedded in the token or behind a URL.
        SigningKey::p256().sign(&json!({"alg": "ES256", "kid": name}), &claims),
    ];
    let own = SigningKey::p256();
    let head = json!({"alg": "ES256", "kid": name, "jwk": own.public(name), "jku": "https://evil.test/keys", "x5u": "https://evil.test/x"});
    forged.push(own.sign(&head, &claims));
    // Claims of another token, and a modified signature.
    let other = encode(setup.claims_with(json!({"roles": ["Kalends.Owner"]})).to_string());
    let head = signed.split_once('.').unwrap().0;
    forged.push(format!("{head}.{other}.{signature}"));
    let turned = if signature.starts_with('A') { "B" } else { "A" };
    forged.push(format!("{signed}.{turned}{}", &signature[1..]));
    forged.push(format!("{signed}.{}", encode([0; 64])));
    // The public key as a shared secret.
    for (name, key) in &setup.keys {
        let public = key.public(name);
        let texts = [public.to_string(), public["n"].to_string(), public["x"].to_string()];
        for secret in texts {
            let text = unsigned(json!({"alg": "HS256", "kid": name}));
            let tag =
                hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), text.as_bytes());
            forged.push(format!("{text}.{}", encode(tag)));
        }
        // The algorithm of the other key.
        let swapped = if key.algorithm() == "RS256" { "ES256" } else { "RS256" };
        forged.push(key.sign(&json!({"alg": swapped, "kid": name}), &claims));
        forged.push(key.sign(&json!({"alg": key.algorithm(), "kid": name, "cty": "JWT"}), &claims));
        forged
            .push(key.sign(&json!({"alg": key.algorithm(), "kid": name, "crit": ["x"]}), &claims));
        forged.push(key.sign(&json!({"alg": key.algorithm()}), &claims));
        // A nested token.
        forged.push(key.sign(&json!({"alg": key.algorithm(), "kid": name}), &json!(good)));
    }
    let huge = setup.claims_with(json!({"padding": "x".repeat(8_000)}));
    forged.push(setup.sign(&huge));
    for token in &forged {
        let (status, found) = setup.request(&mut connection, token);
        assert_eq!((status, found.as_str()), (401, "InvalidAuthenticationToken"), "{token}");
    }
    assert_eq!(setup.request(&mut connection, &good).0, 200);
}

#[test]
fn a_flood_of_unknown_keys_fetches_keys_once() {
    let setup = Setup::new(&[]);
    let mut connection = setup.server.connect();
    assert_eq!(setup.request(&mut connection, &setup.sign(&setup.claims())).0, 200);
    let key = SigningKey::p256();
    for number in 0..500 {
        let head = json!({"alg": "ES256", "kid": format!("unknown-{number}")});
        let found = setup.request(&mut connection, &key.sign(&head, &setup.claims()));
        assert_eq!(found, (401, "InvalidAuthenticationToken".to_owned()));
    }
    let key_requests = setup.provider.key_requests.load(Ordering::SeqCst);
    assert!((1..=2).contains(&key_requests), "{key_requests}");
    assert_eq!(setup.request(&mut connection, &setup.sign(&setup.claims())).0, 200);
}

#[test]
fn grants_map_claims_to_roles_and_scopes() {
    let group = format!("groups=urn:ops:operator:{SUBSCRIPTION}/resourceGroups/g");
    let setup = Setup::new(&[("KALENDS_OIDC_GRANT", &format!("roles=Admin:owner:/,{group}"))]);
    let mut connection = setup.server.connect();
    let admin = setup.sign(&setup.claims_with(json!({"roles": "Admin"})));
    for name in ["g", "h"] {
        let target = new(&collection(name, "c"));
        assert_eq!(request_as(&mut connection, &admin, "PUT", &target, Some(STANDARD)).status, 201);
    }
    let operator = setup.sign(&setup.claims_with(json!({"groups": ["urn:ops"]})));
    let disable = |name: &str| new(&format!("{}/disable", collection(name, "c")));
    assert_eq!(request_as(&mut connection, &operator, "POST", &disable("g"), None).status, 200);
    assert_eq!(request_as(&mut connection, &operator, "POST", &disable("h"), None).status, 404);
    let delete =
        request_as(&mut connection, &operator, "DELETE", &new(&collection("g", "c")), None);
    assert_eq!(delete.status, 403);
}

#[test]
fn an_unreachable_provider_returns_503_and_static_tokens_still_work() {
    let token = "correct-horse-battery";
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = TestServer::start_with(|command, _| {
        command
            .env("KALENDS_OIDC_ISSUER", format!("http://{closed}"))
            .env("KALENDS_OIDC_AUDIENCE", "api://kalends")
            .env("KALENDS_TOKEN", token);
    });
    let mut connection = server.connect();
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    let jwt = SigningKey::p256().sign(&json!({"alg": "ES256", "kid": "k"}), &json!({}));
    let response = request_as(&mut connection, &jwt, "GET", &target, None);
    assert_eq!(code(&response), (503, "ServerBusy".into()));
    assert!(response.header("Retry-After").is_some());
    assert_eq!(request_as(&mut connection, token, "GET", &target, None).status, 200);
}
