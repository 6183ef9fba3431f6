//! Protocol detection on plain connections: HTTP/2 starts with a preface that is no valid HTTP/1.1
//! request.

use std::io;

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The client connection preface of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.0 or HTTP/1.1: one request at a time.
    Http1,
    /// HTTP/2: up to 64 concurrent requests.
    Http2,
}

/// A stream whose protocol is known.
pub(crate) struct DetectedProtocol<S> {
    pub(crate) protocol: Protocol,
    /// Bytes that were read to detect the protocol. They precede those of the stream.
    pub(crate) prefix: Bytes,
    pub(crate) stream: S,
}

/// Reads as much of a stream as is needed to detect its protocol.
pub(crate) async fn detect_protocol<S: AsyncRead + Unpin>(
    mut stream: S,
) -> io::Result<DetectedProtocol<S>> {
    let mut prefix = Vec::with_capacity(PREFACE.len());
    loop {
        let left = PREFACE.len().saturating_sub(prefix.len());
        let read = (&mut stream).take(left as u64).read_buf(&mut prefix).await?;
        let is_complete = read == 0 || prefix.len() == PREFACE.len();
        let is_preface = PREFACE.starts_with(&prefix);
        let protocol = match (is_preface, is_complete) {
            (true, false) => continue,
            (true, true) if read > 0 => Protocol::Http2,
            _ => Protocol::Http1,
        };
        return Ok(DetectedProtocol { protocol, prefix: prefix.into(), stream });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the bytes one by one and all at once; none may be lost.
    async fn check(bytes: &[u8], expected: Protocol) {
        for slice in [1, 1000] {
            let (mut sender, receiver) = tokio::io::duplex(slice);
            let sent = bytes.to_vec();
            let send = tokio::spawn(async move {
                tokio::io::AsyncWriteExt::write_all(&mut sender, &sent).await.unwrap();
            });
            let mut found = detect_protocol(receiver).await.unwrap();
            assert_eq!(found.protocol, expected, "{bytes:?}");
            let mut read = found.prefix.to_vec();
            found.stream.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, bytes);
            send.await.unwrap();
        }
    }

    #[tokio::test]
    async fn only_the_complete_preface_selects_http2() {
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Protocol::Http2).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0", Protocol::Http2).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", Protocol::Http1).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX and more", Protocol::Http1).await;
        check(b"PUT / HTTP/1.1\r\n\r\n", Protocol::Http1).await;
        check(b"", Protocol::Http1).await;
    }
}
