//! Whether the service is ready.

use axum::http::StatusCode;

use crate::answer::Answer;
use crate::app::App;

/// Ready when the store answers.
pub(super) async fn ready(app: &App) -> Answer {
    match app.store.now().await {
        Ok(_) => Answer::text(StatusCode::OK, "ready"),
        Err(_) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer"),
    }
}
