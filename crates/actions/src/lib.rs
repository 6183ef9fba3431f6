//! Performs one attempt of a job's action.
//!
//! [`Perform`] is what the engine asks; [`NetworkPerformer`] does it. `egress` is the one door to
//! the network, `client` speaks HTTP through it, `http` is the HTTP action. [`certificate`] reads
//! the file with which an HTTP action shows who it is, `signing` signs what it sends. [`Fetcher`] is
//! for documents that the service needs for itself.

pub mod certificate;
mod client;
mod egress;
mod fetch;
mod http;
mod perform;
mod performer;
mod signing;
mod status;
mod tag;

pub use egress::{EgressSettings, Proxy, ProxyProblem};
pub use fetch::{FetchError, Fetcher};
pub use perform::{Order, Perform, Performing, Report, Timing};
pub use performer::{NetworkPerformer, PerformerSettings};
pub use signing::{Signer, SigningKey};
pub use tag::execution_tag;
