//! Requests of HTTP actions and their history messages.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kalends_actions::{
    AttemptRequest, ExecutorSettings, Signer, SigningKeyVersions, idempotency_key,
};
use kalends_domain::{ActionRole, Cause, HttpAuthentication, Outcome, Secret, Signing};
use ring::hmac;

use crate::harness::{
    OK, Sink, attempt, collection, execute, executor, get, has_succeeded, header, headers, open,
    post, request, with_settings,
};

#[tokio::test]
async fn a_request_has_the_headers_of_the_job_and_the_scheduler() {
    let mut sink = Sink::responding(|_| OK.into()).await;
    let mut sent = post(&sink.uri("/p%2f?q=%20&r"), "hello");
    sent.headers = headers(&[("ConTent-tYPe", "text/plain"), ("X-Mine", "a\tb")]);
    let attempt = attempt(sent);
    let key = idempotency_key(&attempt);
    let report = execute(&executor(open()), attempt).await;
    assert!(has_succeeded(&report), "{}", report.message);
    let (_, request) = sink.next().await;
    assert!(request.starts_with("POST /p%2f?q=%20&r HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
    assert!(request.contains("\r\nConTent-tYPe: text/plain\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\nhello"), "{request}");
    for (name, value) in [
        ("x-mine", "a\tb"),
        ("content-length", "5"),
        ("x-ms-scheduler-jobid", "j"),
        ("x-ms-scheduler-jobcollection", "jc"),
        ("x-ms-scheduler-region", "West US"),
        ("x-ms-scheduler-expected-execution-time", "2026-11-15T12:00:00Z"),
        ("x-ms-execution-tag", &key),
        ("idempotency-key", &key),
        ("accept-encoding", "identity"),
    ] {
        assert_eq!(header(&request, name), Some(value), "{name}");
    }
    assert_eq!(header(&request, "x-ms-client-request-id").map(str::len), Some(36));
    let trace: Vec<_> = header(&request, "traceparent").unwrap().split('-').collect();
    assert_eq!((trace[0], trace[1], trace[2].len(), trace[3]), ("00", key.as_str(), 16, "01"));
    assert_eq!(header(&request, "webhook-signature"), None);
}

#[test]
fn an_idempotency_key_is_unique_to_an_occurrence_role_and_cause() {
    let scheduled = attempt(request("http://example.com"));
    let key = idempotency_key(&scheduled);
    let retried = AttemptRequest { retry: 3, ..scheduled };
    assert_eq!(idempotency_key(&retried), key, "all attempts share it");
    let others = [
        AttemptRequest { cause: Cause::Manual, ..scheduled },
        AttemptRequest { role: ActionRole::Error, ..scheduled },
        AttemptRequest { role: ActionRole::Error, cause: Cause::Manual, ..scheduled },
        AttemptRequest { generation: 2, ..scheduled },
        AttemptRequest { uid: [2; 16], ..scheduled },
        AttemptRequest { scheduled: "2026-11-15T12:00:00.0000001Z".parse().unwrap(), ..scheduled },
    ];
    let keys: BTreeSet<_> = others.iter().map(idempotency_key).chain([key]).collect();
    assert_eq!(keys.len(), 7);
}

#[tokio::test]
async fn history_messages_have_the_wording_of_the_retired_service() {
    let body = "ä".repeat(2_000);
    let answer = format!(
        "HTTP/1.1 404 Nope\r\nX-One: 1\r\nSet-Thing: a\r\nContent-Type: text/plain\r\nset-thing: b\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let sink = Sink::responding(move |_| answer.clone()).await;
    let report = get(&executor(open()), &sink.uri("/")).await;
    let shown = "ä".repeat(1_024);
    assert_eq!(
        report.message,
        format!(
            "Http Action - Response from host '127.0.0.1': 'NotFound' Response Headers: X-One: 1\r\nSet-Thing: a, b\r\n Body: {shown}"
        )
    );
    assert_eq!(report.outcome, Outcome::Failed { retry_after: None });
}

#[tokio::test]
async fn retry_after_of_a_busy_target_is_reported() {
    let seconds = |seconds| Outcome::Failed { retry_after: Some(Duration::from_secs(seconds)) };
    for (status, value, expected) in [
        (503, "120", seconds(120)),
        (429, "Sun, 06 Nov 1994 08:49:37 GMT", seconds(0)),
        (500, "120", Outcome::Failed { retry_after: None }),
        (503, "soon", Outcome::Failed { retry_after: None }),
    ] {
        let answer =
            format!("HTTP/1.1 {status} Busy\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n");
        let sink = Sink::responding(move |_| answer.clone()).await;
        assert_eq!(get(&executor(open()), &sink.uri("/")).await.outcome, expected, "{value}");
    }
}

#[tokio::test]
async fn secrets_that_a_target_echoes_are_not_in_history() {
    let mut sink = Sink::responding(|request| {
        format!("HTTP/1.1 200 OK\r\nX-Echo: {}\r\nAuthorization: canary-echo\r\nContent-Length: {}\r\n\r\n{request}",
            header(request, "authorization").unwrap(), request.len())
    })
    .await;
    let mut sent = request(&sink.uri("/?sig=canary%2bsig&code=canarycode"));
    sent.headers = headers(&[("Cookie", "session=canary-cookie"), ("X-Api-Key", "canary-key")]);
    sent.authentication = Some(Box::new(HttpAuthentication::Basic {
        username: Some("user".into()),
        password: Some(Secret::new("canary-password".into())),
    }));
    let report = execute(&executor(open()), attempt(sent)).await;
    assert!(has_succeeded(&report), "{}", report.message);
    let (_, request) = sink.next().await;
    let pair = STANDARD.encode("user:canary-password");
    assert_eq!(header(&request, "authorization"), Some(format!("Basic {pair}").as_str()));
    assert!(request.contains("canary-cookie"));
    let shown = &report.message;
    assert!(!shown.contains("canary") && !shown.contains(&pair), "{shown}");
    assert!(shown.contains("[masked]") && shown.contains("x-ms-scheduler-jobid"), "{shown}");
}

#[tokio::test]
async fn session_cookies_of_a_response_are_not_in_history() {
    let answer = "HTTP/1.1 200 OK\r\nset-cookie: session=canary; HttpOnly\r\n\
                  Set-Cookie: csrf=canary\r\nServer: x\r\nContent-Length: 0\r\n\r\n";
    let sink = Sink::responding(|_| answer.into()).await;
    let shown = get(&executor(open()), &sink.uri("/")).await.message;
    assert!(!shown.contains("canary") && shown.contains("Server: x"), "{shown}");
    assert!(shown.contains("Set-Cookie: [masked], [masked]\r\n"), "{shown}");
}

#[tokio::test]
async fn incomplete_credentials_fail_the_attempt_without_a_request() {
    let mut sink = Sink::responding(|_| OK.into()).await;
    for authentication in [
        HttpAuthentication::Basic { username: Some("user".into()), password: None },
        HttpAuthentication::ClientCertificate { pfx: None, password: None, certificate: None },
    ] {
        let mut sent = request(&sink.uri("/").replace("http:", "https:"));
        sent.authentication = Some(Box::new(authentication));
        let report = execute(&executor(open()), attempt(sent)).await;
        assert!(report.message.contains("for its authentication"), "{}", report.message);
    }
    assert!(sink.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_signed_request_can_be_verified_with_either_key() {
    let mut sink = Sink::responding(|_| OK.into()).await;
    let signer = Signer::new(&[7; 32], SigningKeyVersions::all(3));
    let keys = signer.keys(&collection("jc")).map(|key| key.reveal().to_string());
    let settings =
        ExecutorSettings { egress: open(), signer: Some(signer), ..ExecutorSettings::default() };
    let mut signed = attempt(post(&sink.uri("/"), "hello"));
    signed.signing = Signing::On;
    let id = idempotency_key(&signed);
    let report = execute(&with_settings(settings), signed).await;
    assert!(has_succeeded(&report), "{}", report.message);
    let (_, request) = sink.next().await;
    assert_eq!(header(&request, "webhook-id"), Some(id.as_str()));
    let timestamp = header(&request, "webhook-timestamp").unwrap();
    assert!(timestamp.parse::<i64>().unwrap() > 1_700_000_000);
    let signatures: Vec<_> = header(&request, "webhook-signature").unwrap().split(' ').collect();
    assert_eq!(signatures.len(), 2);
    for (key, signature) in keys.iter().zip(signatures) {
        let key = STANDARD.decode(key.strip_prefix("whsec_").unwrap()).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let expected = hmac::sign(&key, format!("{id}.{timestamp}.hello").as_bytes());
        assert_eq!(signature, format!("v1,{}", STANDARD.encode(expected)));
    }
}
