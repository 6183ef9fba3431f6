//! A server for tests: the real binary with its store in a temporary directory.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

use crate::connection::Connection;

/// Limit for a log line.
const TIMEOUT: Duration = Duration::from_secs(60);
const FREE_PORT: &str = "127.0.0.1:0";

/// A running server, killed when dropped.
pub(crate) struct TestServer {
    child: Child,
    folder: TempDir,
    /// Lines on standard error except for the address.
    log: Receiver<String>,
    /// Prepares a restart; `None` if the test does not restart the server.
    prepare: Option<Prepare>,
    pub(crate) address: SocketAddr,
}

type Prepare = Box<dyn Fn(&mut Command, &Path)>;

impl TestServer {
    /// Starts a server with the system clock. It runs no jobs.
    pub(crate) fn start() -> TestServer {
        TestServer::start_with(|_, _| {})
    }

    /// Starts a server whose clock stands still at the time of [`TestServer::set_clock`].
    pub(crate) fn start_at(library: &Path, now: &str) -> TestServer {
        let (library, now) = (library.to_owned(), now.to_owned());
        TestServer::start_restartable(move |command, folder| {
            override_clock(command, folder, &library, &now);
        })
    }

    /// The same with an engine that runs jobs without a start time immediately.
    pub(crate) fn start_working_at(library: &Path, now: &str) -> TestServer {
        let (library, now) = (library.to_owned(), now.to_owned());
        TestServer::start_restartable(move |command, folder| {
            override_clock(command, folder, &library, &now);
            run_jobs(command);
        })
    }

    /// Starts a server with an engine that runs jobs without a start time immediately.
    pub(crate) fn start_working() -> TestServer {
        TestServer::start_restartable(|command, _| run_jobs(command))
    }

    /// Starts a node that runs jobs of a shared database.
    pub(crate) fn start_node(database: &str, key_file: &Path) -> TestServer {
        let (database, key_file) = (database.to_owned(), key_file.to_owned());
        TestServer::start_restartable(move |command, _| {
            run_jobs(command);
            command.env("KALENDS_STORE", &database).env("KALENDS_KEY_FILE", &key_file);
        })
    }

    pub(crate) fn start_with(prepare: impl FnOnce(&mut Command, &Path)) -> TestServer {
        TestServer::listen_on(FREE_PORT, prepare)
    }

    /// Starts a server that listens on this address.
    pub(crate) fn listen_on(listen: &str, prepare: impl FnOnce(&mut Command, &Path)) -> TestServer {
        let folder = TempDir::new().unwrap();
        // The server warns about a directory that other users can access.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let (child, log, address) = spawn(&folder, listen, prepare);
        TestServer { child, folder, log, prepare: None, address }
    }

    /// Starts a server with this store.
    pub(crate) fn start_in(store: &str, prepare: impl FnOnce(&mut Command)) -> TestServer {
        TestServer::start_with(|command, _| {
            command.env("KALENDS_STORE", store);
            prepare(command);
        })
    }

    /// Starts a server that can be restarted.
    pub(crate) fn start_restartable(prepare: impl Fn(&mut Command, &Path) + 'static) -> TestServer {
        let mut started = TestServer::start_with(&prepare);
        started.prepare = Some(Box::new(prepare));
        started
    }

    /// Kills the server, as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the server again with the same store, at another address.
    pub(crate) fn restart(&mut self) {
        let prepare = self.prepare.as_ref().unwrap();
        (self.child, self.log, self.address) = spawn(&self.folder, FREE_PORT, prepare);
    }

    /// Stops the server with SIGTERM and returns whether it exited successfully.
    pub(crate) fn stop(&mut self) -> bool {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().success()
    }

    /// Waits until the server has exited by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::new(self.address)
    }

    /// Waits for the next log line that contains a text.
    pub(crate) fn line_with(&self, text: &str) -> String {
        loop {
            let line = self.log.recv_timeout(TIMEOUT).unwrap();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Kills the server and returns the lines of its log that were not read.
    pub(crate) fn kill_and_read_log(&mut self) -> Vec<String> {
        self.kill();
        self.log.iter().collect()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Directory of the store.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sets the clock of the server to `now`, such as `2016-03-30 20:40:55.469507`.
    pub(crate) fn set_clock(&self, now: &str) {
        let (next, file) = (self.folder.path().join("next"), self.folder.path().join("now"));
        std::fs::write(&next, now).unwrap();
        std::fs::rename(next, file).unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // The server may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(
    folder: &TempDir,
    listen: &str,
    prepare: impl FnOnce(&mut Command, &Path),
) -> (Child, Receiver<String>, SocketAddr) {
    let store = format!("sqlite:{}", folder.path().join("kalends.db").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
    command
        .args(["serve", "--listen", listen])
        .env("KALENDS_STORE", store)
        .env("KALENDS_START_DELAY", "PT20S")
        .env("KALENDS_HOLD", "1")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    prepare(&mut command, folder.path());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (sender, log) = channel();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        let Some(address) = line.strip_prefix("listening on ") else {
            eprintln!("{line}");
            sender.send(line).unwrap();
            return None;
        };
        let (_, address) = address.split_once("://")?;
        Some(address.parse().unwrap())
    });
    let address = address.expect("the server exited before it listened");
    // Drain the pipe, or the server would block on its log.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            eprintln!("{line}");
            // The test may have ended.
            let _ = sender.send(line);
        }
    });
    (child, log, address)
}

/// Enables the engine, without a start delay.
pub(crate) fn run_jobs(command: &mut Command) {
    command.env_remove("KALENDS_HOLD").env_remove("KALENDS_START_DELAY");
}

pub(crate) fn override_clock(command: &mut Command, folder: &Path, library: &Path, now: &str) {
    let file = folder.join("now");
    // A restarted server continues with its last time.
    if !file.exists() {
        std::fs::write(&file, now).unwrap();
    }
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", file)
        .env("FAKETIME_NO_CACHE", "1")
        .env("DONT_FAKE_MONOTONIC", "1")
        .env("TZ", "UTC");
}

/// Creates a database. Prints SKIPPED and returns `None` without a test server.
pub(crate) fn database(name: &str) -> Option<String> {
    let Ok(server) = std::env::var("KALENDS_TEST_POSTGRES") else {
        eprintln!("SKIPPED: no PostgreSQL server is named in KALENDS_TEST_POSTGRES");
        return None;
    };
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("{name}_{}_{number}", std::process::id());
    let sql = format!("CREATE DATABASE {name}");
    let created = Command::new("psql").args([&server, "-qc", &sql]).status().unwrap();
    assert!(created.success());
    let (server, _) = server.rsplit_once('/').unwrap();
    Some(format!("{server}/{name}"))
}

/// The library that overrides the clock of a process. Prints SKIPPED and returns `None` if missing.
pub(crate) fn clock_library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let library = "faketime/libfaketimeMT.so.1";
    let mut places = folders.map(|folder| folder.path().join(library));
    let found = places.find(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: the package faketime is not installed");
    }
    found
}
