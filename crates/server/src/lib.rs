//! The REST API over HTTP.
//!
//! A request walks: `listener` bounds what a connection may do, `strict` refuses what two
//! programs could read differently, `door` bounds how many there are at once, `guard` refuses what a
//! web page must not do, `access` who may not ask, `route` reads the path, `request` the query and
//! the body, a module of `resources` does what is asked with the store, `answer` puts the headers
//! on. Every refusal becomes an answer in one place.

mod access;
mod activity;
mod answer;
mod app;
mod audit;
mod clients;
mod door;
mod edit;
mod events;
mod figures;
mod filter;
mod framing;
mod guard;
mod hosts;
mod listener;
mod paging;
mod preface;
mod request;
mod resources;
mod route;
mod strict;
mod tls;

pub use access::{
    Authentication, ClaimGrant, ClaimGrantError, Gate, Oidc, OidcSettings, RateSettings,
};
pub use app::{App, Patience, Settings};
pub use audit::{AuditLog, AuditSettings, AuditTarget};
pub use events::Events;
pub use figures::ServerFigures;
pub use hosts::Hosts;
pub use listener::serve;
pub use paging::PageKey;
pub use tls::{Tls, TlsError, TlsFiles};
