//! The operator's proxy: it is asked for a connection to the very address that was checked.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::no_connection::NoConnection;
use super::settings::Proxy;

/// No honest proxy says more before it passes bytes on.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

/// Connects to the proxy.
pub(super) async fn reach(proxy: &Proxy) -> std::io::Result<TcpStream> {
    TcpStream::connect((proxy.host.as_str(), proxy.port)).await
}

/// Asks for a connection. Afterwards the stream leads to `to`.
pub(super) async fn ask_for(stream: &mut TcpStream, to: SocketAddr) -> Result<(), NoConnection> {
    let failed = |why: &str| NoConnection::Proxy(why.to_owned());
    let question = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    let written = stream.write_all(question.as_bytes()).await;
    written.map_err(|_| failed("it closed the connection"))?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the answer is the target's.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= ANSWER_BYTES_MAX {
            return Err(failed("its answer is too long"));
        }
        let byte = stream.read_u8().await.map_err(|_| failed("it closed the connection"))?;
        answer.push(byte);
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    match head.parse(&answer).map(|_| head.code) {
        Ok(Some(200..=299)) => Ok(()),
        Ok(Some(code)) => Err(failed(&format!("it answers {code}"))),
        _ => Err(failed("it does not speak HTTP")),
    }
}
