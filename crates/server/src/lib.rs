//! The REST API over HTTP.
//!
//! A request passes these modules in order:
//!
//! | module | task |
//! |---|---|
//! | `listener` | accepts connections, with limits on their number and their timeouts |
//! | `strict_http1` | rejects HTTP/1.1 bytes that two parsers could frame differently |
//! | `connection` | limits the requests in flight of a connection |
//! | `capacity` | limits the requests in flight of a caller, of a client and of the server |
//! | `forwarded` | finds the client, scheme and host of a request that a trusted proxy passes on |
//! | `origin_policy` | rejects DNS rebinding and cross-origin writes |
//! | `route` | parses the path |
//! | `access` | authenticates the caller, limits its rate, checks its permissions |
//! | `request` | parses the query and the body |
//! | `resources` | handles the request with the store |
//! | `response` | adds the common headers; every error becomes a response here |
//!
//! `echo` is a target for jobs with a listener of its own.

mod access;
mod allowed_hosts;
mod app;
mod audit;
mod body;
mod capacity;
mod client;
mod compression;
mod connection;
mod connection_activity;
mod echo;
mod edit;
mod events;
mod filter;
mod forwarded;
mod framing;
mod health;
mod listener;
mod metrics;
mod node;
mod open_connections;
mod origin_policy;
mod overview;
mod paging;
mod position_key;
mod protocol;
mod request;
mod resources;
mod response;
mod route;
mod started_runs;
mod strict_http1;
mod test_runs;
mod tls;

pub use access::{
    AccessControl, Authentication, AuthenticationSettings, CALLBACK_PATH, ClaimGrant,
    ClaimGrantError, CodeFlowSettings, OidcError, OidcProvider, OidcSettings, RateSettings,
};
pub use allowed_hosts::AllowedHosts;
pub use app::{App, Settings, Timeouts};
pub use audit::{AuditLog, AuditSettings, AuditTarget};
pub use echo::EchoTarget;
pub use events::EventSubscriptions;
pub use forwarded::TrustedProxies;
pub use health::{Health, SchedulerHealth, SchedulerProblem};
pub use listener::serve;
pub use metrics::ServerMetrics;
pub use node::{AttemptLimits, Node, SchedulerLoad, StoreKind};
pub use overview::Overview;
pub use position_key::PositionKey;
pub use resources::OPENAPI;
pub use test_runs::TestRuns;
pub use tls::{Tls, TlsError, TlsFiles};
