//! Whether the service is ready.

use axum::extract::State;
use axum::http::StatusCode;

use crate::app::App;

/// Ready when the store answers.
pub(crate) async fn ready(State(app): State<App>) -> (StatusCode, &'static str) {
    match app.store.now().await {
        Ok(_) => (StatusCode::OK, "ready"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer"),
    }
}
