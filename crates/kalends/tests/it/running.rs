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

/// A running server. It is ended when it is dropped.
pub(crate) struct Running {
    child: Child,
    folder: TempDir,
    /// What it says after where it listens.
    says: Receiver<String>,
    pub(crate) address: SocketAddr,
}

impl Running {
    /// Starts a server with the time of the machine.
    pub(crate) fn start() -> Running {
        Running::start_with(|_, _| {})
    }

    /// Starts a server whose clock stands where [`Running::set_clock`] puts it.
    pub(crate) fn start_at(library: &Path, now: &str) -> Running {
        Running::start_with(|command, folder| {
            let file = folder.join("now");
            std::fs::write(&file, now).unwrap();
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME_TIMESTAMP_FILE", file)
                .env("FAKETIME_NO_CACHE", "1")
                .env("DONT_FAKE_MONOTONIC", "1")
                .env("TZ", "UTC");
        })
    }

    pub(crate) fn start_with(prepare: impl FnOnce(&mut Command, &Path)) -> Running {
        Running::listen_on("127.0.0.1:0", prepare)
    }

    /// Starts a server that listens there.
    pub(crate) fn listen_on(listen: &str, prepare: impl FnOnce(&mut Command, &Path)) -> Running {
        let folder = TempDir::new().unwrap();
        let store = format!("sqlite:{}", folder.path().join("kalends.db").display());
        Running::run(folder, listen, &store, prepare)
    }

    /// Starts a server whose store is elsewhere.
    pub(crate) fn start_in(store: &str, prepare: impl FnOnce(&mut Command)) -> Running {
        let folder = TempDir::new().unwrap();
        Running::run(folder, "127.0.0.1:0", store, |command, _| prepare(command))
    }

    fn run(
        folder: TempDir,
        listen: &str,
        store: &str,
        prepare: impl FnOnce(&mut Command, &Path),
    ) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kalends"));
        command.args(["serve", "--listen", listen, "--store", store]);
        command
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
        Running { child, folder, says, address }
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
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
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
