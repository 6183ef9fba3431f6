//! The binary over HTTP/2 and over TLS, asked by a client that is not of our making.

use std::path::Path;
use std::process::Command;

use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::running::Running;

/// The version of HTTP and the body of an answer. `None` where there is no curl.
fn curl(arguments: &[&str], url: &str) -> Option<String> {
    let mut command = Command::new("curl");
    command.args(["-sS", "-w", " over HTTP/%{http_version}", "--max-time", "60"]).args(arguments);
    match command.arg(url).env_remove("http_proxy").output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Some(String::from_utf8(output.stdout).unwrap() + &said)
        }
        Err(_) => {
            eprintln!("SKIPPED: the package curl is not installed");
            None
        }
    }
}

fn write_certificate(folder: &Path) {
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let CertifiedKey { cert, signing_key } = made;
    std::fs::write(folder.join("tls.pem"), cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), signing_key.serialize_pem()).unwrap();
}

#[test]
fn http_2_is_spoken_without_tls_to_who_knows_it() {
    let server = Running::start();
    let url = format!("http://{}/livez", server.address);
    for (arguments, version) in [(&["--http2-prior-knowledge"][..], "2"), (&["--http1.1"], "1.1")] {
        let Some(answer) = curl(arguments, &url) else { return };
        assert_eq!(answer, format!("ok over HTTP/{version}"));
    }
}

#[test]
fn https_is_spoken_and_a_new_certificate_is_taken_on_a_signal() {
    let server = Running::start_with(|command, folder| {
        write_certificate(folder);
        command.arg("--tls-cert").arg(folder.join("tls.pem"));
        command.arg("--tls-key").arg(folder.join("tls.key"));
    });
    let url = format!("https://localhost:{}/livez", server.address.port());
    let authority = server.folder().join("tls.pem");
    let trusted = ["--cacert", authority.to_str().unwrap()];
    let Some(answer) = curl(&trusted, &url) else { return };
    assert_eq!(answer, "ok over HTTP/2");
    let old = curl(&["--tls-max", "1.1", "--cacert", trusted[1]], &url).unwrap();
    assert!(!old.starts_with("ok"), "{old}");
    write_certificate(server.folder());
    let told = Command::new("kill").args(["-HUP", &server.id().to_string()]).status().unwrap();
    assert!(told.success());
    // The signal is taken by the server when it comes to it.
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
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "error: --tls-cert and --tls-key must be set together\n");
}
