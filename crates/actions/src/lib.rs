//! Performs one attempt of a job's action.
//!
//! [`Perform`] is what the engine asks; [`NetworkPerformer`] does it. `egress` is the one door to
//! the network. [`certificate`] reads the file with which an HTTP action shows who it is; `oauth`
//! gets its tokens. `storage_queue` and `service_bus` send messages.

pub mod certificate;
mod conceal;
mod egress;
mod endpoints;
mod exchange;
mod http;
mod oauth;
mod perform;
mod performer;
mod refusal;
mod service_bus;
mod signature;
mod status;
mod storage_queue;
mod tag;

pub use endpoints::{AmqpEndpoint, AmqpLogin, Endpoint, NotAnEndpoint, Services};
pub use perform::{Order, Perform, Performing, Report};
pub use performer::NetworkPerformer;
pub use refusal::{Refusal, Unreadable, read_refusal};
pub use tag::execution_tag;
