//! Performs one attempt of a job's action.
//!
//! [`Perform`] is what the engine asks; [`NetworkPerformer`] does it. `egress` is the one door to
//! the network. [`certificate`] reads the file with which an HTTP action shows who it is. [`fetch()`] is
//! for documents that the service needs for itself.

pub mod certificate;
mod egress;
mod fetch;
mod http;
mod perform;
mod performer;
mod status;
mod tag;

pub use fetch::{FetchError, fetch};
pub use perform::{Order, Perform, Performing, Report};
pub use performer::NetworkPerformer;
pub use tag::execution_tag;
