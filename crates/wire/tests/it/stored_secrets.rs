//! `${stored}` in place of secrets of a definition.

use kalends_domain::{HttpAuthentication, JobDefinition, Limits, SecretHeaders, Target};
use kalends_wire::{Json, Version, keep_stored_secrets, read_job};

const STORED: &str = "${stored}";

fn job(request: &str) -> JobDefinition {
    let text =
        format!(r#"{{"properties":{{"action":{{"type":"Http","request":{{{request}}}}}}}}}"#);
    let body = Json::parse(text.as_bytes()).unwrap();
    read_job(&body, Version::V2026_11_01, &Limits::default()).expect(&text)
}

/// The definition with the stored secrets, or the errors with their codes.
fn keep(stored: &str, edited: &str) -> Result<JobDefinition, String> {
    let (stored, mut edited) = (job(stored), job(edited));
    let kept = keep_stored_secrets(
        Some(&stored),
        &mut edited,
        &Limits::default(),
        &SecretHeaders::default(),
    );
    let text =
        |error: &kalends_wire::ErrorDetail| format!("{} {}", error.code.as_str(), error.path);
    match kept {
        Ok(()) => Ok(edited),
        Err(errors) => Err(errors.iter().map(text).collect::<Vec<_>>().join(", ")),
    }
}

fn uri(text: &str) -> String {
    format!(r#""method":"GET","uri":"{text}""#)
}

#[test]
fn each_secret_parameter_keeps_its_stored_value() {
    let check = |stored: &str, edited: &str, expected: &str| {
        let job = keep(&uri(stored), &uri(edited)).unwrap();
        assert_eq!(job, self::job(&uri(expected)), "{edited}");
    };
    let stored = "https://a.example/x?sig=1%2F&b=2&code=3&SIG=4#sig=5";
    check(stored, "https://a.example/x?code=${stored}", "https://a.example/x?code=3");
    check(stored, "https://a.example/y?Sig=${stored}#f", "https://a.example/y?Sig=1%2F#f");
    check(
        stored,
        "https://a.example/?sig=new&sig=${stored}&c=${stored}",
        "https://a.example/?sig=new&sig=4&c=${stored}",
    );
    check(stored, "https://a.example/#sig=${stored}", "https://a.example/#sig=${stored}");
    for edited in
        ["https://a.example/?sig=a&sig=b&sig=${stored}", "http://a.example/?sig=${stored}"]
    {
        let refused = keep(&uri(stored), &uri(edited)).unwrap_err();
        assert_eq!(refused, "MissingSecret properties.action.request.uri", "{edited}");
    }
}

#[test]
fn a_secret_is_not_kept_for_another_kind_of_authentication() {
    let with = |authentication: &str| {
        format!(r#"{},"authentication":{{{authentication}}}"#, uri("https://a.example/"))
    };
    let basic = with(r#""type":"Basic","username":"u","password":"canary""#);
    let certificate =
        with(&format!(r#""type":"ClientCertificate","pfx":"AAAA","password":"{STORED}""#));
    let path = "properties.action.request.authentication.password";
    assert_eq!(keep(&basic, &certificate), Err(format!("MissingSecret {path}")));
    let same = with(&format!(r#""type":"Basic","username":"v","password":"{STORED}""#));
    let Target::Http(request) = keep(&basic, &same).unwrap().action.action.target else {
        panic!("http")
    };
    let Some(HttpAuthentication::Basic { username, password }) =
        request.authentication.map(|boxed| *boxed)
    else {
        panic!("basic")
    };
    assert_eq!((username.as_deref(), password.unwrap().reveal()), (Some("v"), "canary"));
}

#[test]
fn kept_secrets_count_against_the_limits() {
    let headers = |key: &str, other: usize| {
        let other = "x".repeat(other);
        format!(
            r#"{},"headers":{{"X-Api-Key":"{key}","X-Other":"{other}"}}"#,
            uri("https://a.example/")
        )
    };
    let long = headers(&"k".repeat(3_000), 10);
    assert!(keep(&long, &headers(STORED, 1_000)).is_ok());
    let refused = keep(&long, &headers(STORED, 2_000)).unwrap_err();
    assert_eq!(refused, "HeadersTooLarge properties.action.request.headers");

    let address = |signature: &str, path: usize| {
        uri(&format!("https://a.example/{}?sig={signature}", "x".repeat(path)))
    };
    let long = address(&"s".repeat(1_500), 10);
    let refused = keep(&long, &address(STORED, 1_000)).unwrap_err();
    assert_eq!(refused, "InvalidUri properties.action.request.uri");

    let with_body = |password: &str, body: usize| {
        let basic = format!(r#"{{"type":"Basic","username":"u","password":"{password}"}}"#);
        let body = "b".repeat(body);
        format!(r#"{},"authentication":{basic},"body":"{body}""#, uri("https://a.example/"))
    };
    let long = with_body(&"p".repeat(10_000), 10);
    assert!(keep(&long, &with_body(STORED, 10)).is_ok());
    assert_eq!(keep(&long, &with_body(STORED, 8_000)), Err("JobTooLarge ".to_owned()));
}
