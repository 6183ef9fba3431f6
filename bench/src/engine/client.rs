//! A minimal HTTP client with a keep-alive connection.

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection to one host.
pub struct Client {
    stream: TcpStream,
    host: String,
    buffer: Vec<u8>,
}

/// A response.
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body bytes.
    pub body: Vec<u8>,
}

impl Client {
    /// Connects to `host`, as HOST:PORT.
    pub async fn connect(host: &str) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, host: host.to_owned(), buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends a request and reads its response.
    pub async fn send(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
        let (host, length) = (&self.host, body.len());
        let message = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(message.as_bytes()).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await?;
        };
        let text = std::str::from_utf8(self.buffer.get(..head).unwrap_or_default())?;
        let status = text.split(' ').nth(1).context("a status")?.parse()?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        let end = head + length.transpose()?.unwrap_or(0);
        while self.buffer.len() < end {
            self.read_more().await?;
        }
        Ok(Answer { status, body: self.buffer.get(head..end).unwrap_or_default().to_vec() })
    }

    /// Sends a request; a status other than 2xx is an error.
    pub async fn must(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<Vec<u8>> {
        let Answer { status, body } = self.send(method, path, body).await?;
        if !(200..300).contains(&status) {
            bail!("{method} {path}: {status} {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => bail!("the connection was closed"),
            _ => Ok(()),
        }
    }
}
