//! Something between the server and its database that can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What becomes of what is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Line {
    Whole,
    /// Nobody gets through.
    Cut,
    /// What asks for a commit is passed on, and the line is cut before the answer.
    CutInCommit,
}

#[derive(Clone)]
pub(crate) struct Forwarder {
    pub(crate) address: SocketAddr,
    line: Arc<Mutex<Line>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Forwarder {
    pub(crate) fn start(upstream: &str) -> Forwarder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let forwarder = Forwarder {
            address: listener.local_addr().unwrap(),
            line: Arc::new(Mutex::new(Line::Whole)),
            open: Arc::default(),
        };
        let (own, upstream) = (forwarder.clone(), upstream.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if *own.line.lock().unwrap() == Line::Cut {
                    continue;
                }
                let server = TcpStream::connect(&upstream).unwrap();
                own.open.lock().unwrap().extend([client.try_clone().unwrap()]);
                let (to, from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let (there, back) = (own.clone(), own.clone());
                thread::spawn(move || there.pass(from, to));
                thread::spawn(move || back.pass(server, client));
            }
        });
        forwarder
    }

    pub(crate) fn set(&self, line: Line) {
        *self.line.lock().unwrap() = line;
        if line == Line::Cut {
            for stream in self.open.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            let bytes = &bytes[..length];
            let is_commit = bytes.windows(6).any(|word| word == b"COMMIT");
            let is_cut = is_commit && *self.line.lock().unwrap() == Line::CutInCommit;
            if is_cut {
                // First of all, so that no answer comes back, however quick it is.
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
}
