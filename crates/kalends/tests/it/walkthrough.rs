//! Runs the commands of README.md and docs/tour.md against the real server and compares their output with
//! the pages. `KALENDS_UPDATE=1` writes the actual output into the pages.
//!
//! A block of type `console` contains commands after `$ ` (a backslash continues a line) and their
//! output. `…` stands for any text in a line, or for any lines if it is the whole line.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::echo::echo_of;
use crate::test_server::{TestServer, clock_library, override_clock, run_jobs};

/// Time of all commands. The clock stands still, so that their output is always the same.
const NOW: &str = "2026-11-15 10:00:00";
/// Addresses in the pages.
const SERVER: &str = "127.0.0.1:8080";
const ECHO: &str = "127.0.0.1:8081";

struct Walkthrough {
    server: TestServer,
    echo: SocketAddr,
    library: PathBuf,
    /// Current directory and home of the user.
    home: tempfile::TempDir,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Walkthrough {
    fn start() -> Option<Walkthrough> {
        let library = clock_library()?;
        let server = TestServer::start_with(|command, folder| {
            override_clock(command, folder, &library, NOW);
            run_jobs(command);
        });
        let echo = echo_of(&server).parse().unwrap();
        let home = tempfile::TempDir::new().unwrap();
        let examples = home.path().join("examples");
        let copied =
            Command::new("cp").arg("-r").arg(root().join("examples")).arg(examples).status();
        assert!(copied.unwrap().success());
        Some(Walkthrough { server, echo, library, home })
    }

    /// Runs a command of a page and returns its output with the addresses of the page.
    fn run(&self, command: &str) -> String {
        let own_addresses =
            [(SERVER, self.server.address.to_string()), (ECHO, self.echo.to_string())];
        let replace = |text: String, (page, own): &(&str, String)| text.replace(page, own);
        let command = own_addresses.iter().fold(command.to_owned(), replace);
        let binary = Path::new(env!("CARGO_BIN_EXE_kalends")).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
        // A command that waits for a time does not end, because the clock stands still.
        let mut shell = Command::new("timeout");
        shell
            .args(["60", "bash", "-c", &format!("exec 2>&1; {command}")])
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home.path())
            .env("KALENDS_SERVER", format!("http://{}", self.server.address))
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        override_clock(&mut shell, self.home.path(), &self.library, NOW);
        let output = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let restore = |text: String, (page, own): &(&str, String)| text.replace(own, page);
        let output = own_addresses.iter().fold(output, restore);
        output.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// Runs the commands of a page; returns the page with their actual output.
    fn follow(&self, page: &str) -> String {
        let mut actual = String::new();
        for (index, block) in page.split("```").enumerate() {
            let separator = if index == 0 { "" } else { "```" };
            match block.strip_prefix("console\n") {
                Some(commands) if index % 2 == 1 => {
                    write!(actual, "{separator}console\n{}", self.run_block(commands)).unwrap();
                }
                _ => write!(actual, "{separator}{block}").unwrap(),
            }
        }
        actual
    }

    fn run_block(&self, block: &str) -> String {
        let mut actual = String::new();
        let mut lines = block.lines().peekable();
        while let Some(line) = lines.next() {
            let mut command =
                line.strip_prefix("$ ").expect("a block starts with a command").to_owned();
            while command.ends_with('\\') {
                write!(command, "\n{}", lines.next().unwrap()).unwrap();
            }
            let mut expected = String::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                writeln!(expected, "{line}").unwrap();
            }
            // A blank line may separate commands.
            let blank = if expected.ends_with("\n\n") || expected == "\n" { "\n" } else { "" };
            let printed = format!("{}{blank}", self.run(&command));
            let output = if matches(&expected, &printed) { expected } else { printed };
            write!(actual, "$ {command}\n{output}").unwrap();
        }
        actual
    }
}

/// Whether an output matches the text of a page with its placeholders.
fn matches(expected: &str, actual: &str) -> bool {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    matches_lines(&lines(expected), &lines(actual))
}

fn matches_lines(expected: &[String], actual: &[String]) -> bool {
    match (expected.split_first(), actual.split_first()) {
        (None, None) => true,
        (Some((any, rest)), _) if any == "…" => {
            (0..=actual.len()).any(|skipped| matches_lines(rest, &actual[skipped..]))
        }
        (Some((pattern, rest)), Some((line, others))) => {
            matches_line(pattern, line) && matches_lines(rest, others)
        }
        _ => false,
    }
}

fn matches_line(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('…') else { return pattern == line };
    let Some(line) = line.strip_prefix(start) else { return false };
    let ends = line.char_indices().map(|(index, _)| index).chain([line.len()]);
    ends.into_iter().any(|index| matches_line(rest, &line[index..]))
}

fn check(page: &str) {
    let Some(walkthrough) = Walkthrough::start() else { return };
    let path = root().join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let actual = walkthrough.follow(&text);
    if std::env::var_os("KALENDS_UPDATE").is_some() {
        return std::fs::write(&path, actual).unwrap();
    }
    for (expected, actual) in text.lines().zip(actual.lines()) {
        assert_eq!(actual, expected, "{page}; KALENDS_UPDATE=1 writes the actual output");
    }
    assert_eq!(actual, text, "{page}");
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    check("README.md");
}

#[test]
fn the_commands_of_the_tour_print_what_it_shows() {
    check("docs/tour.md");
}

#[test]
fn placeholders_stand_for_text_in_a_line_or_for_lines() {
    for (expected, actual, is_match) in [
        ("a …\n", "a b\n", true),
        ("a … c\n", "a b\n", false),
        ("…\n", "a\nb\n", true),
        ("a\n…\nd\n", "a\nb\nc\nd\n", true),
        ("a\n…\nd\n", "a\nb\n", false),
        ("a\n", "a\nb\n", false),
    ] {
        assert_eq!(matches(expected, actual), is_match, "{expected:?} {actual:?}");
    }
}
