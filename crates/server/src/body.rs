//! The body of a response.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc::Receiver;

use crate::connection_activity::{ConnectionActivity, StreamInFlight};

/// The body of a response. Nearly all responses are complete when they are sent; an enum keeps
/// them free of the allocation that a boxed body costs.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// All bytes are known. The response has a `Content-Length`.
    Full(Full<Bytes>),
    /// Chunks follow until the sender is dropped.
    Stream(ChunkStream),
}

/// A body that is sent while it is produced.
#[derive(Debug)]
pub(crate) struct ChunkStream {
    chunks: Receiver<Bytes>,
    /// Keeps the connection from being closed as idle, once the response is sent on one.
    _in_flight: Option<StreamInFlight>,
}

impl ResponseBody {
    pub(crate) fn empty() -> ResponseBody {
        ResponseBody::Full(Full::default())
    }

    pub(crate) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
        ResponseBody::Full(Full::new(bytes.into()))
    }

    /// A body of the chunks that a channel receives.
    pub(crate) fn stream(chunks: Receiver<Bytes>) -> ResponseBody {
        ResponseBody::Stream(ChunkStream { chunks, _in_flight: None })
    }

    /// Counts a stream as in flight on the connection that it is sent on.
    pub(crate) fn on_connection(self, activity: &Arc<ConnectionActivity>) -> ResponseBody {
        match self {
            ResponseBody::Stream(stream) => ResponseBody::Stream(ChunkStream {
                _in_flight: Some(activity.begin_stream()),
                ..stream
            }),
            full => full,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            ResponseBody::Full(full) => Pin::new(full).poll_frame(context),
            ResponseBody::Stream(stream) => stream
                .chunks
                .poll_recv(context)
                .map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Full(full) => full.is_end_stream(),
            ResponseBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Full(full) => full.size_hint(),
            ResponseBody::Stream(_) => SizeHint::default(),
        }
    }
}
