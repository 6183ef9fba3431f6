//! Output formats, colours and help.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::User;
use crate::test_server::TestServer;

fn start() -> (TestServer, User) {
    let server = TestServer::start();
    let user = User::of(&server);
    let flags = ["job", "create", "web/a", "--cron", "30 2 1 1 *", "--get", "https://example.com/"];
    user.ok(&flags);
    (server, user)
}

#[test]
fn every_format_lists_the_same_jobs() {
    let (_server, user) = start();
    let list = |format: &str| user.ok(&["job", "list", "-o", format]);
    let table = list("table");
    let heading = table.lines().next().unwrap().to_owned();
    assert!(
        heading.starts_with("NAME   STATE    NEXT RUN") && heading.ends_with("SCHEDULE"),
        "{heading}"
    );
    assert!(table.lines().nth(1).unwrap().starts_with("web/a  Enabled  in "), "{table}");
    let wide = list("wide");
    assert!(wide.contains("-01-01 03:30:00+01:00  GET https://example.com/"), "{wide}");
    let utc = user.ok(&["job", "list", "-o", "wide", "--utc"]);
    assert!(utc.contains("-01-01 02:30:00Z"), "{utc}");
    assert_eq!(list("name"), "web/a\n");
    let json: serde_json::Value = serde_json::from_str(&list("json")).unwrap();
    assert_eq!(json[0]["properties"]["recurrence"]["cron"], "30 2 1 1 *");
    let yaml = list("yaml");
    assert!(yaml.contains("  name: web/a\n") && yaml.contains("cron: \"30 2 1 1 *\"\n"), "{yaml}");
    let refused = user.run(&["job", "list", "-o", "xml"]);
    assert!(
        refused.status == 2 && refused.stderr.contains("possible values: table"),
        "{refused:?}"
    );
}

/// Runs a command on a terminal of `script`.
fn on_terminal(user: &User, arguments: &str, variables: &[(&str, &str)]) -> String {
    let mut command = user.command(&[]);
    let program = command.get_program().to_owned().into_string().unwrap();
    let environment: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()))
        .collect();
    command = Command::new("script");
    command
        .args(["-qec", &format!("{program} {arguments}"), "/dev/null"])
        .env_clear()
        .envs(environment)
        .env("TERM", "xterm")
        .envs(variables.iter().copied())
        .stdin(std::process::Stdio::null());
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn colours_are_for_terminals_only_and_can_be_disabled() {
    let (_server, user) = start();
    let coloured = on_terminal(&user, "job list", &[]);
    assert!(coloured.contains("\u{1b}[32mEnabled\u{1b}[0m"), "{coloured:?}");
    for variables in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = on_terminal(&user, "job list", &[variables]);
        assert!(
            plain.contains("Enabled") && !plain.contains("\u{1b}[3"),
            "{variables:?}: {plain:?}"
        );
    }
    assert!(!user.ok(&["job", "list"]).contains('\u{1b}'), "a pipe");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let (_server, user) = start();
    let program = env!("CARGO_BIN_EXE_kalends");
    let mut shell = user.command(&[]);
    let environment: Vec<_> = shell
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()))
        .collect();
    shell = Command::new("bash");
    let script =
        format!("set -o pipefail; {program} job list -o json | true; echo ${{PIPESTATUS[0]}}");
    let output = shell.args(["-c", &script]).env_clear().envs(environment).output().unwrap();
    assert_eq!((String::from_utf8_lossy(&output.stdout).trim(), output.stderr.len()), ("0", 0));
}

/// `--help` of a command and of every command below it, without `serve`: docs/settings.md has its flags.
fn help(user: &User, path: &[&str], text: &mut String) {
    let arguments: Vec<_> = path.iter().copied().chain(["--help"]).collect();
    let help = user.ok(&arguments);
    writeln!(text, "$ kalends {}\n\n{}\n\n", arguments.join(" "), help.trim_end()).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = commands.take_while(|line| !line.is_empty()).filter_map(|line| {
        line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?.split_whitespace().next()
    });
    for name in names.filter(|name| *name != "serve") {
        let path: Vec<_> = path.iter().copied().chain([name]).collect();
        self::help(user, &path, text);
    }
}

/// The file is reviewed as text. `KALENDS_UPDATE=1 cargo nextest run -p kalends help_text` rewrites it.
#[test]
fn the_help_text_of_every_command_is_as_reviewed() {
    let user = User::new();
    let mut text = String::new();
    help(&user, &[], &mut text);
    let text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/help.txt");
    if std::env::var_os("KALENDS_UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let reviewed = std::fs::read_to_string(&file).unwrap_or_default();
    let different = text.lines().zip(reviewed.lines()).find(|(new, old)| new != old);
    assert_eq!(different, None, "KALENDS_UPDATE=1 rewrites {}", file.display());
    assert_eq!(text.lines().count(), reviewed.lines().count());
}
