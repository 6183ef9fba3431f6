//! The description of this API for programs.

use axum::http::{StatusCode, header};

use crate::answer::Answer;

const DOCUMENT: &str = include_str!("../../openapi.json");

pub(super) fn document() -> Answer {
    Answer::text(StatusCode::OK, DOCUMENT).with(header::CONTENT_TYPE, "application/json")
}
