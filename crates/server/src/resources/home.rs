//! The page at `/`: what this is, and a first job.

use axum::http::{Method, StatusCode, header};

use super::{Asked, Done, not_allowed};
use crate::answer::Answer;

const PAGE: &str = include_str!("home.html");
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn handle(asked: Asked) -> Done {
    if asked.method != Method::GET && asked.method != Method::HEAD {
        return not_allowed("GET, HEAD");
    }
    let page = Answer { body: Some(PAGE.to_owned()), ..Answer::empty(StatusCode::OK) };
    Ok(page
        .with(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .with(header::CONTENT_SECURITY_POLICY, POLICY))
}
