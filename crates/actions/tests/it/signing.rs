//! Runs the verifiers of `docs/signing.md` on signed requests.

use std::io::Write;
use std::process::{Command, Stdio};

use kalends_actions::{ExecutorSettings, Signer, SigningKeyVersions};
use kalends_domain::Signing;

use crate::harness::{
    OK, Sink, attempt, collection, execute, has_succeeded, header, open, post, with_settings,
};

/// The first code block of a language in the page.
fn example(language: &str) -> &'static str {
    let page = include_str!("../../../../docs/signing.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Whether a verifier accepts a request; `None` if its interpreter is not installed.
fn verify(program: &str, language: &str, arguments: [&str; 4], body: &str) -> Option<bool> {
    let mut command = Command::new(program);
    command.args(["-c", example(language)]);
    if program == "sh" {
        command.arg("verify");
    }
    command.args(arguments).stdin(Stdio::piped());
    let mut child = command.spawn().ok()?;
    // A verifier that refused already does not read its input.
    let _ = child.stdin.take().unwrap().write_all(body.as_bytes());
    Some(child.wait().unwrap().success())
}

#[tokio::test]
async fn the_documented_verifiers_accept_only_valid_signatures() {
    let mut sink = Sink::responding(|_| OK.into()).await;
    let signer = Signer::new(&[7; 32], SigningKeyVersions::all(1));
    let [new, old] = signer.keys(&collection("jc")).map(|key| key.reveal().to_string());
    let settings =
        ExecutorSettings { egress: open(), signer: Some(signer), ..ExecutorSettings::default() };
    let mut signed = attempt(post(&sink.uri("/"), "häll\"o\n"));
    signed.signing = Signing::On;
    assert!(has_succeeded(&execute(&with_settings(settings), signed).await));
    let (_, request) = sink.next().await;
    let value = |name: &str| header(&request, name).unwrap();
    let (id, at, signature) =
        (value("webhook-id"), value("webhook-timestamp"), value("webhook-signature"));
    let has_openssl = Command::new("openssl").arg("version").output().is_ok();
    for (program, language) in [("python3", "python"), ("sh", "sh")] {
        if language == "sh" && !has_openssl {
            eprintln!("SKIPPED: openssl is not installed");
            continue;
        }
        let body = "häll\"o\n";
        let verify = |key: &str, at: &str, body: &str| {
            verify(program, language, [key, id, at, signature], body)
                .unwrap_or_else(|| panic!("{program} is not installed"))
        };
        assert!(verify(&new, at, body) && verify(&old, at, body), "{program}");
        assert!(!verify(&new, at, "other"), "{program}: another body");
        assert!(!verify(&new, "1700000000", body), "{program}: another time");
        let foreign = Signer::new(&[8; 32], SigningKeyVersions::all(1))
            .keys(&collection("jc"))
            .map(|key| key.reveal());
        assert!(!verify(&foreign[0], at, body), "{program}: another key");
    }
}
