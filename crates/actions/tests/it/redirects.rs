//! Redirects: followed if that is safe, otherwise refused with a reason.

use kalends_domain::{HttpAuthentication, Outcome, Secret};

use crate::harness::{
    OK, Sink, attempt, execute, executor, get, guarded, has_succeeded, header, headers, open, post,
    request,
};

fn to(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn redirects_within_one_origin_are_followed() {
    let mut sink = Sink::responding(|request| match request {
        first if first.starts_with("POST /a ") => to(307, "/b?x=1"),
        second if second.starts_with("POST /b?x=1 ") => to(303, "c"),
        _ => OK.into(),
    })
    .await;
    let mut sent = post(&sink.uri("/a"), "body");
    sent.headers = headers(&[("Authorization", "Bearer canary"), ("Content-Type", "text/plain")]);
    let report = execute(&executor(open()), attempt(sent)).await;
    assert!(has_succeeded(&report), "{}", report.message);
    sink.next().await;
    let (_, second) = sink.next().await;
    assert!(second.ends_with("\r\n\r\nbody") && header(&second, "authorization").is_some());
    let (_, third) = sink.next().await;
    assert!(third.starts_with("GET /c HTTP/1.1\r\n"), "{third}");
    assert_eq!(header(&third, "authorization"), Some("Bearer canary"));
    assert_eq!(header(&third, "content-type"), None, "the redirected request has no body");
    assert!(header(&third, "x-ms-execution-tag").is_some());
}

#[tokio::test]
async fn secrets_are_not_sent_to_another_origin() {
    let mut second = Sink::responding(|_| OK.into()).await;
    let there = second.uri("/there");
    let first = Sink::responding(move |_| to(302, &there)).await;
    let mut sent = post(&first.uri("/"), "body");
    sent.headers = headers(&[
        ("Cookie", "canary-cookie"),
        ("X-Api-Key", "canary-key"),
        ("X-Token", "canary-token"),
        ("X-Customer", "canary-customer"),
        ("Referer", "https://canary.example.com/"),
        ("Accept", "text/plain"),
        ("Accept-Language", "de"),
        ("User-Agent", "nightly/1"),
        ("Cache-Control", "canary-configured"),
    ]);
    sent.authentication = Some(Box::new(HttpAuthentication::Basic {
        username: Some("user".into()),
        password: Some(Secret::new("canary-password".into())),
    }));
    let settings = kalends_actions::ExecutorSettings {
        egress: open(),
        secret_headers: kalends_domain::SecretHeaders::new([
            "X-Token".into(),
            "cache-control".into(),
        ]),
        ..Default::default()
    };
    let report = execute(&crate::harness::with_settings(settings), attempt(sent)).await;
    assert!(has_succeeded(&report), "{}", report.message);
    let (_, request) = second.next().await;
    assert!(request.starts_with("GET /there "), "{request}");
    for lost in ["authorization", "cookie", "x-api-key", "x-token"] {
        assert_eq!(header(&request, lost), None, "{lost}");
    }
    assert!(!request.contains("canary"), "{request}");
    for (kept, value) in
        [("accept", "text/plain"), ("accept-language", "de"), ("user-agent", "nightly/1")]
    {
        assert_eq!(header(&request, kept), Some(value), "{kept}");
    }
    for own in ["x-ms-scheduler-jobid", "x-ms-execution-tag", "idempotency-key", "traceparent"] {
        assert!(header(&request, own).is_some(), "{own}");
    }
}

#[tokio::test]
async fn redirects_that_could_leak_or_mislead_are_refused_with_a_reason() {
    let mut other = Sink::responding(|_| OK.into()).await;
    let elsewhere = other.uri("/");
    for (status, location, reason) in [
        (307, elsewhere.as_str(), "send the body to another origin"),
        (308, elsewhere.as_str(), "send the body to another origin"),
        (302, "file:///etc/passwd", "must have the scheme http or https"),
        (302, "gopher://x/", "must have the scheme http or https"),
        (302, "http://user:pw@127.0.0.1/", "must not contain a user name or password"),
        (302, "http://127.0.0.1:0/", "must have a port between 1 and 65535"),
        (302, "/", "more than 10 redirects"),
        (302, "http://169.254.169.254/latest/meta-data/", "EgressDenied"),
        (302, "http://[::ffff:169.254.169.254]/", "EgressDenied"),
    ] {
        let answer = to(status, location);
        let sink = Sink::responding(move |_| answer.clone()).await;
        let report = execute(&executor(open()), attempt(post(&sink.uri("/"), "canary"))).await;
        assert_eq!(report.outcome, Outcome::Failed { retry_after: None }, "{location}");
        assert!(report.message.contains(reason), "{location}: {}", report.message);
        assert!(!report.message.contains("user:pw"), "{}", report.message);
    }
    assert!(other.requests.try_recv().is_err(), "nothing leaked to the second host");
}

#[tokio::test]
async fn ten_redirects_are_followed_and_the_eleventh_is_not() {
    let sink = Sink::responding(|request| {
        let left: usize = request[5..].split(' ').next().unwrap().parse().unwrap();
        if left == 0 { OK.into() } else { to(302, &format!("/{}", left - 1)) }
    })
    .await;
    let executor = executor(open());
    assert!(has_succeeded(&get(&executor, &sink.uri("/10")).await));
    let report = get(&executor, &sink.uri("/11")).await;
    assert!(report.message.contains("RedirectRefused more than 10"), "{}", report.message);
}

#[tokio::test]
async fn a_redirect_to_this_machine_is_refused_without_a_connection() {
    let mut inside = Sink::responding(|_| OK.into()).await;
    let port = inside.address.port();
    for host in ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:7f00:1]", "[::1]", "127.0.0.3"] {
        let location = format!("http://{host}:{port}/");
        let outside = Sink::responding_at("127.0.0.2:0", move |_| to(302, &location)).await;
        let executor = executor(guarded(&["127.0.0.2".into()]));
        let report = execute(&executor, attempt(request(&outside.uri("/")))).await;
        assert!(report.message.contains("EgressDenied"), "{host}: {}", report.message);
    }
    assert!(inside.requests.try_recv().is_err());
}
