//! Settings from flags, environment variables and the settings file.

use std::path::Path;
use std::process::{Command, Output};

use crate::test_server::TestServer;

fn print_config(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command.arg("serve").args(arguments).arg("--print-config").env("KALENDS_CONFIG", file);
    command.env("KALENDS_STORE", "postgres://u:s3cret@h/d").env_remove("KALENDS_HOLD");
    command.output().unwrap()
}

#[test]
fn flags_take_precedence_over_variables_and_variables_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kalends.toml");
    std::fs::write(&file, "listen = '127.0.0.1:1'\nstore = 'x'\nstart-delay = 'PT5S'\n").unwrap();
    let output = print_config(&file, &["--listen", "127.0.0.1:2"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = shown.lines().collect();
    for expected in [
        r#"listen = "127.0.0.1:2" # --listen"#,
        r#"store = "postgres://u:***@h/d" # KALENDS_STORE"#,
        &format!(r#"start-delay = "PT5S" # {}:3"#, file.display()),
        "hold = false # default",
        "# key-file is not set",
    ] {
        assert!(lines.contains(&expected), "{expected}: {shown}");
    }
}

#[test]
fn all_errors_of_a_settings_file_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kalends.toml");
    std::fs::write(&file, "start-dely = 'PT5S'\n[start]\ndelay = 'soon'\n").unwrap();
    let output = print_config(&file, &[]);
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    let path = file.display();
    assert!(
        message
            .contains(&format!("{path}:1: start-dely: unknown setting; did you mean start-delay?")),
        "{message}"
    );
    assert!(
        message.contains(&format!("{path}:3: start-delay: must be a duration such as PT20S")),
        "{message}"
    );
}

#[test]
fn the_server_applies_its_settings_file() {
    let server = TestServer::start_with(|command, folder| {
        let file = folder.join("kalends.toml");
        std::fs::write(&file, "hold = true\n").unwrap();
        command.env_remove("KALENDS_HOLD").arg("--config").arg(file);
    });
    assert!(server.connect().request("GET", "/readyz", None).body.starts_with("ready"));
}

#[test]
fn deprecated_flags_and_variables_still_work_and_give_a_warning() {
    let print = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
        command.args(["serve", "--print-config"]).args(arguments);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let line = shown.lines().find(|line| line.starts_with("signing-key-version ="));
        (line.unwrap().to_owned(), String::from_utf8(output.stderr).unwrap())
    };
    let old = [("KALENDS_SIGNING_EPOCH", "2")];
    let (line, warning) = print(&[], &old);
    assert_eq!(line, "signing-key-version = 2 # KALENDS_SIGNING_EPOCH (deprecated)");
    let expected = "KALENDS_SIGNING_EPOCH is deprecated; use KALENDS_SIGNING_KEY_VERSION";
    assert_eq!(warning, format!("warning: {expected}\n"));
    let (line, warning) = print(&["--signing-epoch=3"], &[]);
    assert_eq!(line, "signing-key-version = 3 # --signing-key-version");
    let expected = "--signing-epoch is deprecated; use --signing-key-version";
    assert_eq!(warning, format!("warning: {expected}\n"));
    // Current names take precedence over deprecated ones, and variables over the file.
    let both = [("KALENDS_SIGNING_KEY_VERSION", "4"), old[0]];
    let current = "signing-key-version = 4 # KALENDS_SIGNING_KEY_VERSION";
    assert_eq!(print(&[], &both), (current.to_owned(), String::new()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kalends.toml");
    std::fs::write(&file, "[signing]\nepoch = 5\n").unwrap();
    let file = file.to_str().unwrap();
    let (line, warning) = print(&["--config", file], &[]);
    assert_eq!(line, format!("signing-key-version = 5 # {file}:2"));
    assert!(warning.contains("signing-epoch is deprecated; use signing-key-version"), "{warning}");
    let (line, _) = print(&["--config", file], &old);
    assert_eq!(line, "signing-key-version = 2 # KALENDS_SIGNING_EPOCH (deprecated)");
}

#[test]
fn a_server_listens_on_a_port_or_on_localhost() {
    for listen in ["0", "localhost:0", "127.0.0.1:0"] {
        let server = TestServer::listen_on(listen, |_, _| {});
        assert!(server.address.ip().is_loopback() && server.address.is_ipv4(), "{listen}");
        assert_eq!(server.connect().request("GET", "/livez", None).status, 200, "{listen}");
    }
    for listen in ["example", ":8080", "localhost", "70000"] {
        let output = Command::new(env!("CARGO_BIN_EXE_kalends"))
            .args(["serve", "--listen", listen])
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{listen}");
        assert!(message.contains("must be a port, or an IP address and a port"), "{message}");
    }
}
