//! PFX files and targets: as programs write and answer, and as nobody should.

// Tells the lints that what is outside the test functions is for tests too.
#![cfg(test)]

mod builder;
mod corpus;
mod guard;
mod hostile;
mod hostile_targets;
mod http2;
mod keeping;
mod random;
mod redirects;
mod refusal;
mod refused;
mod requests;
mod signing;
mod timing;
mod trust;
mod world;

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

/// The message of a refusal.
fn refusal(result: Result<ClientIdentity, ValidationError>) -> String {
    let fault = result.expect_err("expected a refusal");
    assert_eq!(fault.kind, ValidationErrorKind::InvalidClientCertificate);
    fault.message
}
