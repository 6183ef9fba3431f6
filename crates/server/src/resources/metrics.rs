//! `GET /metrics`.

use http::{StatusCode, header};

use crate::app::App;
use crate::response::ApiResponse;

const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn page(app: &App) -> ApiResponse {
    app.health.read_store().await;
    ApiResponse::text(StatusCode::OK, app.metrics.page()).with(header::CONTENT_TYPE, MEDIA_TYPE)
}
