//! Stored secrets and edits: a secret stays with the origin that it was given for.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::target::{STANDARD, TIMEOUT, get, history, path, start, start_with, target, wait_for};
use crate::test_server::TestServer;
use crate::tokens::{self, collection, create, guarded, new, request_as};

const OLD_VERSION: &str = "2016-03-01";

fn old(target: &str) -> String {
    target.replace("2026-11-01", OLD_VERSION)
}

/// A job that runs only on request.
fn disabled(action: Value) -> Value {
    json!({"properties": {
        "state": "Disabled",
        "recurrence": {"frequency": "Day", "interval": 1},
        "action": action,
    }})
}

fn http(uri: &str, authentication: Value) -> Value {
    let request = json!({"uri": uri, "method": "GET", "authentication": authentication});
    json!({"type": "Http", "request": request, "retryPolicy": {"retryType": "None"}})
}

fn basic(password: &str) -> Value {
    json!({"type": "Basic", "username": "user", "password": password})
}

fn oauth(tenant: &str, secret: &str) -> Value {
    json!({"type": "ActiveDirectoryOAuth", "tenant": tenant, "clientId": "client",
        "audience": "https://api.example.com/", "secret": secret})
}

fn storage(account: &str, token: &str) -> Value {
    json!({"type": "StorageQueue", "queueMessage": {
        "storageAccount": account, "queueName": "queue1", "sasToken": token, "message": "m"}})
}

fn service_bus(namespace: &str, key: &str) -> Value {
    json!({"type": "ServiceBusQueue", "serviceBusQueueMessage": {
        "namespace": namespace, "queueName": "queue1", "message": "m", "transportType": "AMQP",
        "authentication": {"type": "SharedAccessKey", "sasKeyName": "name", "sasKey": key}}})
}

/// A server that runs no jobs, with a collection.
fn holding() -> (TestServer, Connection) {
    let server = TestServer::start();
    let mut connection = server.connect();
    assert_eq!(connection.request("PUT", &path(""), Some(STANDARD)).status, 201);
    (server, connection)
}

/// Sends a request and returns the status, the code and the target of its error.
fn send(connection: &mut Connection, method: &str, target: &str, body: &Value) -> (u16, String) {
    let response = connection.request(method, target, Some(&body.to_string()));
    let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let part = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
    (response.status, format!("{} {}", part("code"), part("target")).trim().to_owned())
}

fn put(connection: &mut Connection, name: &str, job: &Value) -> (u16, String) {
    send(connection, "PUT", &path(&format!("/jobs/{name}")), job)
}

#[test]
fn a_patch_to_another_host_does_not_take_the_password_along() {
    let (trusted, trusted_calls) = target();
    let (attacker, attacker_calls) = target();
    let (_server, mut connection) = start();
    let job = disabled(http(&format!("http://{trusted}/"), basic("canary")));
    assert_eq!(put(&mut connection, "j", &job).0, 201);
    let moved = json!({"properties": {"action": {"request": {
        "uri": format!("http://{attacker}/")}}}});
    let password = "properties.action.request.authentication.password";
    let new = path("/jobs/j");
    let refused = send(&mut connection, "PATCH", &new, &moved);
    assert_eq!(refused, (400, format!("MissingSecret {password}")));
    let response = connection.request("PATCH", &old(&new), Some(&moved.to_string()));
    assert_eq!(response.status, 400, "{response:?}");
    let error: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(error["error"]["code"], "BadRequest");
    assert!(error["error"]["message"].as_str().unwrap().contains(password), "{error}");

    assert_eq!(connection.request("POST", &path("/jobs/j/run"), None).status, 200);
    let call = trusted_calls.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(call.headers["authorization"], "Basic dXNlcjpjYW5hcnk=", "user:canary");
    assert!(attacker_calls.try_recv().is_err());

    // With a password of its own the job may move, in both version families.
    let own = json!({"properties": {"action": {"request": {
        "uri": format!("http://{attacker}/"), "authentication": {"password": "other"}}}}});
    for version in [old(&new), new.clone()] {
        assert_eq!(send(&mut connection, "PATCH", &version, &own).0, 200, "{version}");
    }
    assert_eq!(connection.request("POST", &path("/jobs/j/run"), None).status, 200);
    let call = attacker_calls.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(call.headers["authorization"], "Basic dXNlcjpvdGhlcg==", "user:other");
}

/// For each kind of secret: a definition, a patch that changes the recipient, one that does not, and
/// the path of the secret below the action.
fn recipients() -> Vec<(Value, Value, Value, &'static str)> {
    let a = "https://a.example.com/x";
    let request = |request: Value| json!({"request": request});
    let with_header = json!({"type": "Http", "request": {
        "uri": a, "method": "GET", "headers": {"x-api-key": "canary", "Accept": "*/*"}}});
    let password = "request.authentication.password";
    let secret = "request.authentication.secret";
    let (token, key) = ("queueMessage.sasToken", "serviceBusQueueMessage.authentication.sasKey");
    vec![
        (
            http(a, basic("canary")),
            request(json!({"uri": "http://a.example.com/x"})),
            request(json!({"uri": "https://A.example.com:443/y"})),
            password,
        ),
        (
            http(a, basic("canary")),
            request(json!({"uri": "https://a.example.com:444/x"})),
            request(json!({"authentication": {"username": "other"}})),
            password,
        ),
        (
            http(a, oauth("contoso.com", "canary")),
            request(json!({"uri": "https://b.example.com/x"})),
            request(json!({"authentication": {"clientId": "other"}})),
            secret,
        ),
        (
            http(a, oauth("contoso.com", "canary")),
            request(json!({"authentication": {"tenant": "evil.example.com"}})),
            request(json!({"authentication": {"tenant": "CONTOSO.com"}})),
            secret,
        ),
        (
            storage("account1", "canary"),
            json!({"queueMessage": {"storageAccount": "account2"}}),
            json!({"queueMessage": {"storageAccount": "ACCOUNT1", "queueName": "queue2"}}),
            token,
        ),
        (
            service_bus("namespace-1", "canary"),
            json!({"serviceBusQueueMessage": {"namespace": "namespace-2"}}),
            json!({"serviceBusQueueMessage": {"namespace": "Namespace-1", "queueName": "other"}}),
            key,
        ),
        (
            with_header,
            request(json!({"uri": "https://b.example.com/x"})),
            request(json!({"uri": "https://a.example.com/y"})),
            "request.headers.x-api-key",
        ),
    ]
}

#[test]
fn every_secret_of_each_action_stays_with_its_recipient() {
    let (_server, mut connection) = holding();
    let quiet = http("https://quiet.example.com/", Value::Null);
    for (number, (action, moving, staying, secret)) in recipients().into_iter().enumerate() {
        for is_error in [false, true] {
            let place = |value: &Value| match is_error {
                false => value.clone(),
                true => json!({"errorAction": value}),
            };
            let mut main = if is_error { quiet.clone() } else { action.clone() };
            if is_error {
                main["errorAction"] = action.clone();
            }
            let name = format!("j{number}");
            assert!(matches!(put(&mut connection, &name, &disabled(main)).0, 200 | 201));
            let target = path(&format!("/jobs/{name}"));
            let before = connection.request("GET", &target, None).body;
            let context = format!("{action} {moving} {is_error}");
            let patch = |change: &Value| json!({"properties": {"action": place(change)}});
            let below = if is_error { ".errorAction" } else { "" };
            let refused = send(&mut connection, "PATCH", &target, &patch(&moving));
            let expected = format!("MissingSecret properties.action{below}.{secret}");
            assert_eq!(refused, (400, expected), "{context}");
            let refused = send(&mut connection, "PATCH", &old(&target), &patch(&moving));
            assert_eq!(refused, (400, "BadRequest".to_owned()), "{context}");
            assert_eq!(connection.request("GET", &target, None).body, before, "{context}");
            for target in [&target, &old(&target)] {
                let kept = send(&mut connection, "PATCH", target, &patch(&staying));
                assert_eq!(kept, (200, String::new()), "{context} {staying}");
            }
        }
    }
}

#[test]
fn a_definition_can_keep_the_stored_secrets_of_the_same_origin() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    let uri = |host: &str, sig: &str| format!("http://{host}/?x=1&sig={sig}&y=2");
    let host = address.to_string();
    let job = |host: &str, stored: bool| {
        let secret = |text: &str| if stored { "${stored}".to_owned() } else { text.to_owned() };
        let mut action = http(&uri(host, &secret("a%2Fb")), basic(&secret("canary")));
        action["request"]["headers"] = json!({"X-Api-Key": secret("key"), "X-Other": "${stored}"});
        disabled(action)
    };
    let refused = put(&mut connection, "j", &job(&host, true));
    assert_eq!(refused.0, 400, "nothing is stored yet");
    assert!(refused.1.starts_with("MissingSecret properties.action.request."), "{refused:?}");
    assert_eq!(put(&mut connection, "j", &job(&host, false)).0, 201);
    let etag = |connection: &mut Connection| {
        let response = connection.request("GET", &path("/jobs/j"), None);
        response.header("ETag").unwrap().to_owned()
    };
    let before = etag(&mut connection);
    assert_eq!(put(&mut connection, "j", &job(&host, true)), (200, String::new()));
    assert_eq!(etag(&mut connection), before, "nothing changed");
    let mut described = job(&host, true);
    described["properties"]["description"] = "edited".into();
    assert_eq!(put(&mut connection, "j", &described), (200, String::new()));
    assert_ne!(etag(&mut connection), before);
    assert_eq!(connection.request("POST", &path("/jobs/j/run"), None).status, 200);
    let call = calls.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(call.line, "GET /?x=1&sig=a%2Fb&y=2 HTTP/1.1");
    assert_eq!(call.headers["authorization"], "Basic dXNlcjpjYW5hcnk=", "user:canary");
    assert_eq!(call.headers["x-api-key"], "key");
    assert_eq!(call.headers["x-other"], "${stored}", "no secret header");

    let (attacker, attacker_calls) = target();
    let moved = job(&attacker.to_string(), true);
    let response = connection.request("PUT", &path("/jobs/j"), Some(&moved.to_string()));
    let error: Value = serde_json::from_str(&response.body).unwrap();
    let details = error["error"]["details"].as_array().unwrap();
    let targets: Vec<_> = details.iter().map(|detail| detail["target"].as_str().unwrap()).collect();
    let members = ["authentication.password", "headers.X-Api-Key", "uri"];
    assert_eq!(targets, members.map(|name| format!("properties.action.request.{name}")));
    assert!(details.iter().all(|detail| detail["code"] == "MissingSecret"), "{error}");
    let patch =
        json!({"properties": {"action": {"request": moved["properties"]["action"]["request"]}}});
    let refused = send(&mut connection, "PATCH", &path("/jobs/j"), &patch);
    assert_eq!(refused.0, 400, "{refused:?}");
    assert!(refused.1.starts_with("MissingSecret "), "{refused:?}");
    assert!(attacker_calls.try_recv().is_err());
}

#[test]
fn the_older_versions_take_the_placeholder_literally() {
    let (address, calls) = target();
    let (_server, mut connection) = start();
    let job = |password| disabled(http(&format!("http://{address}/"), basic(password)));
    let target = old(&path("/jobs/j"));
    assert_eq!(send(&mut connection, "PUT", &target, &job("canary")).0, 201);
    assert_eq!(send(&mut connection, "PUT", &target, &job("${stored}")).0, 200);
    assert_eq!(connection.request("POST", &path("/jobs/j/run"), None).status, 200);
    let call = calls.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(call.headers["authorization"], "Basic dXNlcjoke3N0b3JlZH0=", "user:${{stored}}");
}

/// A PFX file with the password `secret`.
fn pfx_file() -> String {
    BASE64.encode(include_bytes!("../../../actions/tests/data/aes256-single.pfx"))
}

fn with_certificate(host: &str, pfx: &str, password: &str) -> Value {
    let certificate = json!({"type": "ClientCertificate", "pfx": pfx, "password": password});
    disabled(http(&format!("https://{host}/"), certificate))
}

#[test]
fn a_reader_cannot_guess_the_password_of_a_stored_certificate_with_previews() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let scope = collection("g", "c");
    let job = format!("{scope}/jobs/j");
    let definition = with_certificate("a.example.com", &pfx_file(), "secret").to_string();
    let standard = Some(tokens::STANDARD);
    assert_eq!(request_as(&mut connection, &owner, "PUT", &new(&scope), standard).status, 201);
    let created = request_as(&mut connection, &owner, "PUT", &new(&job), Some(&definition));
    assert_eq!(created.status, 201, "{created:?}");
    let reader = create(server.folder(), "reader", "/", &[]);
    let mut preview = |token: &str, password: &str| {
        let guess = with_certificate("a.example.com", "${stored}", password).to_string();
        let target = new(&format!("{job}/preview"));
        let response = request_as(&mut connection, token, "POST", &target, Some(&guess));
        (response.status, response.body)
    };
    let right = preview(&reader, "secret");
    assert_eq!(right.0, 200, "{right:?}");
    assert_eq!(preview(&reader, "wrong"), right);
    assert_eq!(preview(&reader, "${stored}"), right);
    assert_eq!(preview(&owner, "wrong").0, 400);
    assert!(preview(&owner, "secret").1.contains("Nothing"));
}

#[test]
fn a_client_certificate_is_kept_with_its_password_and_never_with_another_host() {
    let (_server, mut connection) = holding();
    let job = with_certificate;
    let created = put(&mut connection, "j", &job("a.example.com", &pfx_file(), "secret"));
    assert_eq!(created, (201, String::new()));
    let target = path("/jobs/j");
    let before = get(&mut connection, &target);
    let thumbprint =
        &before["properties"]["action"]["request"]["authentication"]["certificateThumbprint"];
    assert!(thumbprint.is_string(), "{before}");
    let kept = job("a.example.com", "${stored}", "${stored}");
    assert_eq!(put(&mut connection, "j", &kept), (200, String::new()));
    assert_eq!(get(&mut connection, &target), before);
    let wrong = job("a.example.com", "${stored}", "wrong");
    let pfx = "properties.action.request.authentication.pfx";
    assert_eq!(put(&mut connection, "j", &wrong), (400, format!("InvalidClientCertificate {pfx}")));
    let moved = job("b.example.com", "${stored}", "secret");
    assert_eq!(put(&mut connection, "j", &moved), (400, format!("MissingSecret {pfx}")));
    assert_eq!(get(&mut connection, &target), before);
}

/// Starts a target that returns the head of each request as its body.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|length| length > 2) {}
            let length = head.len();
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{head}");
            // The client may have closed the connection.
            let _ = reader.get_mut().write_all(text.as_bytes());
        }
    });
    address
}

#[test]
fn a_header_that_the_operator_calls_secret_is_encrypted_redacted_and_kept() {
    let address = echo();
    let (server, mut connection) = start_with(&["--secrets-headers", "x-token,X-Other"]);
    let job = |host: &str, token: &str| {
        let mut action = http(&format!("http://{host}/"), Value::Null);
        action["request"]["headers"] = json!({"X-Token": token, "X-Seen": "visible"});
        disabled(action)
    };
    assert_eq!(put(&mut connection, "j", &job(&address.to_string(), "canary-token")).0, 201);
    assert_eq!(connection.request("POST", &path("/jobs/j/run"), None).status, 200);
    let entry = wait_for(|| history(&mut connection, "j").pop()).expect("an attempt");
    let message = entry["message"].as_str().unwrap();
    assert!(message.contains("visible") && message.contains("[masked]"), "{message}");
    assert!(!message.contains("canary"), "{message}");
    let shown = get(&mut connection, &path("/jobs/j"));
    let headers = &shown["properties"]["action"]["request"]["headers"];
    assert_eq!(headers["X-Token"], "canary-token", "the API returns headers as they were sent");
    let kept = put(&mut connection, "j", &job(&address.to_string(), "${stored}"));
    assert_eq!(kept, (200, String::new()));
    let moved = put(&mut connection, "j", &job("127.0.0.1:1", "${stored}"));
    let target = "properties.action.request.headers.X-Token";
    assert_eq!(moved, (400, format!("MissingSecret {target}")));
    let mut files = 0;
    for file in std::fs::read_dir(server.folder()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!has("canary"), "{}", path.display());
        files += usize::from(has("visible"));
    }
    assert!(files > 0, "the definition is in one of the files");
}
