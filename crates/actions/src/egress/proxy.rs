//! The configured HTTP proxy: opens tunnels to checked addresses with CONNECT.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::error::ProxyError;
use super::settings::Proxy;

/// Bytes of the response's head.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Connects to the proxy.
pub(super) async fn connect(proxy: &Proxy) -> std::io::Result<TcpStream> {
    TcpStream::connect((proxy.host.as_str(), proxy.port)).await
}

/// Opens a tunnel to `to` over the stream.
pub(super) async fn open_tunnel(stream: &mut TcpStream, to: SocketAddr) -> Result<(), ProxyError> {
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|_| ProxyError::Closed)?;
    let mut response = Vec::new();
    // Byte by byte: bytes after the head belong to the target.
    while !response.ends_with(b"\r\n\r\n") {
        if response.len() >= HEAD_BYTES_MAX {
            return Err(ProxyError::ResponseTooLong);
        }
        let byte = stream.read_u8().await.map_err(|_| ProxyError::Closed)?;
        response.push(byte);
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    match head.parse(&response).map(|_| head.code) {
        Ok(Some(200..=299)) => Ok(()),
        Ok(Some(code)) => Err(ProxyError::Status(code)),
        _ => Err(ProxyError::NotHttp),
    }
}
