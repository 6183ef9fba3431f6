//! The web console: pages rendered on the server from responses of the public REST API.
//!
//! A page has no access of its own. [`respond`] reads what it shows with [`Api::get`], which the
//! server answers with the rights of the caller, and writes happen in the browser, with requests
//! to the same API. This crate does no I/O: the same requests and responses give the same page.

mod address;
mod api;
mod asset;
mod chart;
#[cfg(test)]
mod fake_api;
mod format;
mod json_text;
mod mark;
mod message;
mod note;
mod pages;
mod screen;
mod secrets;
mod sentence;
mod shell;
mod view;
mod words;

pub use address::{CollectionAddress, JobAddress};
pub use api::{Answer, Api};
pub use asset::{Asset, asset, speculation_rules};
pub use pages::{is_page, respond};
pub use screen::Screen;
pub use view::{PageRequest, SignInMethod};

/// A rendered page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// HTTP status.
    pub status: u16,
    /// HTML.
    pub body: String,
}

/// `Content-Security-Policy` of every page: own scripts, styles and requests only, nothing inline,
/// and no text that becomes a script.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'";
