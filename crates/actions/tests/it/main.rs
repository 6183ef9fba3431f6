//! Integration tests with well-formed and hostile PFX files and targets.

// Lints treat code outside the test functions as test code too.
#![cfg(test)]

mod amqp_send_fence;
mod egress_policy;
mod harness;
mod hostile_pfx;
mod hostile_targets;
mod http2;
mod keep_alive;
mod pfx_builder;
mod pfx_files;
mod random_pfx;
mod redirects;
mod refused_pfx;
mod requests;
mod send_fence;
mod service_error;
mod signing;
mod timing;
mod tls;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kalends_actions::certificate::{ClientIdentity, read_pfx};
use kalends_domain::{Limits, Secret, ValidationError, ValidationErrorKind};

/// The bytes of a file in `tests/data`.
fn data(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read_text(base64: &str, password: &str) -> Result<ClientIdentity, ValidationError> {
    let limits = Limits::default();
    read_pfx(&Secret::new(base64.to_owned()), &Secret::new(password.to_owned()), &limits)
}

fn read(file: &[u8], password: &str) -> Result<ClientIdentity, ValidationError> {
    read_text(&STANDARD.encode(file), password)
}

/// The message of the error that refuses a file.
fn refusal_message(result: Result<ClientIdentity, ValidationError>) -> String {
    let fault = result.expect_err("expected a refusal");
    assert_eq!(fault.kind, ValidationErrorKind::InvalidClientCertificate);
    let reason = fault.message.strip_prefix("cannot be used: ");
    reason.unwrap_or_else(|| panic!("{fault}")).to_owned()
}
