//! The one door to the network: every outbound connection of every kind of action is made here.
//!
//! How to go through it:
//!
//! * A [`Destination`] says where to (host, port, with or without TLS) and for which collection. It
//!   comes from an address ([`Destination::of_url`]) or from parts ([`Destination::new`]).
//! * [`Egress::connect`] gives a [`Transport`] that reads and writes: for protocols that are not HTTP.
//! * [`Egress::identity`] reads a client certificate; [`Identity::none`] is nobody.
//! * For HTTP there is [`crate::client::Client`]: `send(request, destination, identity, kept_max,
//!   laps)` gives an answer with a bounded head and body, over kept connections, and does not follow redirects.
//!
//! What it sees to: the name is resolved once (`resolve`, `dns`), the policy is asked about the
//! name and about *every* address of the answer, and the connection goes to exactly one of those
//! addresses (`connect`), by itself or through the operator's proxy (`proxy`). Whoever answers for
//! the name later changes nothing. TLS (`tls`) is checked against the name, never switched off.
//! Proxies named in the environment are not looked at.
//!
//! It bounds resolving and connecting in time; how long a whole attempt may take is its caller's.

mod connect;
mod destination;
mod dns;
mod no_connection;
mod proxy;
mod resolve;
mod settings;
mod tls;
mod transport;

pub(crate) use connect::{Egress, Located, Protocols};
pub(crate) use destination::{Destination, Security};
pub(crate) use no_connection::NoConnection;
pub use settings::{EgressSettings, ParseProxyError, Proxy};
pub(crate) use tls::Identity;
pub(crate) use transport::Transport;
