//! Questions to name servers of the operator's choice: what goes over the wire.
//!
//! A stub: it asks servers that find the answer themselves, over UDP, and over TCP where the answer
//! does not fit. It refuses what is not the answer to its question.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long one server is waited for. Every server is asked twice.
const PATIENCE: Duration = Duration::from_millis(1_200);
const TRIES: usize = 2;
const DATAGRAM_BYTES_MAX: usize = 4_096;
const HEAD_BYTES: usize = 12;
const CLASS_INTERNET: u16 = 1;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    A,
    Aaaa,
}

impl Kind {
    fn number(self) -> u16 {
        match self {
            Kind::A => 1,
            Kind::Aaaa => 28,
        }
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// It goes on, over TCP.
    pub(super) is_cut: bool,
    /// Every address in it, whichever name in the chain has it.
    pub(super) addresses: Vec<IpAddr>,
}

/// Asks the servers in turn. `id` is chance that only the server gets to know.
pub(super) async fn ask(
    servers: &[SocketAddr],
    name: &str,
    kind: Kind,
    id: u16,
) -> io::Result<Vec<IpAddr>> {
    let question = question(id, name, kind).ok_or(io::ErrorKind::InvalidInput)?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for server in servers.iter().cycle().take(servers.len() * TRIES) {
        match timeout(PATIENCE, ask_one(*server, &question, id)).await {
            Ok(Ok(addresses)) => return Ok(addresses),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

async fn ask_one(server: SocketAddr, question: &[u8], id: u16) -> io::Result<Vec<IpAddr>> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let length = socket.recv(&mut datagram).await?;
        let message = datagram.get(..length).unwrap_or_default();
        // Somebody else's guess at our question is passed over.
        if !is_to(message, question, id) {
            continue;
        }
        let reply = read(message).ok_or(io::ErrorKind::InvalidData)?;
        return match reply.is_cut {
            true => ask_over_tcp(server, question, id).await,
            false => Ok(reply.addresses),
        };
    }
}

async fn ask_over_tcp(server: SocketAddr, question: &[u8], id: u16) -> io::Result<Vec<IpAddr>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).unwrap_or_default();
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    let reply = read(&message).filter(|reply| !reply.is_cut && is_to(&message, question, id));
    reply.map(|reply| reply.addresses).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The bytes of a question; none for what is no name.
fn question(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let name = name.trim_end_matches('.');
    if name.is_empty() || name.len() > 253 {
        return None;
    }
    // Recursion is wanted; one question.
    let mut bytes = [id.to_be_bytes(), [1, 0], [0, 1], [0, 0], [0, 0], [0, 0]].concat();
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        bytes.push(length);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&kind.number().to_be_bytes());
    bytes.extend_from_slice(&CLASS_INTERNET.to_be_bytes());
    Some(bytes)
}

/// Whether a message answers a question: its number, and the question repeated.
fn is_to(message: &[u8], question: &[u8], id: u16) -> bool {
    let asked = question.get(HEAD_BYTES..).unwrap_or_default();
    let repeated = message.get(HEAD_BYTES..HEAD_BYTES + asked.len()).unwrap_or_default();
    number(message, 0) == Some(id)
        && message.get(2).is_some_and(|flags| flags & 0x80 != 0)
        && number(message, 4) == Some(1)
        && repeated.eq_ignore_ascii_case(asked)
}

/// Reads a message; none where it is broken or tells of a failure other than "no such name".
fn read(message: &[u8]) -> Option<Reply> {
    const NO_SUCH_NAME: u8 = 3;
    let flags = message.get(2..4)?;
    let (is_cut, code) = match flags {
        [first, second] => (first & 0x02 != 0, second & 0x0f),
        _ => return None,
    };
    if code != 0 && code != NO_SUCH_NAME {
        return None;
    }
    let questions = number(message, 4)?;
    let answers = number(message, 6)?;
    let mut at = HEAD_BYTES;
    for _ in 0..questions {
        at = after_name(message, at)? + 4;
    }
    let mut addresses = Vec::new();
    // Each turn moves at least eleven bytes on in a message of at most 65,535.
    for _ in 0..answers {
        if is_cut {
            break;
        }
        at = after_name(message, at)?;
        let (kind, class) = (number(message, at)?, number(message, at + 2)?);
        let length = usize::from(number(message, at + 8)?);
        let data = message.get(at + 10..at + 10 + length)?;
        at += 10 + length;
        match (kind, class) {
            (1, CLASS_INTERNET) => {
                addresses.push(IpAddr::from(<[u8; 4]>::try_from(data).ok()?));
            }
            (28, CLASS_INTERNET) => {
                addresses.push(IpAddr::from(<[u8; 16]>::try_from(data).ok()?));
            }
            _ => {}
        }
    }
    Some(Reply { is_cut, addresses })
}

fn number(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at + 2)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

/// Where a name ends. What it points to is not followed: nobody needs to read it.
fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length if length & 0xc0 == 0 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(records: &[(u16, &[u8])], flags: [u8; 2]) -> Vec<u8> {
        let mut message = question(7, "a.example", Kind::A).unwrap();
        message[2..4].copy_from_slice(&flags);
        message[6..8].copy_from_slice(&u16::try_from(records.len()).unwrap().to_be_bytes());
        for (kind, data) in records {
            message.extend_from_slice(&[0xc0, 12]);
            message.extend_from_slice(&kind.to_be_bytes());
            message.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
            message.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
            message.extend_from_slice(data);
        }
        message
    }

    #[test]
    fn every_address_of_an_answer_is_read_and_chains_are_passed_over() {
        let mapped: Ipv6Addr = "::ffff:10.0.0.1".parse().unwrap();
        let message =
            answer(&[(5, &[1, b'b', 0]), (1, &[8, 8, 8, 8]), (28, &mapped.octets())], [0x81, 0x80]);
        let expected = vec![IpAddr::from([8, 8, 8, 8]), mapped.into()];
        assert_eq!(read(&message), Some(Reply { is_cut: false, addresses: expected }));
        assert!(is_to(&message, &question(7, "A.example.", Kind::A).unwrap(), 7));
    }

    #[test]
    fn what_is_broken_or_for_another_is_no_answer() {
        let good = answer(&[(1, &[8, 8, 8, 8])], [0x81, 0x80]);
        for end in 0..good.len() {
            assert_eq!(read(&good[..end]), None, "{end}");
        }
        assert_eq!(read(&answer(&[(1, &[8, 8, 8])], [0x81, 0x80])), None);
        assert_eq!(read(&answer(&[], [0x81, 0x82])), None, "the server failed");
        assert_eq!(read(&answer(&[], [0x81, 0x83])).unwrap().addresses, [] as [IpAddr; 0]);
        assert!(read(&answer(&[(1, &[8, 8, 8, 8])], [0x83, 0x80])).unwrap().is_cut);
        let asked = question(7, "a.example", Kind::A).unwrap();
        assert!(!is_to(&good, &asked, 8), "another number");
        assert!(!is_to(&good, &question(7, "b.example", Kind::A).unwrap(), 7), "another name");
        assert!(!is_to(&good, &question(7, "a.example", Kind::Aaaa).unwrap(), 7), "another kind");
        assert!(!is_to(&asked, &asked, 7), "a question");
    }

    #[test]
    fn what_is_no_name_is_not_asked_for() {
        for name in ["", ".", "a..b", &"a".repeat(64), &"a.".repeat(128)] {
            assert_eq!(question(1, name, Kind::A), None, "{name}");
        }
    }
}
