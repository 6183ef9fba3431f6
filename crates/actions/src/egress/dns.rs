//! DNS stub resolver for the name servers that the operator configured.
//!
//! It queries recursive servers over UDP, and over TCP if the response is truncated. It discards
//! messages that do not match the query.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Time limit of one query to one server.
const QUERY_TIMEOUT: Duration = Duration::from_millis(1_200);
/// Queries to each server before resolution fails.
const QUERIES_PER_SERVER_MAX: usize = 2;
const DATAGRAM_BYTES_MAX: usize = 4_096;
const HEAD_BYTES: usize = 12;
const CLASS_INTERNET: u16 = 1;

/// The record type of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordType {
    A,
    Aaaa,
}

impl RecordType {
    fn number(self) -> u16 {
        match self {
            RecordType::A => 1,
            RecordType::Aaaa => 28,
        }
    }
}

/// A server's response.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DnsResponse {
    /// Whether the complete response is available over TCP only.
    is_truncated: bool,
    /// Every address in the answer section, of any name in a chain of aliases.
    addresses: Vec<IpAddr>,
}

/// Queries the servers in turn. `id` is random, so that an off-path attacker cannot guess it.
pub(super) async fn query(
    servers: &[SocketAddr],
    name: &str,
    kind: RecordType,
    id: u16,
) -> io::Result<Vec<IpAddr>> {
    let message = encode_query(id, name, kind).ok_or(io::ErrorKind::InvalidInput)?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for server in servers.iter().cycle().take(servers.len() * QUERIES_PER_SERVER_MAX) {
        match timeout(QUERY_TIMEOUT, query_server(*server, &message, id)).await {
            Ok(Ok(addresses)) => return Ok(addresses),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

async fn query_server(server: SocketAddr, query: &[u8], id: u16) -> io::Result<Vec<IpAddr>> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let length = socket.recv(&mut datagram).await?;
        let message = datagram.get(..length).unwrap_or_default();
        // Discards spoofed and late responses.
        if !is_response_to(message, query, id) {
            continue;
        }
        let response = parse_response(message).ok_or(io::ErrorKind::InvalidData)?;
        return match response.is_truncated {
            true => query_over_tcp(server, query, id).await,
            false => Ok(response.addresses),
        };
    }
}

async fn query_over_tcp(server: SocketAddr, query: &[u8], id: u16) -> io::Result<Vec<IpAddr>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).unwrap_or_default();
    stream.write_all(&[&length.to_be_bytes(), query].concat()).await?;
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    let response = parse_response(&message)
        .filter(|response| !response.is_truncated && is_response_to(&message, query, id));
    response.map(|response| response.addresses).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Encodes a query; `None` if the name is invalid.
fn encode_query(id: u16, name: &str, kind: RecordType) -> Option<Vec<u8>> {
    let name = name.trim_end_matches('.');
    if name.is_empty() || name.len() > 253 {
        return None;
    }
    // Flags: recursion desired. One question.
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

/// Whether a message is the response to a query: same id and same question.
fn is_response_to(message: &[u8], query: &[u8], id: u16) -> bool {
    let question = query.get(HEAD_BYTES..).unwrap_or_default();
    let repeated = message.get(HEAD_BYTES..HEAD_BYTES + question.len()).unwrap_or_default();
    number(message, 0) == Some(id)
        && message.get(2).is_some_and(|flags| flags & 0x80 != 0)
        && number(message, 4) == Some(1)
        && repeated.eq_ignore_ascii_case(question)
}

/// Parses a response; `None` if it is malformed or has an error code other than NXDOMAIN.
fn parse_response(message: &[u8]) -> Option<DnsResponse> {
    const NXDOMAIN: u8 = 3;
    let flags = message.get(2..4)?;
    let (is_truncated, code) = match flags {
        [first, second] => (first & 0x02 != 0, second & 0x0f),
        _ => return None,
    };
    if code != 0 && code != NXDOMAIN {
        return None;
    }
    let questions = number(message, 4)?;
    let answers = number(message, 6)?;
    let mut at = HEAD_BYTES;
    for _ in 0..questions {
        at = after_name(message, at)? + 4;
    }
    let mut addresses = Vec::new();
    // Terminates: each record has at least eleven bytes, and a message at most 65,535.
    for _ in 0..answers {
        if is_truncated {
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
    Some(DnsResponse { is_truncated, addresses })
}

fn number(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at + 2)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

/// The index after a name. Compression pointers are not followed: the name itself is not needed.
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

    fn response(records: &[(u16, &[u8])], flags: [u8; 2]) -> Vec<u8> {
        let mut message = encode_query(7, "a.example", RecordType::A).unwrap();
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
    fn all_addresses_of_a_response_are_returned_and_aliases_are_skipped() {
        let mapped: Ipv6Addr = "::ffff:10.0.0.1".parse().unwrap();
        let message = response(
            &[(5, &[1, b'b', 0]), (1, &[8, 8, 8, 8]), (28, &mapped.octets())],
            [0x81, 0x80],
        );
        let expected = vec![IpAddr::from([8, 8, 8, 8]), mapped.into()];
        assert_eq!(
            parse_response(&message),
            Some(DnsResponse { is_truncated: false, addresses: expected })
        );
        assert!(is_response_to(
            &message,
            &encode_query(7, "A.example.", RecordType::A).unwrap(),
            7
        ));
    }

    #[test]
    fn malformed_and_mismatched_responses_are_discarded() {
        let good = response(&[(1, &[8, 8, 8, 8])], [0x81, 0x80]);
        for end in 0..good.len() {
            assert_eq!(parse_response(&good[..end]), None, "{end}");
        }
        assert_eq!(parse_response(&response(&[(1, &[8, 8, 8])], [0x81, 0x80])), None);
        assert_eq!(parse_response(&response(&[], [0x81, 0x82])), None, "the server failed");
        assert_eq!(
            parse_response(&response(&[], [0x81, 0x83])).unwrap().addresses,
            [] as [IpAddr; 0]
        );
        assert!(
            parse_response(&response(&[(1, &[8, 8, 8, 8])], [0x83, 0x80])).unwrap().is_truncated
        );
        let asked = encode_query(7, "a.example", RecordType::A).unwrap();
        assert!(!is_response_to(&good, &asked, 8), "another id");
        assert!(
            !is_response_to(&good, &encode_query(7, "b.example", RecordType::A).unwrap(), 7),
            "another name"
        );
        assert!(
            !is_response_to(&good, &encode_query(7, "a.example", RecordType::Aaaa).unwrap(), 7),
            "another type"
        );
        assert!(!is_response_to(&asked, &asked, 7), "a query");
    }

    #[test]
    fn invalid_names_are_not_queried() {
        for name in ["", ".", "a..b", &"a".repeat(64), &"a.".repeat(128)] {
            assert_eq!(encode_query(1, name, RecordType::A), None, "{name}");
        }
    }
}
