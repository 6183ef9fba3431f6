//! Sign-in.

use askama::Template;

use super::{PageResult, rendered};
use crate::view::{PageRequest, View};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn<'a> {
    view: &'a View,
}

pub(super) fn page(view: &mut View, _request: &PageRequest<'_>) -> PageResult {
    view.title = "Sign in".to_owned();
    rendered(&SignIn { view })
}
