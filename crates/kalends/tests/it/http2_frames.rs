//! An HTTP/2 connection at the level of frames, for clients that leave requests unfinished.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::connection::connect_from;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
/// Frame flags.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Whether a request has a body that follows its head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    Unsent,
}

/// A connection with prior knowledge of HTTP/2.
pub(crate) struct Http2Connection {
    stream: TcpStream,
    next_stream: u32,
}

impl Http2Connection {
    /// Connects from one of the loopback addresses.
    pub(crate) fn from(client: [u8; 4], address: SocketAddr) -> Http2Connection {
        let mut stream = connect_from(client, address);
        stream.write_all(PREFACE).unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        Http2Connection { stream, next_stream: 1 }
    }

    /// Sends the head of a request with a bearer token, and nothing else.
    pub(crate) fn send_head(&mut self, method: &str, path: &str, token: &str, body: Body) {
        let mut block = vec![0x86]; // :scheme http
        // Literals without indexing, with names of the static table.
        for (name, value) in [
            (&[0x02][..], method),
            (&[0x04], path),
            (&[0x01], "localhost"),
            (&[0x0f, 16], "application/json"),
            (&[0x0f, 8], &format!("Bearer {token}")),
        ] {
            block.extend(name);
            push_length(&mut block, value.len());
            block.extend(value.as_bytes());
        }
        let flags = END_HEADERS | if body == Body::None { END_STREAM } else { 0 };
        // The server may have closed the connection.
        let _ = self.stream.write_all(&frame(HEADERS, flags, self.next_stream, &block));
        self.next_stream += 2;
    }

    /// Waits until the server has read everything that was sent.
    pub(crate) fn ping(&mut self) {
        self.stream.write_all(&frame(PING, 0, 0, b"progress")).unwrap();
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).unwrap();
            if (head[3], head[4]) == (PING, ACK) {
                return;
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The length of an HPACK string without Huffman coding: an integer with a prefix of 7 bits.
fn push_length(block: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(127) else {
        block.push(u8::try_from(length).unwrap());
        return;
    };
    block.push(127);
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
}
