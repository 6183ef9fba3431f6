//! The target: logs each request before and after it responds. Some responses are slow, and a fixed
//! part of the occurrences is refused.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kalends_environment::{Clock as _, SystemClock};
use kalends_recurrence::Instant;

pub(super) struct Sink {
    pub(super) address: SocketAddr,
    log: Arc<Mutex<Vec<Delivery>>>,
}

/// A request that the target received.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) job: String,
    pub(super) tag: String,
    pub(super) scheduled: Instant,
    pub(super) received: Instant,
    /// Time when the whole response was written.
    pub(super) responded: Option<Instant>,
    /// Whether the target has finished the request, with or without a response.
    pub(super) is_finished: bool,
}

/// Whether the target refuses the occurrence with this idempotency key.
pub(super) fn refuses(tag: &str) -> bool {
    tag.starts_with(['0', '1', '2'])
}

impl Sink {
    pub(super) fn start() -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let log: Arc<Mutex<Vec<Delivery>>> = Arc::default();
        let shared = log.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let log = shared.clone();
                std::thread::spawn(move || handle(stream.unwrap(), &log));
            }
        });
        Sink { address, log }
    }

    pub(super) fn log(&self) -> Vec<Delivery> {
        self.log.lock().unwrap().clone()
    }

    /// Number of requests in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.log.lock().unwrap().iter().filter(|delivery| !delivery.is_finished).count()
    }
}

/// Handles a request; `None` if the sender died in the middle.
fn handle(stream: TcpStream, log: &Mutex<Vec<Delivery>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut tag, mut job, mut scheduled, mut length) = (None, None, None, 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            match line.trim_end() {
                "" => break,
                _ => continue, // the request line
            }
        };
        match name.to_ascii_lowercase().as_str() {
            "x-ms-execution-tag" => tag = Some(value.to_owned()),
            "x-ms-scheduler-jobid" => job = Some(value.to_owned()),
            "x-ms-scheduler-expected-execution-time" => scheduled = value.parse().ok(),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    let (tag, received) = (tag?, SystemClock.now().into());
    let delivery = Delivery {
        job: job?,
        tag: tag.clone(),
        scheduled: scheduled?,
        received,
        responded: None,
        is_finished: false,
    };
    let index = {
        let mut log = log.lock().unwrap();
        log.push(delivery);
        log.len() - 1
    };
    // One in four responds immediately, the others within a second.
    let slowness = received.ticks().unsigned_abs() / 10 % 4 * 300;
    std::thread::sleep(Duration::from_millis(slowness));
    let status = if refuses(&tag) { "500 Internal Server Error" } else { "200 OK" };
    let response = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let written = reader.get_mut().write_all(response.as_bytes());
    if let Some(delivery) = log.lock().unwrap().get_mut(index) {
        delivery.responded = written.is_ok().then(|| SystemClock.now().into());
        delivery.is_finished = true;
    }
    Some(())
}
