//! Tokens of an identity provider, good ones and forged ones.

use std::sync::atomic::Ordering;

use kalends_environment::{Clock as _, SystemClock};
use ring::hmac;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::provider::{Provider, SigningKey, encode};
use crate::running::Running;
use crate::tokens::{STANDARD, SUBSCRIPTION, ask, code, collection, new};

/// The time of the machine, by which the server runs.
fn now() -> i64 {
    SystemClock.now().as_second()
}

/// A server that trusts a provider with an RSA and an EC key.
struct World {
    provider: Provider,
    keys: Vec<(String, SigningKey)>,
    server: Running,
}

const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";

impl World {
    fn make(settings: &[(&str, &str)]) -> World {
        let keys = [Some(SigningKey::p256()), SigningKey::rsa()];
        let keys: Vec<_> =
            keys.into_iter().flatten().map(|key| (key.algorithm().to_lowercase(), key)).collect();
        let public: Vec<_> = keys.iter().map(|(name, key)| key.public(name)).collect();
        let provider = Provider::start(&public);
        let server = Running::start_with(|command, _| {
            command
                .env("KALENDS_OIDC_ISSUER", &provider.issuer)
                .env("KALENDS_OIDC_AUDIENCE", "api://kalends,second")
                .env("KALENDS_OIDC_TENANT", TENANT)
                .env("KALENDS_FAILURES_PER_MINUTE", "100000")
                .envs(settings.iter().copied());
        });
        World { provider, keys, server }
    }

    fn claims(&self) -> Value {
        json!({
            "iss": self.provider.issuer, "aud": "api://kalends", "tid": TENANT, "sub": "subject-1",
            "preferred_username": "ann@example.org", "roles": ["Kalends.Contributor"],
            "nbf": now() - 10, "exp": now() + 600,
        })
    }

    /// Claims with some of them replaced; null takes one away.
    fn claims_but(&self, changes: Value) -> Value {
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

    fn sign(&self, claims: &Value) -> String {
        let (name, key) = &self.keys[0];
        key.sign(&json!({"alg": key.algorithm(), "kid": name, "typ": "JWT"}), claims)
    }

    fn ask(&self, connection: &mut Connection, token: &str) -> (u16, String) {
        let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
        let answer = ask(connection, token, "GET", &target, None);
        match answer.status {
            200 => (200, String::new()),
            _ => code(&answer),
        }
    }
}

#[test]
fn signed_tokens_of_both_algorithms_are_good_and_say_what_may_be_done() {
    let world = World::make(&[]);
    let mut connection = world.server.connect();
    let target = new(&collection("g", "c"));
    for (name, key) in &world.keys {
        let head = json!({"alg": key.algorithm(), "kid": name});
        let token = key.sign(&head, &world.claims());
        let put = ask(&mut connection, &token, "PUT", &target, Some(STANDARD));
        assert_eq!(put.status, 201, "{name} {put:?}");
        let group = new(&format!("{SUBSCRIPTION}/resourceGroups/g"));
        let delete = ask(&mut connection, &token, "DELETE", &group, None);
        assert_eq!(code(&delete), (403, "AuthorizationFailed".into()));
    }
    let nothing = world.sign(&world.claims_but(json!({"roles": ["Other.Owner"]})));
    assert_eq!(ask(&mut connection, &nothing, "GET", &target, None).status, 404);
    let list = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    assert!(ask(&mut connection, &nothing, "GET", &list, None).body.starts_with(r#"{"value":[]"#));
    let many = world.claims_but(json!({"aud": ["x", "second"], "nbf": null}));
    assert_eq!(ask(&mut connection, &world.sign(&many), "GET", &target, None).status, 200);
    let audit = std::fs::read_to_string(world.server.folder().join("audit.log")).unwrap();
    assert!(audit.contains(r#""who":"oidc:subject-1","name":"ann@example.org""#), "{audit}");
}

#[test]
fn claims_that_do_not_fit_are_refused() {
    let world = World::make(&[]);
    let mut connection = world.server.connect();
    let invalid = "InvalidAuthenticationToken";
    for (changes, expected) in [
        (json!({"iss": "https://evil.test"}), invalid),
        (json!({"iss": format!("{}/", world.provider.issuer)}), invalid),
        (json!({"iss": null}), invalid),
        (json!({"iss": [world.provider.issuer]}), invalid),
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
        let token = world.sign(&world.claims_but(changes.clone()));
        let found = world.ask(&mut connection, &token);
        assert_eq!(found, (401, expected.to_owned()), "{changes}");
    }
    for changes in [json!({"exp": now() - 60}), json!({"nbf": now() + 60}), json!({})] {
        let token = world.sign(&world.claims_but(changes.clone()));
        assert_eq!(world.ask(&mut connection, &token).0, 200, "clocks differ a little: {changes}");
    }
}

#[test]
fn forged_tokens_are_refused() {
    let world = World::make(&[]);
    let mut connection = world.server.connect();
    let claims = world.claims();
    let (name, key) = &world.keys[0];
    let good = world.sign(&claims);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let unsigned =
        |head: Value| format!("{}.{}", encode(head.to_string()), encode(claims.to_string()));
    let mut forged = vec![
        // Nobody's signature, in all the ways of writing so.
        format!("{}.", unsigned(json!({"alg": "none", "kid": name}))),
        format!("{}.{signature}", unsigned(json!({"alg": "none", "kid": name}))),
        format!("{}.", unsigned(json!({"alg": key.algorithm(), "kid": name}))),
        format!("{signed}."),
        signed.to_owned(),
        // Another key under the name of a known one, and where the token itself says it is.
        SigningKey::p256().sign(&json!({"alg": "ES256", "kid": name}), &claims),
    ];
    let own = SigningKey::p256();
    let head = json!({"alg": "ES256", "kid": name, "jwk": own.public(name), "jku": "https://evil.test/keys", "x5u": "https://evil.test/x"});
    forged.push(own.sign(&head, &claims));
    // Claims of another, and a signature that was turned.
    let other = encode(world.claims_but(json!({"roles": ["Kalends.Owner"]})).to_string());
    let head = signed.split_once('.').unwrap().0;
    forged.push(format!("{head}.{other}.{signature}"));
    let turned = if signature.starts_with('A') { "B" } else { "A" };
    forged.push(format!("{signed}.{turned}{}", &signature[1..]));
    forged.push(format!("{signed}.{}", encode([0; 64])));
    // The public key as a shared secret.
    for (name, key) in &world.keys {
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
        // A token in a token.
        forged.push(key.sign(&json!({"alg": key.algorithm(), "kid": name}), &json!(good)));
    }
    let huge = world.claims_but(json!({"padding": "x".repeat(8_000)}));
    forged.push(world.sign(&huge));
    for token in &forged {
        let (status, found) = world.ask(&mut connection, token);
        assert_eq!((status, found.as_str()), (401, "InvalidAuthenticationToken"), "{token}");
    }
    assert_eq!(world.ask(&mut connection, &good).0, 200);
}

#[test]
fn a_flood_of_unknown_keys_fetches_keys_once() {
    let world = World::make(&[]);
    let mut connection = world.server.connect();
    assert_eq!(world.ask(&mut connection, &world.sign(&world.claims())).0, 200);
    let key = SigningKey::p256();
    for number in 0..500 {
        let head = json!({"alg": "ES256", "kid": format!("unknown-{number}")});
        let found = world.ask(&mut connection, &key.sign(&head, &world.claims()));
        assert_eq!(found, (401, "InvalidAuthenticationToken".to_owned()));
    }
    let asked = world.provider.asked.load(Ordering::SeqCst);
    assert!((1..=2).contains(&asked), "{asked}");
    assert_eq!(world.ask(&mut connection, &world.sign(&world.claims())).0, 200);
}

#[test]
fn grants_say_which_claims_open_what() {
    let group = format!("groups=urn:ops:operator:{SUBSCRIPTION}/resourceGroups/g");
    let world = World::make(&[("KALENDS_OIDC_GRANT", &format!("roles=Admin:owner:/,{group}"))]);
    let mut connection = world.server.connect();
    let admin = world.sign(&world.claims_but(json!({"roles": "Admin"})));
    for name in ["g", "h"] {
        let target = new(&collection(name, "c"));
        assert_eq!(ask(&mut connection, &admin, "PUT", &target, Some(STANDARD)).status, 201);
    }
    let operator = world.sign(&world.claims_but(json!({"groups": ["urn:ops"]})));
    let disable = |name: &str| new(&format!("{}/disable", collection(name, "c")));
    assert_eq!(ask(&mut connection, &operator, "POST", &disable("g"), None).status, 200);
    assert_eq!(ask(&mut connection, &operator, "POST", &disable("h"), None).status, 404);
    let delete = ask(&mut connection, &operator, "DELETE", &new(&collection("g", "c")), None);
    assert_eq!(delete.status, 403);
}

#[test]
fn a_provider_that_cannot_be_reached_is_said_so_and_static_tokens_go_on() {
    let token = "correct-horse-battery";
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Running::start_with(|command, _| {
        command
            .env("KALENDS_OIDC_ISSUER", format!("http://{closed}"))
            .env("KALENDS_OIDC_AUDIENCE", "api://kalends")
            .env("KALENDS_TOKEN", token);
    });
    let mut connection = server.connect();
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    let jwt = SigningKey::p256().sign(&json!({"alg": "ES256", "kid": "k"}), &json!({}));
    let answer = ask(&mut connection, &jwt, "GET", &target, None);
    assert_eq!(code(&answer), (503, "ServerBusy".into()));
    assert!(answer.header("Retry-After").is_some());
    assert_eq!(ask(&mut connection, token, "GET", &target, None).status, 200);
}
