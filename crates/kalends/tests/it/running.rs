//! A server of the test's own: the real binary, with its store in a folder that goes with it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

use crate::connection::Connection;

/// No line of a test is waited for longer.
const PATIENCE: Duration = Duration::from_secs(60);
const ANYWHERE: &str = "127.0.0.1:0";

/// A running server. It is ended when it is dropped.
pub(crate) struct Running {
    child: Child,
    folder: TempDir,
    /// What it says after where it listens.
    says: Receiver<String>,
    /// How it is started again, where it may be.
    prepare: Option<Prepare>,
    pub(crate) address: SocketAddr,
}

type Prepare = Box<dyn Fn(&mut Command, &Path)>;

impl Running {
    /// Starts a server with the time of the machine.
    pub(crate) fn start() -> Running {
        Running::start_with(|_, _| {})
    }

    /// Starts a server whose clock stands where [`Running::set_clock`] puts it.
    pub(crate) fn start_at(library: &Path, now: &str) -> Running {
        let (library, now) = (library.to_owned(), now.to_owned());
        Running::start_repeatedly(move |command, folder| {
            show_clock(command, folder, &library, &now);
        })
    }

    /// The same, and it runs jobs, at once where they have no start.
    pub(crate) fn start_working_at(library: &Path, now: &str) -> Running {
        let (library, now) = (library.to_owned(), now.to_owned());
        Running::start_repeatedly(move |command, folder| {
            show_clock(command, folder, &library, &now);
            run_jobs(command);
        })
    }

    /// Starts a server that runs jobs, at once where they have no start.
    pub(crate) fn start_working() -> Running {
        Running::start_repeatedly(|command, _| run_jobs(command))
    }

    /// Starts a node that runs jobs on a database that it shares with others.
    pub(crate) fn start_node(database: &str, key_file: &Path) -> Running {
        let (database, key_file) = (database.to_owned(), key_file.to_owned());
        Running::start_repeatedly(move |command, _| {
            run_jobs(command);
            command.env("KALENDS_STORE", &database).env("KALENDS_KEY_FILE", &key_file);
        })
    }

    pub(crate) fn start_with(prepare: impl FnOnce(&mut Command, &Path)) -> Running {
        Running::listen_on(ANYWHERE, prepare)
    }

    /// Starts a server that listens there.
    pub(crate) fn listen_on(listen: &str, prepare: impl FnOnce(&mut Command, &Path)) -> Running {
        let folder = TempDir::new().unwrap();
        let (child, says, address) = spawn(&folder, listen, prepare);
        Running { child, folder, says, prepare: None, address }
    }

    /// Starts a server whose store is elsewhere.
    pub(crate) fn start_in(store: &str, prepare: impl FnOnce(&mut Command)) -> Running {
        Running::start_with(|command, _| {
            command.env("KALENDS_STORE", store);
            prepare(command);
        })
    }

    /// Starts a server that may be started again.
    pub(crate) fn start_repeatedly(prepare: impl Fn(&mut Command, &Path) + 'static) -> Running {
        let mut started = Running::start_with(&prepare);
        started.prepare = Some(Box::new(prepare));
        started
    }

    /// Ends the server without a warning, as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again with the same store, at another address.
    pub(crate) fn start_again(&mut self) {
        let prepare = self.prepare.as_ref().unwrap();
        (self.child, self.says, self.address) = spawn(&self.folder, ANYWHERE, prepare);
    }

    /// Asks the server to end, waits until it has, and says whether all went well.
    pub(crate) fn stop(&mut self) -> bool {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().success()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::new(self.address)
    }

    /// The next thing it says in which a text is.
    pub(crate) fn line_with(&self, text: &str) -> String {
        loop {
            let line = self.says.recv_timeout(PATIENCE).unwrap();
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The folder of its store.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Puts the clock of the server to `now`, written `2016-03-30 20:40:55.469507`.
    pub(crate) fn set_clock(&self, now: &str) {
        let (next, file) = (self.folder.path().join("next"), self.folder.path().join("now"));
        std::fs::write(&next, now).unwrap();
        std::fs::rename(next, file).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already cannot be ended.
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
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, address) = line.strip_prefix("listening on ")?.split_once("://")?;
        Some(address.parse().unwrap())
    });
    let address = address.expect("the server ended without listening");
    let (say, says) = channel();
    // Somebody must read what it says, or it will wait for that one day.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            eprintln!("{line}");
            // A test that has ended no longer listens.
            let _ = say.send(line);
        }
    });
    (child, says, address)
}

/// Has a server run jobs, at once where they have no start.
pub(crate) fn run_jobs(command: &mut Command) {
    command.env_remove("KALENDS_HOLD").env_remove("KALENDS_START_DELAY");
}

fn show_clock(command: &mut Command, folder: &Path, library: &Path, now: &str) {
    let file = folder.join("now");
    // Started again, it goes on with the time it had.
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

/// A new database, where a server for tests is named. Says so where there is none.
pub(crate) fn database(name: &str) -> Option<String> {
    let Ok(server) = std::env::var("KALENDS_TEST_POSTGRES") else {
        eprintln!("SKIPPED: no PostgreSQL server is named in KALENDS_TEST_POSTGRES");
        return None;
    };
    let name = format!("{name}_{}", std::process::id());
    let sql = format!("CREATE DATABASE {name}");
    let made = Command::new("psql").args([&server, "-qc", &sql]).status().unwrap();
    assert!(made.success());
    let (server, _) = server.rsplit_once('/').unwrap();
    Some(format!("{server}/{name}"))
}

/// The library that shows a program another time. Says so where there is none.
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
