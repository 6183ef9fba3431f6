//! Which protocol a connection speaks: HTTP/2 begins with a preface that no request of HTTP/1.1
//! is like.

use std::io;

use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What every connection of HTTP/2 begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How requests are framed on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// As lines.
    Http1,
    /// As frames, several requests at once.
    Http2,
}

/// A connection of which it is known what it speaks.
pub(crate) struct Recognised<S> {
    pub(crate) protocol: Protocol,
    /// What was read to find out. It comes before what is read from the stream.
    pub(crate) begin: Bytes,
    pub(crate) stream: S,
}

/// Reads until it is clear what a connection speaks.
pub(crate) async fn recognise<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<Recognised<S>> {
    let mut begin = Vec::with_capacity(PREFACE.len());
    loop {
        let left = PREFACE.len().saturating_sub(begin.len());
        let read = (&mut stream).take(left as u64).read_buf(&mut begin).await?;
        let is_over = read == 0 || begin.len() == PREFACE.len();
        let is_preface = PREFACE.starts_with(&begin);
        let protocol = match (is_preface, is_over) {
            (true, false) => continue,
            (true, true) if read > 0 => Protocol::Http2,
            _ => Protocol::Http1,
        };
        return Ok(Recognised { protocol, begin: begin.into(), stream });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes come one by one or all at once, and none is lost.
    async fn check(bytes: &[u8], expected: Protocol) {
        for slice in [1, 1000] {
            let (mut sender, receiver) = tokio::io::duplex(slice);
            let sent = bytes.to_vec();
            let send = tokio::spawn(async move {
                tokio::io::AsyncWriteExt::write_all(&mut sender, &sent).await.unwrap();
            });
            let mut found = recognise(receiver).await.unwrap();
            assert_eq!(found.protocol, expected, "{bytes:?}");
            let mut read = found.begin.to_vec();
            found.stream.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, bytes);
            send.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_connection_speaks_http_2_where_it_begins_with_the_whole_preface() {
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Protocol::Http2).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0", Protocol::Http2).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", Protocol::Http1).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX and more", Protocol::Http1).await;
        check(b"PUT / HTTP/1.1\r\n\r\n", Protocol::Http1).await;
        check(b"", Protocol::Http1).await;
    }
}
