//! The target: it writes down what it gets before it answers, and that it has answered. It is slow
//! at times, and refuses a part of the occurrences, always the same ones.

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

/// A request that the target got.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) job: String,
    pub(super) tag: String,
    pub(super) scheduled: Instant,
    pub(super) received: Instant,
    /// When the whole answer was written.
    pub(super) answered: Option<Instant>,
    /// Whether the target has done with it, answered or not.
    pub(super) is_over: bool,
}

/// Whether the target refuses the occurrence of that tag.
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
                std::thread::spawn(move || take(stream.unwrap(), &log));
            }
        });
        Sink { address, log }
    }

    pub(super) fn log(&self) -> Vec<Delivery> {
        self.log.lock().unwrap().clone()
    }

    /// How many requests are being worked on.
    pub(super) fn under_way(&self) -> usize {
        self.log.lock().unwrap().iter().filter(|delivery| !delivery.is_over).count()
    }
}

/// `None` where the sender died in the middle.
fn take(stream: TcpStream, log: &Mutex<Vec<Delivery>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut tag, mut job, mut scheduled, mut length) = (None, None, None, 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            match line.trim_end() {
                "" => break,
                _ => continue, // the first line
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
        answered: None,
        is_over: false,
    };
    let place = {
        let mut log = log.lock().unwrap();
        log.push(delivery);
        log.len() - 1
    };
    // One in four is quick; the others keep the server waiting for up to a second.
    let slowness = received.ticks().unsigned_abs() / 10 % 4 * 300;
    std::thread::sleep(Duration::from_millis(slowness));
    let status = if refuses(&tag) { "500 Internal Server Error" } else { "200 OK" };
    let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let written = reader.get_mut().write_all(answer.as_bytes());
    if let Some(delivery) = log.lock().unwrap().get_mut(place) {
        delivery.answered = written.is_ok().then(|| SystemClock.now().into());
        delivery.is_over = true;
    }
    Some(())
}
