//! HTTP/2 and TLS, tested with curl.

use std::path::Path;
use std::process::Command;

use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::test_server::TestServer;

/// Body and HTTP version of a response. Prints SKIPPED and returns `None` without curl.
pub(crate) fn curl(arguments: &[&str], url: &str) -> Option<String> {
    let mut command = Command::new("curl");
    command.args(["-sS", "-w", " over HTTP/%{http_version}", "--max-time", "60"]).args(arguments);
    match command.arg(url).env_remove("http_proxy").output() {
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            Some(String::from_utf8(output.stdout).unwrap() + &message)
        }
        Err(_) => {
            eprintln!("SKIPPED: the package curl is not installed");
            None
        }
    }
}

pub(crate) fn write_certificate(folder: &Path) {
    let generated = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let CertifiedKey { cert, signing_key } = generated;
    std::fs::write(folder.join("tls.pem"), cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), signing_key.serialize_pem()).unwrap();
}

#[test]
fn http_2_with_prior_knowledge_works_without_tls() {
    let server = TestServer::start();
    let url = format!("http://{}/livez", server.address);
    for (arguments, version) in [(&["--http2-prior-knowledge"][..], "2"), (&["--http1.1"], "1.1")] {
        let Some(response) = curl(arguments, &url) else { return };
        assert_eq!(response, format!("ok over HTTP/{version}"));
    }
}

#[test]
fn the_server_reloads_its_certificate_on_sighup() {
    let server = TestServer::start_with(|command, folder| {
        write_certificate(folder);
        command.arg("--tls-cert").arg(folder.join("tls.pem"));
        command.arg("--tls-key").arg(folder.join("tls.key"));
    });
    let url = format!("https://localhost:{}/livez", server.address.port());
    let authority = server.folder().join("tls.pem");
    let trusted = ["--cacert", authority.to_str().unwrap()];
    let Some(response) = curl(&trusted, &url) else { return };
    assert_eq!(response, "ok over HTTP/2");
    let old = curl(&["--tls-max", "1.1", "--cacert", trusted[1]], &url).unwrap();
    assert!(!old.starts_with("ok"), "{old}");
    write_certificate(server.folder());
    let signalled = Command::new("kill").args(["-HUP", &server.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    // The server handles the signal asynchronously.
    let deadline = std::time::Duration::from_secs(60).as_millis() / 20;
    let renewed = (0..deadline).any(|_| curl(&trusted, &url).unwrap() == "ok over HTTP/2");
    assert!(renewed);
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_kalends"))
        .args(["serve", "--listen", "127.0.0.1:0", "--tls-cert", "nowhere.pem"])
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, "error: --tls-cert and --tls-key must be set together\n");
}
