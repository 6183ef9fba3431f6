//! `GET /readyz`: readiness.

use http::StatusCode;

use crate::app::App;
use crate::health::Readiness;
use crate::response::ApiResponse;

/// Ready if the store accepts writes and the scheduler makes progress.
pub(super) async fn ready(app: &App) -> ApiResponse {
    match app.health.readiness().await {
        Readiness::Ready => ApiResponse::text(StatusCode::OK, "ready"),
        Readiness::OnHold => {
            let text = "ready; on hold: the server was started with --hold and runs no jobs";
            ApiResponse::text(StatusCode::OK, text)
        }
        Readiness::Paused(reason) => {
            ApiResponse::text(StatusCode::OK, format!("ready; paused: {reason}"))
        }
        Readiness::NotReady(reason) => {
            ApiResponse::text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}"))
        }
    }
}
