//! The page at `/`: an introduction with a first job.

use http::{StatusCode, header};

use crate::response::ApiResponse;

const PAGE: &str = include_str!("home.html");
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn page() -> ApiResponse {
    ApiResponse::text(StatusCode::OK, PAGE)
        .with(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
}
