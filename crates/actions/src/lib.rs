//! Performs one attempt of a job's action.
//!
//! [`Perform`] is what the engine asks; [`NetworkPerformer`] does it. `egress` is the one door to
//! the network, `client` speaks HTTP through it, `http` is the HTTP action. [`certificate`] reads
//! the file with which an HTTP action shows who it is, `signing` signs what it sends, `oauth` gets
//! its tokens. `storage_queue` and `service_bus` send messages. [`Fetcher`] is for documents that
//! the service needs for itself.

pub mod certificate;
mod client;
mod conceal;
mod egress;
mod endpoints;
mod exchange;
mod fetch;
mod http;
mod laps;
mod oauth;
mod perform;
mod performer;
mod refusal;
mod service_bus;
mod signature;
mod signing;
mod status;
mod storage_queue;
mod tag;

pub use egress::{EgressSettings, Proxy, ProxyProblem};
pub use endpoints::{AmqpEndpoint, AmqpLogin, Endpoint, NotAnEndpoint, Services};
pub use fetch::{FetchError, Fetcher};
pub use perform::{Order, Perform, Performing, Readying, Report};
pub use performer::{NetworkPerformer, PerformerSettings};
pub use refusal::{Refusal, Unreadable, read_refusal};
pub use signing::{Signer, SigningEpochs, SigningKey};
pub use tag::execution_tag;
