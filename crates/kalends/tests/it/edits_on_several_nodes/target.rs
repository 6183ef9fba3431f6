//! The target: logs each request. It refuses the first request of each run of a failing job.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use kalends_recurrence::Instant;

use crate::crash::now;

pub(super) struct Target {
    pub(super) address: SocketAddr,
    log: Arc<Mutex<Vec<Delivery>>>,
}

/// A request that the target received.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) job: String,
    /// Number of the definition that the request belongs to.
    pub(super) version: usize,
    /// The idempotency key.
    pub(super) key: String,
    pub(super) scheduled: Instant,
    pub(super) received: Instant,
}

impl Target {
    pub(super) fn start() -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let log: Arc<Mutex<Vec<Delivery>>> = Arc::default();
        let shared = log.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let log = shared.clone();
                std::thread::spawn(move || handle(stream, &log));
            }
        });
        Target { address, log }
    }

    pub(super) fn log(&self) -> Vec<Delivery> {
        self.log.lock().unwrap().clone()
    }
}

/// Handles a request to `/VERSION` or `/VERSION/fail`; `None` if it is incomplete.
fn handle(stream: TcpStream, log: &Mutex<Vec<Delivery>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut path, mut job, mut key, mut scheduled) = (None, None, None, None);
    for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(": ") else {
            path = line.split(' ').nth(1).map(str::to_owned);
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "x-ms-execution-tag" => key = Some(value.to_owned()),
            "x-ms-scheduler-jobid" => job = Some(value.to_owned()),
            "x-ms-scheduler-expected-execution-time" => scheduled = value.parse().ok(),
            _ => {}
        }
    }
    let (path, key) = (path?, key?);
    let (version, fails) = path.strip_prefix('/')?.split_once('/')?;
    let (job, scheduled, received) = (job?, scheduled?, now());
    let delivery = Delivery { job, version: version.parse().ok()?, key, scheduled, received };
    let is_refused = {
        let mut log = log.lock().unwrap();
        let is_first = !log.iter().any(|other| other.key == delivery.key);
        log.push(delivery);
        is_first && fails == "fail"
    };
    let status = if is_refused { "503 Service Unavailable" } else { "200 OK" };
    let response = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    reader.get_mut().write_all(response.as_bytes()).ok()
}
