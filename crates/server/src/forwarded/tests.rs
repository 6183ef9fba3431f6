use http::HeaderValue;

use super::*;

const PROXY: &str = "10.0.0.1";

/// Client, scheme and host of a request that 10.0.0.1 passes on.
fn read(headers: &[(&'static str, &str)]) -> (String, &'static str, Option<String>) {
    let networks = ["10.0.0.0/8", "fd00::/8"].map(|text| Network::parse(text).unwrap());
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    let proxies = TrustedProxies::new(networks.to_vec());
    let source = RequestSource::read(&proxies, PROXY.parse().unwrap(), Scheme::Http, &map);
    (source.client.0.to_string(), source.scheme.as_str(), source.host)
}

fn client(header: &'static str, value: &str) -> String {
    read(&[(header, value)]).0
}

#[test]
fn the_client_is_the_last_address_that_is_no_trusted_proxy() {
    for (chain, expected) in [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:4711", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:80", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("192.0.2.66, 192.0.2.1", "192.0.2.1"),
        ("192.0.2.66, 192.0.2.1, 10.0.0.9, fd00::1", "192.0.2.1"),
        ("10.0.0.7, 10.0.0.9", "10.0.0.7"),
        ("192.0.2.66, garbage, 10.0.0.9", "10.0.0.9"),
        ("192.0.2.66,, 10.0.0.9", "10.0.0.9"),
        ("garbage, 192.0.2.1", "192.0.2.1"),
        ("garbage", PROXY),
        ("", PROXY),
        ("192.0.2.1 10.0.0.9", PROXY),
    ] {
        assert_eq!(client("x-forwarded-for", chain), expected, "{chain}");
    }
}

#[test]
fn forwarded_is_parsed_with_its_quotes() {
    for (chain, expected) in [
        ("for=192.0.2.1", "192.0.2.1"),
        ("For=\"192.0.2.1:80\"", "192.0.2.1"),
        ("for=\"[2001:db8::1]:80\";by=x", "2001:db8::1"),
        ("for=192.0.2.66,for=192.0.2.1;proto=http , for=10.0.0.9", "192.0.2.1"),
        ("for=192.0.2.66;x=\"a,b;\\\"c\", for=192.0.2.1", "192.0.2.1"),
        ("for=\"_hidden\", for=10.0.0.9", "10.0.0.9"),
        ("for=unknown", PROXY),
        ("for=192.0.2.1;for=192.0.2.2", PROXY),
        ("for=192.0.2.1;;proto=http", PROXY),
        ("for=\"192.0.2.1", PROXY),
        ("for=192.0.2.1 for=192.0.2.2", PROXY),
        ("=192.0.2.1", PROXY),
        ("for=", PROXY),
        (",", PROXY),
        ("x=\"\\", PROXY),
    ] {
        assert_eq!(client("forwarded", chain), expected, "{chain}");
    }
    // A proxy adds a line of its own to one that the client has left open.
    let lines = [("forwarded", "x=\""), ("forwarded", "for=192.0.2.1")];
    assert_eq!(read(&lines).0, "192.0.2.1");
}

#[test]
fn scheme_and_host_are_those_of_the_proxy_that_the_client_contacted() {
    let check = |proto: &str, host: &str, scheme: &str, expected: Option<&str>| {
        let headers = [
            ("x-forwarded-for", "192.0.2.66, 192.0.2.1, 10.0.0.9"),
            ("x-forwarded-proto", proto),
            ("x-forwarded-host", host),
        ];
        let found = read(&headers);
        assert_eq!((found.1, found.2.as_deref()), (scheme, expected), "{proto} {host}");
    };
    check("https", "a.test", "https", Some("a.test"));
    check("https, http", "a.test, b.test", "https", Some("a.test"));
    check("ftp, https, http", "evil.test, a.test, b.test", "https", Some("a.test"));
    check("wss", "a.test:0x1", "http", None);
    check("HTTPS", "[::1]:8443", "https", Some("[::1]:8443"));
    for host in ["", "a b", "a/b", "a@b", "a?b", "a:65536", "a:", "a:+1", "[a]", "[::1", "a\\b"] {
        check("http", host, "http", None);
    }
}

#[test]
fn contradicting_headers_are_ignored() {
    let x = ("x-forwarded-for", "192.0.2.1");
    assert_eq!(read(&[("forwarded", "for=192.0.2.2"), x]).0, PROXY);
    assert_eq!(read(&[("forwarded", "for=192.0.2.1"), x]).0, "192.0.2.1");
}

#[test]
fn other_peers_are_not_believed() {
    let mut headers = HeaderMap::new();
    headers.insert(FORWARDED_FOR, HeaderValue::from_static("192.0.2.1"));
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
    let peer = "192.0.2.9".parse().unwrap();
    let trusted = TrustedProxies::new(vec![Network::parse("10.0.0.0/8").unwrap()]);
    for proxies in [trusted, TrustedProxies::default()] {
        let source = RequestSource::read(&proxies, peer, Scheme::Http, &headers);
        assert_eq!((source.client, source.scheme), (Client(peer), Scheme::Http));
    }
}
