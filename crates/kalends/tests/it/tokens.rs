//! Tokens for tests, created with `kalends token`.

use std::path::Path;
use std::process::{Command, Output};

use crate::connection::{Connection, Response};
use crate::test_server::TestServer;

pub(crate) const SUBSCRIPTION: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40";
pub(crate) const STANDARD: &str =
    r#"{"location":"West US","properties":{"sku":{"name":"Standard"}}}"#;
pub(crate) const JOB: &str = r#"{"properties":{"state":"Disabled","recurrence":{"frequency":"Day"},"action":{"type":"Http","request":{"uri":"http://example.org/","method":"GET"}}}}"#;

pub(crate) fn collection(group: &str, name: &str) -> String {
    format!(
        "{SUBSCRIPTION}/resourceGroups/{group}/providers/Microsoft.Scheduler/jobCollections/{name}"
    )
}

/// A path with the newest API version.
pub(crate) fn new(path: &str) -> String {
    format!("{path}?api-version=2026-11-01")
}

/// Runs `kalends token` with the store in a directory.
pub(crate) fn kalends_token(folder: &Path, arguments: &[&str]) -> Output {
    let store = format!("sqlite:{}", folder.join("kalends.db").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command.arg("token").args(arguments).args(["--store", &store]);
    command.env_remove("KALENDS_KEY").output().unwrap()
}

/// Creates a token and returns its text.
pub(crate) fn create(folder: &Path, role: &str, scope: &str, more: &[&str]) -> String {
    let arguments = [&["create", "--role", role, "--scope", scope], more].concat();
    let output = kalends_token(folder, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The id of a token.
pub(crate) fn id(token: &str) -> &str {
    &token[4..20]
}

/// A server with these settings that requires tokens, and a token with role owner and scope `/`.
pub(crate) fn guarded(settings: &[(&str, &str)]) -> (TestServer, String) {
    guarded_with(|command| {
        command.envs(settings.iter().copied());
    })
}

/// The same with a function that sets up the command.
pub(crate) fn guarded_with(prepare: impl FnOnce(&mut Command)) -> (TestServer, String) {
    let mut owner = String::new();
    let server = TestServer::start_with(|command, folder| {
        owner = create(folder, "owner", "/", &["--name", "admin"]);
        prepare(command);
    });
    (server, owner)
}

/// Sends a request with a token.
pub(crate) fn request_as(
    connection: &mut Connection,
    token: &str,
    method: &str,
    target: &str,
    body: Option<&str>,
) -> Response {
    connection.request_with(method, target, &[("Authorization", &format!("Bearer {token}"))], body)
}

/// Status and code of an error response.
pub(crate) fn code(response: &Response) -> (u16, String) {
    let body: serde_json::Value =
        serde_json::from_str(&response.body).unwrap_or_else(|_| panic!("no JSON: {response:?}"));
    (response.status, body["error"]["code"].as_str().unwrap().to_owned())
}
