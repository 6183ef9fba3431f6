//! The verifiers that `docs/signing.md` shows, run on what is sent.

use std::io::Write;
use std::process::{Command, Stdio};

use kalends_actions::{ExecutorSettings, Signer, SigningKeyVersions};
use kalends_domain::Signing;

use crate::world::{
    OK, Sink, collection, execute, has_succeeded, header, open, order, post, with_settings,
};

/// The first block of a language in the page.
fn example(language: &str) -> &'static str {
    let page = include_str!("../../../../docs/signing.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Whether a verifier takes a request. None where there is nobody to run it.
fn verify(program: &str, language: &str, arguments: [&str; 4], body: &str) -> Option<bool> {
    let mut command = Command::new(program);
    command.args(["-c", example(language)]);
    if program == "sh" {
        command.arg("verify");
    }
    command.args(arguments).stdin(Stdio::piped());
    let mut child = command.spawn().ok()?;
    // Who has refused already does not read.
    let _ = child.stdin.take().unwrap().write_all(body.as_bytes());
    Some(child.wait().unwrap().success())
}

#[tokio::test]
async fn the_verifiers_of_the_page_take_what_is_ours_and_nothing_else() {
    let mut sink = Sink::answering(|_| OK.into()).await;
    let signer = Signer::new(&[7; 32], SigningKeyVersions::all(1));
    let [new, old] = signer.keys(&collection("jc")).map(|key| key.reveal().to_string());
    let settings =
        ExecutorSettings { egress: open(), signer: Some(signer), ..ExecutorSettings::default() };
    let mut signed = order(post(&sink.uri("/"), "häll\"o\n"));
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
