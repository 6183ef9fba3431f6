//! `GET /readyz`: readiness.

use http::StatusCode;

use crate::app::App;
use crate::response::ApiResponse;

/// The server is ready if the store responds.
pub(super) async fn ready(app: &App) -> ApiResponse {
    match app.store.now().await {
        Ok(_) => ApiResponse::text(StatusCode::OK, "ready"),
        Err(_) => ApiResponse::text(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer"),
    }
}
