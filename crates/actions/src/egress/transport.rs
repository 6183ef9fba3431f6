//! The byte stream of a connection, plain or TLS.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// The byte stream of a connection.
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Required by fe2o3-amqp.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a connection")
    }
}

impl Transport {
    /// Whether the connection is open and has no unread bytes, as an idle keep-alive connection must
    /// be.
    pub(crate) fn is_idle(&mut self) -> bool {
        let socket = match &*self {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => stream.get_ref().0,
        };
        // Asks the system: the runtime may not have polled the socket yet.
        let peeked = SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]);
        let has_no_bytes = peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        let Transport::Tls(stream) = self else { return has_no_bytes };
        // It may have decrypted bytes that nobody has read.
        let mut byte = [0];
        let mut context = Context::from_waker(Waker::noop());
        let read = || Pin::new(stream).poll_read(&mut context, &mut ReadBuf::new(&mut byte));
        has_no_bytes && read().is_pending()
    }

    /// Whether ALPN selected HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
