//! A TCP forwarder between the server and its database that tests can interrupt.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// A slow link delays each response of a connection whose number is a multiple of this.
const SLOW_INTERVAL: usize = 6;

/// State of the forwarded connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Link {
    Up,
    /// All connections are closed and new ones are refused.
    Down,
    /// A commit is forwarded and the connection is closed before its response.
    DownDuringCommit,
    /// Every sixth response of a connection arrives this much later, unless the link is up again before.
    Slow(Duration),
}

/// Direction of forwarded bytes.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Requests,
    Responses,
}

#[derive(Clone)]
pub(crate) struct Forwarder {
    pub(crate) address: SocketAddr,
    link: Arc<Mutex<Link>>,
    changed: Arc<Condvar>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Forwarder {
    pub(crate) fn start(upstream: &str) -> Forwarder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let forwarder = Forwarder {
            address: listener.local_addr().unwrap(),
            link: Arc::new(Mutex::new(Link::Up)),
            changed: Arc::default(),
            open: Arc::default(),
        };
        let (own, upstream) = (forwarder.clone(), upstream.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if *own.link.lock().unwrap() == Link::Down {
                    continue;
                }
                let server = TcpStream::connect(&upstream).unwrap();
                own.open.lock().unwrap().extend([client.try_clone().unwrap()]);
                let (to, from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let (there, back) = (own.clone(), own.clone());
                thread::spawn(move || there.forward(from, to, Direction::Requests));
                thread::spawn(move || back.forward(server, client, Direction::Responses));
            }
        });
        forwarder
    }

    pub(crate) fn set(&self, link: Link) {
        *self.link.lock().unwrap() = link;
        self.changed.notify_all();
        if link == Link::Down {
            for stream in self.open.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream, direction: Direction) {
        let mut bytes = [0; 16 * 1024];
        let mut number = 0;
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            number += 1;
            if direction == Direction::Responses && number % SLOW_INTERVAL == 0 {
                self.delay();
            }
            let bytes = &bytes[..length];
            let is_commit = bytes.windows(6).any(|word| word == b"COMMIT");
            let is_cut = is_commit && *self.link.lock().unwrap() == Link::DownDuringCommit;
            if is_cut {
                // Close first, so that even a fast response does not get through.
                let _ = from.shutdown(Shutdown::Both);
            }
            if to.write_all(bytes).is_err() || is_cut {
                break;
            }
        }
        for stream in [from, to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn delay(&self) {
        let link = self.link.lock().unwrap();
        if let Link::Slow(delay) = *link {
            let is_slow = |link: &mut Link| matches!(link, Link::Slow(_));
            drop(self.changed.wait_timeout_while(link, delay, is_slow).unwrap());
        }
    }
}
