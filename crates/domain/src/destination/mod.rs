//! Where jobs may go: the whole decision, without a look at the network.
//!
//! A job makes the server call what its author names, so what may be called is decided here, once,
//! for every kind of action: when a job is defined ([`EgressPolicy::check_uri`]: what can be seen
//! from its text) and when it runs ([`EgressPolicy::check_host`] before a name is resolved,
//! [`EgressPolicy::check_address`] for every address of the answer). `address`, `name` and `port`
//! hold the tables; `allow` what an operator lifts of them; `policy` puts them together.
//!
//! Hosts are judged in their parsed form: the parser knows that `0x7f.1` is 127.0.0.1.

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
