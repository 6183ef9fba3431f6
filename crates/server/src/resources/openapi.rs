//! `GET /openapi.json`.

use http::{StatusCode, header};

use crate::response::ApiResponse;

/// The OpenAPI description of the REST API, as JSON.
pub const OPENAPI: &str = include_str!("../../openapi.json");

pub(super) fn document() -> ApiResponse {
    ApiResponse::text(StatusCode::OK, OPENAPI).with(header::CONTENT_TYPE, "application/json")
}
