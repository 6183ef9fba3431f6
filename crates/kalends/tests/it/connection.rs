//! An HTTP client connection: whole requests and responses, or raw bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Limit for a response.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A keep-alive connection.
pub(crate) struct Connection {
    host: String,
    reader: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }
}

impl Connection {
    pub(crate) fn new(address: SocketAddr) -> Connection {
        Connection::over(TcpStream::connect(address).unwrap(), address)
    }

    /// Connects from one of the loopback addresses.
    pub(crate) fn from(client: [u8; 4], address: SocketAddr) -> Connection {
        Connection::over(connect_from(client, address), address)
    }

    fn over(stream: TcpStream, address: SocketAddr) -> Connection {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { host: address.to_string(), reader: BufReader::new(stream) }
    }

    /// Sends a request and reads its response. The body is JSON.
    pub(crate) fn request(&mut self, method: &str, target: &str, body: Option<&str>) -> Response {
        self.request_with(method, target, &[], body)
    }

    /// Sends a request with additional headers. An empty value suppresses a header.
    pub(crate) fn request_with(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Response {
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

    /// Sends raw bytes. Ignores that the server has closed the connection.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.reader.get_mut().write_all(bytes);
    }

    /// Reads one response.
    pub(crate) fn read(&mut self, has_body: bool) -> Response {
        let status_line = self.line();
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let mut response = Response { status, headers, body: String::new() };
        let length = response.header("Content-Length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; if has_body { length } else { 0 }];
        self.reader.read_exact(&mut body).unwrap();
        response.body = String::from_utf8(body).unwrap();
        response
    }

    /// Reads until the server closes the connection.
    pub(crate) fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        // A server that closes with bytes unread resets the connection.
        let _ = self.reader.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Reads one line, without its line ending.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// A TCP connection from one of the loopback addresses.
pub(crate) fn connect_from(client: [u8; 4], address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let connected = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((client, 0).into()).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    });
    connected.set_nonblocking(false).unwrap();
    connected
}
