//! Egress policy: the destinations that jobs can reach. Protects against server-side request forgery
//! (SSRF). Does no I/O.
//!
//! All action types use the same checks: [`EgressPolicy::check_uri`] when a job is defined,
//! [`EgressPolicy::check_host`] before a host name is resolved, and [`EgressPolicy::check_address`] for
//! every resolved address. `address`, `name` and `port` contain the built-in tables, `allow` the
//! exceptions that an operator configures, and `policy` combines them.
//!
//! Hosts are checked in their parsed form: the URL parser turns `0x7f.1` into 127.0.0.1.

mod address;
mod allow;
mod name;
mod network;
mod policy;
mod port;

pub use address::{AddressClass, classify_address};
pub use allow::{AllowEntry, AllowEntryError};
pub use network::Network;
pub use policy::{AddressOwner, EgressDenial, EgressMode, EgressPolicy, ForbiddenEndpoint};
