//! The page of figures.

use axum::http::{StatusCode, header};

use crate::answer::Answer;
use crate::app::App;

const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn page(app: &App) -> Answer {
    let page = app.figures.page();
    Answer::text(StatusCode::OK, &page).with(header::CONTENT_TYPE, MEDIA_TYPE)
}
