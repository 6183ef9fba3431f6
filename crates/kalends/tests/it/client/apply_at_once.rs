//! `kalends apply` of many jobs: requests in flight at the same time.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::{Printed, User};
use crate::target::TIMEOUT;
use crate::test_server::TestServer;
use crate::tokens::guarded;

/// Requests that `apply` sends at the same time.
const AT_ONCE: usize = 16;

/// Forwards connections to a server, and holds PUT requests until it is opened.
#[derive(Clone)]
struct Gate {
    address: SocketAddr,
    state: Arc<(Mutex<GateState>, Condvar)>,
}

#[derive(Default)]
struct GateState {
    connections: usize,
    held: usize,
    is_open: bool,
}

impl Gate {
    fn before(server: SocketAddr) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gate = Gate { address: listener.local_addr().unwrap(), state: Arc::default() };
        let own = gate.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                own.state.0.lock().unwrap().connections += 1;
                let Ok(server) = TcpStream::connect(server) else { continue };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let gate = own.clone();
                thread::spawn(move || forward(from, to, |bytes| gate.pass(bytes)));
                thread::spawn(move || forward(server, client, |_| ()));
            }
        });
        gate
    }

    fn pass(&self, bytes: &[u8]) {
        if bytes.starts_with(b"PUT ") {
            let (state, changed) = &*self.state;
            let mut state = state.lock().unwrap();
            state.held += 1;
            changed.notify_all();
            drop(changed.wait_timeout_while(state, TIMEOUT, |state| !state.is_open).unwrap());
        }
    }

    /// Waits until this number of requests is held.
    fn wait_for(&self, held: usize) {
        let (state, changed) = &*self.state;
        let state = state.lock().unwrap();
        let (state, _) =
            changed.wait_timeout_while(state, TIMEOUT, |state| state.held < held).unwrap();
        assert_eq!(state.held, held, "requests in flight at the same time");
    }

    /// Lets all requests through. Returns the number of connections so far.
    fn open(&self) -> usize {
        let (state, changed) = &*self.state;
        let mut state = state.lock().unwrap();
        state.is_open = true;
        changed.notify_all();
        state.connections
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, on_bytes: impl Fn(&[u8])) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        on_bytes(&bytes[..length]);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Writes definitions of new jobs `j00`, `j01` and so on to `jobs.yaml`.
fn write_jobs(user: &User, number: usize) {
    let mut text = "collection: many\njobs:\n".to_owned();
    for n in 0..number {
        let action = "{type: Https, request: {uri: \"https://example.com/\", method: GET}}";
        writeln!(text, "  j{n:02}:\n    action: {action}\n    recurrence: {{cron: \"0 3 * * *\"}}")
            .unwrap();
    }
    std::fs::write(user.home().join("jobs.yaml"), text).unwrap();
}

fn apply(user: &User) -> Printed {
    user.run(&["apply", "-f", "jobs.yaml", "--quiet"])
}

fn assert_all_applied(user: &User, number: usize) {
    let diff = user.ok(&["diff", "-f", "jobs.yaml"]);
    let expected = format!("0 to create, 0 to change, 0 to delete, {number} unchanged\n");
    assert_eq!(diff, expected);
}

#[test]
fn several_jobs_are_saved_at_once_and_failures_are_reported_in_order() {
    const JOBS: usize = 40;
    let server = TestServer::start();
    let gate = Gate::before(server.address);
    let user = User::new().with("KALENDS_SERVER", &format!("http://{}", gate.address));
    write_jobs(&user, JOBS);
    let printed = thread::scope(|scope| {
        let applied = scope.spawn(|| apply(&user));
        gate.wait_for(AT_ONCE);
        // Another user creates two of the jobs meanwhile.
        let other = User::of(&server);
        for name in ["many/j12", "many/j03"] {
            other.ok(&["job", "create", name, "--every", "day", "--get", "https://example.org/"]);
        }
        assert!(gate.open() <= AT_ONCE);
        applied.join().unwrap()
    });
    assert_eq!(printed.status, 4, "{printed:?}");
    let errors: Vec<_> =
        printed.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    let [first, second, sum] = errors[..] else { panic!("{printed:?}") };
    assert!(first.starts_with("error: many/j03: ") && second.starts_with("error: many/j12: "));
    assert_eq!(sum, "error: 2 of 40 failed");
    assert!(gate.open() <= AT_ONCE, "no more connections than requests at once");
    let diff = user.run(&["diff", "-f", "jobs.yaml"]);
    let last = diff.stdout.lines().last();
    assert_eq!(last, Some("0 to create, 2 to change, 0 to delete, 38 unchanged"), "{diff:?}");
}

#[test]
fn a_rate_limit_delays_requests_and_none_fails() {
    // The bucket of the limit holds 60 requests and gets one more each second.
    const JOBS: usize = 68;
    let (server, owner) = guarded(&[("KALENDS_WRITES_PER_MINUTE", "60")]);
    let user = User::of(&server).with("KALENDS_CLIENT_TOKEN", &owner);
    write_jobs(&user, JOBS);
    let printed = apply(&user);
    assert_eq!((printed.status, printed.stderr.as_str()), (0, ""), "{printed:?}");
    assert_all_applied(&user, JOBS);
    let log = std::fs::read_to_string(server.folder().join("audit.log")).unwrap();
    assert!(log.contains("\"status\":429"), "the limit was reached");
}

#[test]
fn a_server_that_accepts_few_connections_of_a_client_gets_few_requests_at_once() {
    const JOBS: usize = 40;
    for limit in ["1", "3"] {
        let (server, owner) = guarded(&[("KALENDS_CONNECTIONS_PER_CLIENT", limit)]);
        let user = User::of(&server).with("KALENDS_CLIENT_TOKEN", &owner);
        write_jobs(&user, JOBS);
        let printed = apply(&user);
        assert_eq!((printed.status, printed.stderr.as_str()), (0, ""), "{printed:?}");
        assert_all_applied(&user, JOBS);
    }
}

#[test]
fn a_server_that_stops_meanwhile_ends_the_command() {
    let mut server = TestServer::start();
    let gate = Gate::before(server.address);
    let user = User::new().with("KALENDS_SERVER", &format!("http://{}", gate.address));
    write_jobs(&user, 40);
    let printed = thread::scope(|scope| {
        let applied = scope.spawn(|| apply(&user));
        gate.wait_for(AT_ONCE);
        server.kill();
        gate.open();
        applied.join().unwrap()
    });
    assert_eq!(printed.status, 5, "{printed:?}");
    let errors = printed.stderr.lines().filter(|line| line.starts_with("error: "));
    let errors: Vec<_> = errors.collect();
    assert!(errors.len() == 1 && errors[0].starts_with("error: cannot reach "), "{printed:?}");
}
