//! The schedulers, their settings and how they are started.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};

use super::database::Appendfsync;
use super::machine::first_line;

/// A scheduler with a store.
pub struct Contender {
    /// Name in reports.
    pub name: &'static str,
    /// The program.
    pub program: Program,
    /// Its store.
    pub store: Store,
    /// Settings that matter for throughput and lateness.
    pub settings: &'static str,
    /// Number of jobs that it stores each second at least; the jobs must not be due before all are
    /// stored.
    pub stores_per_second: usize,
    /// Most jobs of a burst, for contenders that would take minutes.
    pub burst_max: usize,
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A client without a scheduler.
    Floor,
    /// This repository's server.
    Kalends,
    /// A binary of `bench/peers/rust`.
    Rust(&'static str),
    /// A script of `bench/peers/node`.
    Node(&'static str),
    /// A script of `bench/peers/python`.
    Python(&'static str),
}

/// Where jobs are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Nowhere.
    None,
    /// A file.
    Sqlite,
    /// A database of the server that all share.
    Postgres,
    /// A server of its own.
    Redis(Appendfsync),
}

/// All contenders, in the order of a round.
pub fn all() -> Vec<Contender> {
    let contender = |name, program, store, settings| Contender {
        name,
        program,
        store,
        settings,
        stores_per_second: 2_500,
        burst_max: usize::MAX,
    };
    vec![
        contender("no scheduler", Program::Floor, Store::None, "64 connections; a sleeping thread"),
        contender("Kalends, SQLite", Program::Kalends, Store::Sqlite, "--limits-plans off"),
        Contender {
            stores_per_second: 1_500,
            ..contender(
                "Kalends, PostgreSQL",
                Program::Kalends,
                Store::Postgres,
                "--limits-plans off",
            )
        },
        contender(
            "graphile_worker (Rust)",
            Program::Rust("graphile_worker"),
            Store::Postgres,
            "concurrency 128, 4 local queues of 500, no delay of completions, polls every 100 ms",
        ),
        contender(
            "apalis",
            Program::Rust("apalis"),
            Store::Postgres,
            "concurrency 128, batches of 2,000, polls every 100 ms; times are whole seconds",
        ),
        contender(
            "graphile-worker (Node)",
            Program::Node("graphile-worker"),
            Store::Postgres,
            "24 concurrent jobs, local queue of 500, no delay of completions, polls every 100 ms",
        ),
        contender(
            "pg-boss",
            Program::Node("pg-boss"),
            Store::Postgres,
            "2 workers, batches of 500 without pause, otherwise polls every 500 ms",
        ),
        contender(
            "BullMQ, fsync always",
            Program::Node("bullmq"),
            Store::Redis(Appendfsync::Always),
            "concurrency 64",
        ),
        contender(
            "BullMQ, fsync every second",
            Program::Node("bullmq"),
            Store::Redis(Appendfsync::EverySecond),
            "concurrency 64",
        ),
        Contender {
            stores_per_second: 1_500,
            burst_max: 5_000,
            ..contender(
                "APScheduler",
                Program::Python("apscheduler_peer"),
                Store::Postgres,
                "20 threads",
            )
        },
    ]
}

/// Where the programs are.
pub struct Programs {
    /// The release binary of Kalends.
    pub kalends: PathBuf,
    /// The folder in which `bench/peers/install` installs the other schedulers.
    pub peers: PathBuf,
}

impl Programs {
    /// The places that `KALENDS` and `PEERS` name, or those below `target`.
    pub fn from_environment() -> Programs {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let place = |name: &str, default: &str| {
            std::env::var_os(name).map_or_else(|| root.join(default), PathBuf::from)
        };
        Programs {
            kalends: place("KALENDS", "target/release/kalends"),
            peers: place("PEERS", "target/peers"),
        }
    }

    /// The command that starts a contender, without arguments; `None` if it is not installed.
    pub fn command(&self, contender: &Contender) -> anyhow::Result<Option<Command>> {
        let (program, script) = match contender.program {
            Program::Floor => (std::env::current_exe()?, None),
            Program::Kalends => (self.kalends.clone(), None),
            Program::Rust(name) => (self.peers.join("rust/release").join(name), None),
            Program::Node(name) => {
                let node = self.peers.join("node");
                (node.join("node_modules/.bin/node"), Some(node.join(format!("{name}.mjs"))))
            }
            Program::Python(name) => {
                let script = source(&format!("python/{name}.py"));
                (self.peers.join("python/bin/python"), Some(script))
            }
        };
        if !program.exists() || script.as_ref().is_some_and(|script| !script.exists()) {
            return Ok(None);
        }
        let mut command = Command::new(program);
        command.args(script);
        Ok(Some(command))
    }

    /// Version of a contender, as its lock file or the program tells it.
    pub fn version(&self, contender: &Contender) -> anyhow::Result<String> {
        let read = |path: &str| std::fs::read_to_string(source(path)).context(path.to_owned());
        let found = match contender.program {
            Program::Floor => return Ok(String::new()),
            Program::Kalends => {
                return Ok(first_line(&self.kalends.display().to_string(), &["--version"]));
            }
            Program::Rust(name) => {
                version_after(&read("rust/Cargo.toml")?, &format!("{name} = \"="))
            }
            Program::Node(name) => {
                version_after(&read("node/package.json")?, &format!("\"{name}\": \""))
            }
            Program::Python(_) => version_after(&read("python/requirements.txt")?, "APScheduler=="),
        };
        found.context("its version is not pinned")
    }
}

/// A file of `bench/peers`.
fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(path)
}

fn version_after(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
    Some(line.split('"').next().unwrap_or(line).to_owned())
}

/// A running contender, killed when dropped.
pub struct Worker {
    child: Child,
}

impl Worker {
    /// Starts a program and waits until it prints `ready`.
    pub fn start(command: &mut Command) -> anyhow::Result<Worker> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("it has no output")?;
        let worker = Worker { child };
        let mut lines = BufReader::new(output).lines();
        for line in lines.by_ref() {
            if line? == "ready" {
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(worker);
            }
        }
        bail!("it ended before it was ready")
    }

    /// Process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
