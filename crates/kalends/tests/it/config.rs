//! A file of settings, given to the binary.

use std::path::Path;
use std::process::{Command, Output};

use crate::running::Running;

fn print_config(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command.arg("serve").args(arguments).arg("--print-config").env("KALENDS_CONFIG", file);
    command.env("KALENDS_STORE", "postgres://u:s3cret@h/d").env_remove("KALENDS_HOLD");
    command.output().unwrap()
}

#[test]
fn flags_go_before_variables_variables_before_the_file_and_the_file_before_defaults() {
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
fn a_file_with_mistakes_is_refused_with_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kalends.toml");
    std::fs::write(&file, "start-dely = 'PT5S'\n[start]\ndelay = 'soon'\n").unwrap();
    let output = print_config(&file, &[]);
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    let place = file.display();
    assert!(
        said.contains(&format!(
            "{place}:1: start-dely: there is no such setting; did you mean start-delay?"
        )),
        "{said}"
    );
    assert!(
        said.contains(&format!("{place}:3: start-delay: expected a duration such as PT20S")),
        "{said}"
    );
}

#[test]
fn a_server_does_what_its_file_says() {
    let server = Running::start_with(|command, folder| {
        let file = folder.join("kalends.toml");
        std::fs::write(&file, "hold = true\n").unwrap();
        command.env_remove("KALENDS_HOLD").arg("--config").arg(file);
    });
    assert_eq!(server.connect().ask("GET", "/readyz", None).body, "ready");
}
