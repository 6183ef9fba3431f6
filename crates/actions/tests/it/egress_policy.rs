//! The egress policy with host names: internal addresses, DNS rebinding, proxies.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kalends_actions::{EgressSettings, Proxy};
use kalends_domain::{EgressDenial, ForbiddenEndpoint, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::harness::{OK, Sink, executor, get, guarded, has_succeeded, open, read_request};

/// The addresses of a name, depending on the number of earlier queries.
type Zone = Arc<dyn Fn(&str, usize) -> Vec<IpAddr> + Send + Sync>;

/// A DNS server. Unknown names do not exist.
async fn name_server(
    zone: impl Fn(&str, usize) -> Vec<IpAddr> + Send + Sync + 'static,
) -> SocketAddr {
    let zone: Zone = Arc::new(zone);
    // The same port for UDP and TCP: truncated responses are repeated over TCP.
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            break (udp, tcp);
        }
    };
    let address = udp.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let over_udp = (zone.clone(), asked.clone());
    tokio::spawn(async move {
        let mut bytes = [0; 512];
        loop {
            let (length, from) = udp.recv_from(&mut bytes).await.unwrap();
            let mut answer = answer(&bytes[..length], &over_udp.0, &over_udp.1);
            if answer.len() > 512 {
                answer.truncate(length);
                answer[2] |= 0x02;
                answer[6..8].copy_from_slice(&[0, 0]);
            }
            udp.send_to(&answer, from).await.unwrap();
        }
    });
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = tcp.accept().await.unwrap();
            let length = stream.read_u16().await.unwrap();
            let mut bytes = vec![0; usize::from(length)];
            stream.read_exact(&mut bytes).await.unwrap();
            let answer = answer(&bytes, &zone, &asked);
            stream.write_u16(u16::try_from(answer.len()).unwrap()).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        }
    });
    address
}

fn answer(question: &[u8], zone: &Zone, asked: &AtomicUsize) -> Vec<u8> {
    let mut labels = Vec::new();
    let mut at = 12;
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8(question[at + 1..end].to_vec()).unwrap());
        at = end;
    }
    let name = labels.join(".");
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    let turn = match kind {
        1 => asked.fetch_add(1, Ordering::SeqCst),
        _ => asked.load(Ordering::SeqCst).saturating_sub(1),
    };
    let addresses = zone(&name, turn);
    let is_asked_for = |address: &&IpAddr| address.is_ipv4() == (kind == 1);
    let mut answer = question[..at + 5].to_vec();
    answer[2] = 0x81;
    answer[3] = if addresses.is_empty() { 0x83 } else { 0x80 };
    let mut count: u16 = 0;
    // The name is an alias of the name with the addresses.
    let mut put = |kind: u16, data: &[u8], owner: [u8; 2]| {
        answer.extend_from_slice(&owner);
        answer.extend_from_slice(&kind.to_be_bytes());
        answer.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
        answer.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
        answer.extend_from_slice(data);
        count += 1;
    };
    if name.starts_with("alias.") {
        put(5, b"\x08internal\x04corp\0", [0xc0, 12]);
    }
    for address in addresses.iter().filter(is_asked_for) {
        match address {
            IpAddr::V4(v4) => put(1, &v4.octets(), [0xc0, 12]),
            IpAddr::V6(v6) => put(28, &v6.octets(), [0xc0, 12]),
        }
    }
    answer[6..8].copy_from_slice(&count.to_be_bytes());
    answer
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// An allowed target at 127.0.0.2, a denied one on the same port of 127.0.0.1, and the settings.
async fn outside_and_inside(name_server: SocketAddr) -> (Sink, Sink, EgressSettings) {
    loop {
        let outside = Sink::responding_at("127.0.0.2:0", |_| OK.into()).await;
        let inside = format!("127.0.0.1:{}", outside.address.port());
        if TcpListener::bind(&inside).await.is_err() {
            continue;
        }
        let inside = Sink::responding_at(&inside, |_| OK.into()).await;
        let mut settings = guarded(&["127.0.0.2".into()]);
        settings.name_servers = vec![name_server];
        return (outside, inside, settings);
    }
}

#[tokio::test]
async fn names_with_internal_addresses_are_denied_without_a_connection() {
    let server = name_server(|name, _| match name {
        "inside.test" | "alias.test" => vec![ip("127.0.0.1")],
        "both.test" => vec![ip("127.0.0.2"), ip("127.0.0.1")],
        "mapped.test" => vec![ip("127.0.0.2"), ip("::ffff:127.0.0.1")],
        "six.test" => vec![ip("127.0.0.2"), ip("::1")],
        "metadata.test" => vec![ip("169.254.169.254")],
        "many.test" => (0..101).map(|_| ip("127.0.0.2")).collect(),
        "good.test" => vec![ip("127.0.0.2")],
        "most.test" => (0..100).map(|_| ip("127.0.0.2")).collect(),
        _ => vec![],
    })
    .await;
    let (outside, mut inside, settings) = outside_and_inside(server).await;
    let port = outside.address.port();
    let executor = executor(settings);
    for name in ["inside", "alias", "both", "mapped", "six", "metadata", "many"] {
        let report = get(&executor, &format!("http://{name}.test:{port}/")).await;
        assert_eq!(report.outcome, Outcome::Failed { retry_after: None }, "{name}");
        assert!(report.message.contains("failed: EgressDenied"), "{name}: {}", report.message);
    }
    for name in ["good", "most"] {
        let report = get(&executor, &format!("http://{name}.test:{port}/")).await;
        assert!(has_succeeded(&report), "{name}: {}", report.message);
        assert!(report.timing.dns.is_some() || report.timing.connect.is_none());
    }
    let nowhere = get(&executor, &format!("http://nowhere.test:{port}/")).await;
    let words =
        "failed: NameResolutionFailure The remote name could not be resolved: 'nowhere.test'";
    assert!(nowhere.message.contains(words), "{}", nowhere.message);
    assert!(inside.requests.try_recv().is_err(), "the internal target got no request");
}

#[tokio::test]
async fn dns_rebinding_cannot_bypass_the_policy() {
    // Every response differs from the one before and has a TTL of zero.
    let server =
        name_server(|_, turn| vec![if turn % 2 == 0 { ip("127.0.0.2") } else { ip("127.0.0.1") }])
            .await;
    for _ in 0..5 {
        let (mut outside, mut inside, settings) = outside_and_inside(server).await;
        for _ in 0..2 {
            // A new executor has an empty DNS cache.
            let executor = executor(settings.clone());
            let report =
                get(&executor, &format!("http://rebind.test:{}/", outside.address.port())).await;
            match report.outcome {
                Outcome::Succeeded => assert!(outside.requests.try_recv().is_ok()),
                _ => assert!(report.message.contains("EgressDenied"), "{}", report.message),
            }
        }
        assert!(inside.requests.try_recv().is_err(), "the internal target got no request");
    }
}

#[tokio::test]
async fn every_spelling_of_this_machine_is_denied_without_a_connection() {
    let mut inside = Sink::responding(|_| OK.into()).await;
    let port = inside.address.port();
    let executor = executor(guarded(&[]));
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "169.254.169.254",
        "metadata.google.internal",
    ] {
        let report = get(&executor, &format!("http://{host}:{port}/")).await;
        assert!(report.message.contains("failed: EgressDenied"), "{host}: {}", report.message);
    }
    assert!(inside.requests.try_recv().is_err(), "the internal target got no request");
}

#[tokio::test]
async fn jobs_cannot_reach_the_server_itself_in_single_user_mode() {
    let mut own = Sink::responding(|_| OK.into()).await;
    let mut settings = open();
    settings.policy.forbidden = vec![ForbiddenEndpoint::OwnPort(own.address.port())];
    let executor = executor(settings);
    for host in ["127.0.0.1", "localhost"] {
        let report = get(&executor, &format!("http://{host}:{}/", own.address.port())).await;
        let words = EgressDenial::OwnService.to_string();
        assert!(report.message.contains(&words), "{}", report.message);
    }
    assert!(own.requests.try_recv().is_err());
}

#[tokio::test]
async fn the_next_address_is_tried_if_the_first_refuses_the_connection() {
    let server = name_server(|_, _| vec![ip("127.0.0.3"), ip("127.0.0.2")]).await;
    let outside = Sink::responding_at("127.0.0.2:0", |_| OK.into()).await;
    let mut settings = guarded(&["127.0.0.2".into(), "127.0.0.3".into()]);
    settings.name_servers = vec![server];
    let report =
        get(&executor(settings), &format!("http://two.test:{}/", outside.address.port())).await;
    assert!(has_succeeded(&report), "{}", report.message);
}

#[tokio::test]
async fn a_silent_dns_server_fails_name_resolution() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut settings = guarded(&[]);
    settings.name_servers = vec![silent.local_addr().unwrap()];
    let report = get(&executor(settings), "http://example.test/").await;
    assert!(report.message.contains("NameResolutionFailure"), "{}", report.message);
}

/// A proxy that opens tunnels and reports the CONNECT requests.
async fn proxy() -> Sink {
    Sink::start("127.0.0.1:0", |mut stream, number, requests| async move {
        let Some(request) = read_request(&mut stream).await else { return };
        let to = request.split(' ').nth(1).unwrap().to_owned();
        let _ = requests.send((number, request));
        let mut there = TcpStream::connect(to).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
        let _ = copy_bidirectional(&mut stream, &mut there).await;
    })
    .await
}

#[tokio::test]
async fn a_proxy_gets_the_checked_address() {
    let server = name_server(|name, _| match name {
        "good.test" => vec![ip("127.0.0.2")],
        _ => vec![ip("127.0.0.1")],
    })
    .await;
    let (mut outside, mut inside, mut settings) = outside_and_inside(server).await;
    let mut proxy = proxy().await;
    settings.proxy = Some(Proxy { host: "127.0.0.1".into(), port: proxy.address.port() });
    let executor = executor(settings);
    let port = outside.address.port();
    let report = get(&executor, &format!("http://good.test:{port}/")).await;
    assert!(has_succeeded(&report), "{}", report.message);
    let (_, asked) = proxy.next().await;
    assert!(asked.starts_with(&format!("CONNECT 127.0.0.2:{port} HTTP/1.1\r\n")), "{asked}");
    let (_, request) = outside.next().await;
    assert!(request.contains(&format!("Host: good.test:{port}\r\n")), "{request}");
    let report = get(&executor, &format!("http://bad.test:{port}/")).await;
    assert!(report.message.contains("EgressDenied"), "{}", report.message);
    assert!(inside.requests.try_recv().is_err() && proxy.requests.try_recv().is_err());
}
