//! Tokens for tests, made as administrators make them.

use std::path::Path;
use std::process::{Command, Output};

use crate::connection::{Answer, Connection};
use crate::running::Running;

pub(crate) const SUBSCRIPTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40";
pub(crate) const STANDARD: &str =
    r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;
pub(crate) const JOB: &str = r#"{"properties":{"state":"Disabled","recurrence":{"frequency":"Day"},"action":{"type":"Http","request":{"uri":"http://example.org/","method":"GET"}}}}"#;

pub(crate) fn collection(group: &str, name: &str) -> String {
    format!(
        "{SUBSCRIPTION}/resourceGroups/{group}/providers/Microsoft.Scheduler/jobCollections/{name}"
    )
}

/// A path in the newest version.
pub(crate) fn new(path: &str) -> String {
    format!("{path}?api-version=2026-11-01")
}

/// `kalends token` with the store of a folder.
pub(crate) fn kalends_token(folder: &Path, arguments: &[&str]) -> Output {
    let store = format!("sqlite:{}", folder.join("kalends.db").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command.arg("token").args(arguments).args(["--store", &store]);
    command.env_remove("KALENDS_KEY").output().unwrap()
}

/// Makes a token; its text.
pub(crate) fn create(folder: &Path, role: &str, scope: &str, more: &[&str]) -> String {
    let arguments = [&["create", "--role", role, "--scope", scope], more].concat();
    let output = kalends_token(folder, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The public part of a token.
pub(crate) fn id(token: &str) -> &str {
    &token[4..20]
}

/// A server with these settings that asks for tokens, and the token of an owner of everything.
pub(crate) fn guarded(settings: &[(&str, &str)]) -> (Running, String) {
    let mut owner = String::new();
    let server = Running::start_with(|command, folder| {
        owner = create(folder, "owner", "/", &["--name", "admin"]);
        command.envs(settings.iter().copied());
    });
    (server, owner)
}

/// Asks with a token.
pub(crate) fn ask(
    connection: &mut Connection,
    token: &str,
    method: &str,
    target: &str,
    body: Option<&str>,
) -> Answer {
    connection.ask_with(method, target, &[("Authorization", &format!("Bearer {token}"))], body)
}

/// Status and code of a refusal.
pub(crate) fn code(answer: &Answer) -> (u16, String) {
    let body: serde_json::Value =
        serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("no JSON: {answer:?}"));
    (answer.status, body["error"]["code"].as_str().unwrap().to_owned())
}
