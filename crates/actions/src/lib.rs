//! Executes one attempt of a job's action.
//!
//! [`ActionExecutor`] is the interface that the engine calls; [`NetworkExecutor`] implements it.
//! `egress` is the only module that opens outbound connections, `client` speaks HTTP over them and
//! `http` is the HTTP action. [`certificate`] reads client certificates for HTTP actions, `signing`
//! signs their requests and `oauth` gets their access tokens. `storage_queue` and `service_bus` send
//! messages. [`Fetcher`] downloads documents for the server itself, and [`UserAgent`] sends the requests
//! of the command line.

pub mod certificate;
mod client;
mod egress;
mod endpoints;
mod executor;
mod fetch;
mod http;
mod idempotency_key;
mod network_executor;
mod oauth;
mod redaction;
mod send_fence;
mod service_bus;
mod service_error;
mod service_request;
mod signature;
mod signing;
mod storage_queue;
mod timing;
mod user_agent;

pub use egress::{EgressSettings, ParseProxyError, Proxy};
pub use endpoints::{AmqpEndpoint, AmqpLogin, Endpoint, ParseEndpointError, Services};
pub use executor::{ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest, PrewarmFuture};
pub use fetch::{ClientSecret, FetchError, Fetcher, FormResponse, trusted_url};
pub use idempotency_key::{RunIdentity, idempotency_key};
pub use network_executor::{ExecutorSettings, NetworkExecutor};
pub use redaction::{HTTP_PLACEHOLDER as REDACTED, redact_parameters};
pub use send_fence::{NotSent, SendFence};
pub use service_error::{ServiceError, XmlError, parse_service_error};
pub use signing::{Signer, SigningKey, SigningKeyVersions};
pub use user_agent::{ResponseBody, UserAgent, UserAgentError};
