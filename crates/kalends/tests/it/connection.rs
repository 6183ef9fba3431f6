//! A connection to a server: whole requests and answers, or bytes as they come.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is kept between requests.
pub(crate) struct Connection {
    host: String,
    reader: BufReader<TcpStream>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }
}

impl Connection {
    pub(crate) fn new(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { host: address.to_string(), reader: BufReader::new(stream) }
    }

    /// Sends a request and reads its answer. A body is sent as JSON.
    pub(crate) fn ask(&mut self, method: &str, target: &str, body: Option<&str>) -> Answer {
        self.ask_with(method, target, &[], body)
    }

    /// The same, with more headers.
    pub(crate) fn ask_with(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        let has = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        if !has("Host") {
            head += &format!("Host: {}\r\n", self.host);
        }
        if body.is_some() && !has("Content-Type") {
            head += "Content-Type: application/json; charset=utf-8\r\n";
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = body {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        self.send(format!("{head}\r\n{}", body.unwrap_or("")).as_bytes());
        self.read(method != "HEAD")
    }

    /// Sends bytes as they are. A server that has closed already is none of the sender's business.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.reader.get_mut().write_all(bytes);
    }

    /// Reads one answer.
    pub(crate) fn read(&mut self, has_body: bool) -> Answer {
        let status_line = self.line();
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: String::new() };
        let length = answer.header("Content-Length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; if has_body { length } else { 0 }];
        self.reader.read_exact(&mut body).unwrap();
        answer.body = String::from_utf8(body).unwrap();
        answer
    }

    /// Everything until the server closes.
    pub(crate) fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        // A server that closes with bytes unread resets the connection.
        let _ = self.reader.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// One line, without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
