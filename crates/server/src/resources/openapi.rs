//! `GET /openapi.json`.

use http::{StatusCode, header};

use crate::response::ApiResponse;

const DOCUMENT: &str = include_str!("../../openapi.json");

pub(super) fn document() -> ApiResponse {
    ApiResponse::text(StatusCode::OK, DOCUMENT).with(header::CONTENT_TYPE, "application/json")
}
