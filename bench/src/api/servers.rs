//! The servers under test, each in its own process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use axum::Router;
use axum::http::header;
use axum::routing::get;

/// A server process, killed when dropped.
pub struct Server {
    child: Child,
    /// Listen address.
    pub address: SocketAddr,
}

impl Server {
    /// Starts Kalends with a store, and its key in a directory.
    pub fn kalends(binary: &Path, store: &str, folder: &Path) -> anyhow::Result<Server> {
        let mut command = Command::new(binary);
        command.args(["serve", "--hold", "--limits-plans", "off", "--listen", "127.0.0.1:0"]);
        command.args(["--store", store]).arg("--key-file").arg(folder.join("key"));
        command.arg("--audit-log").arg(folder.join("audit.log"));
        Server::start(command).with_context(|| format!("{}", binary.display()))
    }

    /// Starts this program as a bare handler; see [`bare`].
    pub fn bare(bytes: usize) -> anyhow::Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--bare", &bytes.to_string()]);
        Server::start(command)
    }

    fn start(mut command: Command) -> anyhow::Result<Server> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("no output")?).lines();
        let address = loop {
            let line = lines.next().context("it ended at once")??;
            if let Some(address) = line.strip_prefix("listening on http://") {
                break address.parse()?;
            }
        };
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| eprintln!("{line}"))
        });
        Ok(Server { child, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a body of this size for every request.
pub async fn bare(bytes: usize) -> anyhow::Result<()> {
    let body: &'static str = Box::leak("x".repeat(bytes).into_boxed_str());
    let answer = move || async move { ([(header::CONTENT_TYPE, "application/json")], body) };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, Router::new().fallback(get(answer))).await?)
}
