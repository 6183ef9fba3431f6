//! Outbound connections. No other module of any action opens one.
//!
//! * A [`Destination`] holds host, port, plain text or TLS, and the collection on whose behalf the
//!   connection is opened. [`Destination::of_url`] builds it from a URL, [`Destination::new`] from
//!   parts.
//! * [`Egress::connect`] returns a [`Transport`] for protocols other than HTTP.
//! * [`Egress::identity`] reads a client certificate; [`Identity::none`] connects without one.
//! * For HTTP, use [`crate::client::Client`], which pools connections.
//!
//! The host name is resolved once (`resolve`, `dns`). The egress policy checks the name and *every*
//! resolved address, and the connection goes to one of exactly these addresses (`connect`), directly
//! or through the configured proxy (`proxy`): a later change of the DNS answer has no effect (DNS
//! rebinding). TLS (`tls`) always verifies the server's certificate against the name. Proxy variables
//! of the environment are ignored.
//!
//! Resolution, connect and handshake have time limits; the caller limits the whole attempt.

mod connect;
mod destination;
mod dns;
mod error;
mod proxy;
mod resolve;
mod settings;
mod tls;
mod transport;

pub(crate) use connect::{Egress, Protocols, ResolvedAddresses};
pub(crate) use destination::{Destination, Security};
pub(crate) use error::{ConnectError, IdentityError};
pub use settings::{EgressSettings, ParseProxyError, Proxy};
pub(crate) use tls::Identity;
pub(crate) use transport::Transport;
