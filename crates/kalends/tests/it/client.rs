//! The command line client against a real server.

mod apply_at_once;
mod contexts;
mod definitions;
mod editing;
mod first_steps;
mod imports;
mod jobs;
mod notes;
mod output;
mod runs;
mod settings;
mod shells;
mod skips;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::test_server::TestServer;

/// A user with an empty home directory.
pub(crate) struct User {
    home: TempDir,
    variables: Vec<(String, String)>,
}

/// Output and exit status of a command.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl User {
    /// A user of the default server.
    pub(crate) fn new() -> User {
        User { home: TempDir::new().unwrap(), variables: Vec::new() }
    }

    /// A user of a server.
    pub(crate) fn of(server: &TestServer) -> User {
        User::new().with("KALENDS_SERVER", &format!("http://{}", server.address))
    }

    /// The same user with an environment variable.
    pub(crate) fn with(mut self, name: &str, value: &str) -> User {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.home().join(".config/kalends/config.toml")
    }

    /// A command of this user, whose output is not a terminal.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .env("TZ", "Europe/Berlin")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.home())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Printed {
        printed(self.command(arguments).output().unwrap())
    }

    /// Runs a command with a text on standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Printed {
        use std::io::Write as _;
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The process may exit before it reads.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        printed(child.wait_with_output().unwrap())
    }

    /// Runs a command that succeeds and returns its output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let printed = self.run(arguments);
        assert_eq!(printed.status, 0, "{arguments:?}: {printed:?}");
        printed.stdout
    }

    /// Runs a command that succeeds and returns its JSON output.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<_> = arguments.iter().copied().chain(["-o", "json"]).collect();
        serde_json::from_str(&self.ok(&arguments)).unwrap()
    }

    /// Runs a command that fails with a status and a message.
    pub(crate) fn fails(&self, arguments: &[&str], status: i32, phrase: &str) -> String {
        let printed = self.run(arguments);
        let message = &printed.stderr;
        assert_eq!(printed.status, status, "{arguments:?}: {printed:?}");
        assert!(
            message.starts_with("error: ") && message.contains(phrase),
            "{arguments:?}: {message}"
        );
        printed.stderr
    }
}

fn printed(output: std::process::Output) -> Printed {
    Printed {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
