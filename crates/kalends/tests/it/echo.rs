//! The echo target.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::connection::{Connection, Response};
use crate::target::{get, wait_for};
use crate::test_server::{TestServer, run_jobs};

/// A working server and its echo target.
fn start(arguments: &[&str]) -> (TestServer, SocketAddr) {
    let server = TestServer::start_with(|command, _| {
        run_jobs(command);
        command.args(arguments);
    });
    let echo = echo_of(&server).parse().unwrap();
    (server, echo)
}

/// The echo target in the log of a server: an address, or `off`.
pub(crate) fn echo_of(server: &TestServer) -> String {
    let line = server.line_with(" starting ");
    let (_, echo) = line.split_once(" echo=").expect(&line);
    let echo = echo.split(' ').next().unwrap().trim_matches('"');
    echo.trim_start_matches("http://").to_owned()
}

/// Sends a request on a new connection.
fn ask(echo: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    Connection::new(echo).request_with(method, path, headers, Some("hello"))
}

fn json(response: &Response) -> Value {
    serde_json::from_str(&response.body).expect(&response.body)
}

#[test]
fn the_path_selects_the_status_and_the_body_shows_the_request_without_secrets() {
    let (_server, echo) = start(&["--secrets-headers", "X-Token"]);
    for (path, status) in [("/", 200), ("/201/x", 201), ("/500", 500), ("/999", 400), ("/x", 400)] {
        assert_eq!(ask(echo, "GET", path, &[]).status, status, "{path}");
    }
    assert_eq!(ask(echo, "GET", "/?delay=11", &[]).status, 400);
    let headers = [("Authorization", "Bearer canary"), ("X-Token", "canary"), ("X-Seen", "yes")];
    let response = ask(echo, "POST", "/200?sig=canary&x=1", &headers);
    let body = json(&response);
    assert_eq!(body["method"], "POST");
    assert_eq!(body["path"], "/200?sig=[masked]&x=1");
    assert_eq!(body["headers"]["x-seen"], "yes");
    assert_eq!(body["headers"]["authorization"], "[masked]");
    assert_eq!(body["body"], "hello");
    assert!(!response.body.contains("canary"), "{response:?}");
    assert_eq!(response.header("connection"), Some("close"));
}

#[test]
fn the_echo_target_limits_bodies_and_accepts_loopback_names_only() {
    let (_server, echo) = start(&[]);
    let long = "x".repeat(64 * 1024 + 1);
    let response = Connection::new(echo).request("POST", "/", Some(&long));
    assert_eq!(response.status, 413);
    assert_eq!(ask(echo, "GET", "/", &[("Host", "localhost:1")]).status, 200);
    assert_eq!(ask(echo, "GET", "/", &[("Host", "evil.test")]).status, 421);
}

#[test]
fn the_echo_target_handles_sixteen_requests_at_once() {
    let (_server, echo) = start(&[]);
    let delayed = || {
        let mut connection = Connection::new(echo);
        connection.send(b"GET /?delay=10 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection
    };
    let status = || ask(echo, "GET", "/", &[]).status;
    let mut taken: Vec<_> = (0..15).map(|_| delayed()).collect();
    assert_eq!(status(), 200, "one of sixteen is left");
    let full = wait_for(|| {
        // Again each time: the request before may have held the place that this one needs.
        taken.push(delayed());
        (status() == 503).then_some(())
    });
    assert_eq!(full, Some(()), "all sixteen are taken");
    drop(taken);
    assert_eq!(wait_for(|| (status() == 200).then_some(())), Some(()), "they are free again");
}

#[test]
fn a_server_with_authentication_has_no_echo_target_unless_one_is_set() {
    let guarded = |arguments: &[&str]| {
        let server = TestServer::start_with(|command, _| {
            command.env("KALENDS_TOKEN", "a-token-of-the-test").args(arguments);
        });
        echo_of(&server)
    };
    assert_eq!(guarded(&[]), "off");
    let echo = guarded(&["--echo-listen", "127.0.0.1:0"]);
    assert!(echo.starts_with("127.0.0.1:"), "{echo}");
    let server = TestServer::start_with(|command, _| {
        command.args(["--echo-listen", "off"]);
    });
    assert_eq!(echo_of(&server), "off");
    let page = server.connect().request("GET", "/", None).body;
    assert!(page.contains("--get https://example.org<"), "{page}");
}

#[test]
fn the_echo_target_refuses_other_addresses_than_loopback() {
    for address in ["0.0.0.0:8081", "[::]:8081", "10.0.0.1:8081", "example"] {
        let output = Command::new(env!("CARGO_BIN_EXE_kalends"))
            .args(["serve", "--print-config", "--echo-listen", address])
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{address}");
        assert!(message.contains("must be auto, off, a port, or a loopback address"), "{message}");
    }
}

#[test]
fn the_echo_target_has_the_port_after_that_of_the_api_or_another_free_one() {
    // Two neighbouring free ports. Other processes may take them meanwhile, then the next two serve.
    let found = (20_000..30_000).step_by(2).find_map(|port| {
        let first = std::net::TcpListener::bind(("127.0.0.1", port)).ok()?;
        let second = std::net::TcpListener::bind(("127.0.0.1", port + 1)).ok()?;
        drop(first);
        Some((port, second))
    });
    let (port, second) = found.unwrap();
    let listen = format!("127.0.0.1:{port}");
    let taken = TestServer::listen_on(&listen, |_, _| {});
    assert_ne!(echo_of(&taken), format!("127.0.0.1:{}", port + 1));
    drop(taken);
    drop(second);
    let free = TestServer::listen_on(&listen, |_, _| {});
    assert_eq!(echo_of(&free), format!("127.0.0.1:{}", port + 1));
}

/// Runs the commands of a text in a shell, then waits for the history of the job.
fn run_first_job(server: &TestServer, commands: &str) {
    let output = Command::new("sh").args(["-euc", commands]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown}");
    let mut connection = server.connect();
    let attempt = wait_for(|| {
        let history = get(&mut connection, "/api/collections/first/jobs/hello/history");
        history["value"].get(0).cloned()
    });
    let attempt = attempt.expect("the job has run");
    assert_eq!(attempt["properties"]["status"], "Completed", "{attempt}");
    let message = attempt["properties"]["message"].as_str().unwrap();
    assert!(message.contains("200") || message.contains("OK"), "{message}");
}

#[test]
fn the_first_job_of_the_readme_calls_the_echo_target() {
    let readme = include_str!("../../../../README.md");
    let (_, section) = readme.split_once("## First job").unwrap();
    let commands = section.split("```").nth(1).unwrap().strip_prefix("sh\n").unwrap();
    let (server, echo) = start(&[]);
    let commands = commands
        .replace("127.0.0.1:8080", &server.address.to_string())
        .replace("127.0.0.1:8081", &echo.to_string());
    run_first_job(&server, &commands);
}

#[test]
fn the_first_job_of_the_page_calls_the_echo_target() {
    let (server, _) = start(&[]);
    let page = server.connect().request("GET", "/", None).body;
    let (_, command) = page.split_once("<code class=\"wrap\">").unwrap();
    let command = command.split_once("</code>").unwrap().0;
    // A script completes it for a server at another address.
    let command = command.replace("<span data-server-flag></span>", "");
    let folder = Path::new(env!("CARGO_BIN_EXE_kalends")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &format!("{command} && kalends job run hello --wait")])
        .env("PATH", path)
        .env("KALENDS_SERVER", format!("http://{}", server.address))
        .env("XDG_CONFIG_HOME", server.folder())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("run of default/hello completed"), "{text}");
}
