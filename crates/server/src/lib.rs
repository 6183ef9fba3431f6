//! The REST API over HTTP.
//!
//! A request walks: `listener` bounds what a connection may do, `strict` refuses what two
//! programs could read differently, `guard` what a web page must not do, `route` reads the path,
//! `request` the query and the body, a module of `resources` does what is asked with the store,
//! `answer` puts the headers on. Every refusal becomes an answer in one place.

mod answer;
mod app;
mod edit;
mod events;
mod filter;
mod framing;
mod guard;
mod listener;
mod paging;
mod request;
mod resources;
mod route;
mod strict;

pub use app::{App, Hosts, Patience, Settings};
pub use events::Events;
pub use listener::serve;
pub use paging::PageKey;
