//! The REST API over HTTP.
//!
//! A request walks: [`route`] reads the path, [`request`] the query and the body, a module of
//! [`resources`] does what is asked with the store, [`answer`] puts the headers on. Every refusal
//! becomes an answer in one place.

mod answer;
mod app;
mod edit;
mod filter;
mod request;
mod resources;
mod route;

pub use app::{App, Settings};

use std::future::Future;
use std::io;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

/// Answers requests on a listener until `stop` comes true, then finishes those under way.
pub async fn serve(
    listener: TcpListener,
    app: App,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(resources::health::ready))
        .fallback(resources::handle)
        .with_state(app);
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}
