//! Paging of lists: `$top`, `$skip` and the encrypted cursor in `nextLink`.
//!
//! Old API versions have a single page of `$top` entries. In the newest version `$top` is the page
//! size, and a cursor (`$skiptoken`) says where the next page starts. A cursor is valid for the
//! caller, the list and the filter that it was issued for.

use std::sync::Arc;

use kalends_store::Page;
use kalends_wire::{ErrorDetails, Version};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::app::App;
use crate::request::invalid;
use crate::resources::RequestContext;

/// Largest and default page size.
pub(crate) const PAGE_MAX: usize = 100;

/// A requested page.
pub(crate) struct PageRequest<K> {
    /// The page to read from the store. It has one entry more than is returned, which tells whether
    /// there is a next page.
    pub(crate) page: Page<K>,
    /// Entries to return.
    size: usize,
    /// `None` in old API versions, which have no next page.
    next: Option<NextLink>,
}

/// The link to the next page, up to its cursor.
struct NextLink {
    app: Arc<App>,
    /// Caller, path and filter that a cursor is valid for.
    list: String,
    /// Ends with the name of the parameter for the cursor.
    link: String,
}

impl NextLink {
    fn after(&self, position: &str) -> String {
        let key = &self.app.position_key;
        let token = key.encrypt(&self.list, position.as_bytes(), &*self.app.entropy);
        format!("{}={token}", self.link)
    }

    /// The position in a cursor of this list.
    fn position(&self, token: &str) -> Option<String> {
        let position = self.app.position_key.decrypt(&self.list, token)?;
        String::from_utf8(position).ok()
    }
}

impl<K> PageRequest<K> {
    /// Reads `$top`, `$skip` and `$skiptoken`. `old_default` is the page size of old API versions
    /// without `$top`.
    pub(crate) fn read(
        request: &RequestContext,
        version: Version,
        old_default: usize,
        key_of: impl Fn(&str) -> Option<K>,
    ) -> Result<PageRequest<K>, ErrorDetails> {
        PageRequest::read_with(request, version, old_default, &[], key_of)
    }

    /// Like `read`, for a list with further parameters; a cursor is valid for their values only.
    pub(crate) fn read_with(
        request: &RequestContext,
        version: Version,
        old_default: usize,
        parameters: &[(&str, String)],
        key_of: impl Fn(&str) -> Option<K>,
    ) -> Result<PageRequest<K>, ErrorDetails> {
        let skip = request.query.skip()?;
        if version.is_old() {
            let size = request.query.top(old_default, PAGE_MAX)?;
            let page = Page { after: None, skip, limit: size };
            return Ok(PageRequest { page, size, next: None });
        }
        let size = request.query.top(PAGE_MAX, PAGE_MAX)?;
        let filter = request.query.filter()?;
        let parameters: String =
            parameters.iter().map(|(name, value)| parameter(name, value)).collect();
        let next = NextLink {
            app: Arc::clone(&request.app),
            list: format!(
                "list\n{}\n{}\n{}{parameters}",
                request.caller.id,
                request.path.to_ascii_lowercase(),
                filter.unwrap_or("")
            ),
            link: link(request, version, size, filter) + &parameters + "&%24skiptoken",
        };
        let after = match request.query.skip_token()? {
            None => None,
            Some(token) => {
                let position = next.position(token);
                let key = position.and_then(|position| key_of(&position)).filter(|_| skip == 0);
                let message = "must come from a nextLink of the same caller, list and filter; request the first page again";
                Some(key.ok_or_else(|| invalid("$skiptoken", message))?)
            }
        };
        Ok(PageRequest { page: Page { after, skip, limit: size + 1 }, size, next: Some(next) })
    }

    /// Truncates the entries read from the store to the page size, and returns the link to the next
    /// page if there is one.
    pub(crate) fn truncate<T>(
        &self,
        entries: &mut Vec<T>,
        position_of: impl Fn(&T) -> String,
    ) -> Option<String> {
        self.truncate_with(entries, |page| page.last().map(position_of))
    }

    /// Like `truncate`, with a position that is computed from the whole page.
    pub(crate) fn truncate_with<T>(
        &self,
        entries: &mut Vec<T>,
        position_of: impl FnOnce(&[T]) -> Option<String>,
    ) -> Option<String> {
        let next = self.next.as_ref().filter(|_| entries.len() > self.size)?;
        entries.truncate(self.size);
        Some(next.after(&position_of(entries)?))
    }

    /// The link to the page after a position, for a page that ends before it is full.
    pub(crate) fn link_after(&self, position: &str) -> Option<String> {
        self.next.as_ref().map(|next| next.after(position))
    }
}

/// A requested page of a list with the parameters `limit` and `cursor`.
pub(crate) struct CursorRequest {
    /// Entries to return.
    pub(crate) size: usize,
    /// The position in the cursor; `None` on the first page.
    pub(crate) position: Option<String>,
    next: NextLink,
}

impl CursorRequest {
    /// Reads `limit` and `cursor`. A cursor is valid for the caller and the values of `parameters`
    /// only.
    pub(crate) fn read(
        request: &RequestContext,
        parameters: &[(&str, String)],
    ) -> Result<CursorRequest, ErrorDetails> {
        let size = request.query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE_MAX);
        let parameters: String =
            parameters.iter().map(|(name, value)| parameter(name, value)).collect();
        let path = request.path.to_ascii_lowercase();
        let next = NextLink {
            app: Arc::clone(&request.app),
            list: format!("list\n{}\n{path}\n{parameters}", request.caller.id),
            link: format!(
                "{}{}?limit={size}{parameters}&cursor",
                request.server_url(),
                request.path
            ),
        };
        let position = match request.query.text("cursor")? {
            None => None,
            Some(cursor) => {
                let message = "must come from a nextLink of the same caller, list and filter; request the first page again";
                Some(next.position(cursor).ok_or_else(|| invalid("cursor", message))?)
            }
        };
        Ok(CursorRequest { size, position, next })
    }

    /// The link to the page after a position.
    pub(crate) fn link_after(&self, position: &str) -> String {
        self.next.after(position)
    }
}

fn link(request: &RequestContext, version: Version, size: usize, filter: Option<&str>) -> String {
    let base = format!("{}{}", request.server_url(), request.path);
    let filter = filter.map_or_else(String::new, |filter| parameter("%24filter", filter));
    format!("{base}?api-version={}&%24top={size}{filter}", version.as_str())
}

fn parameter(name: &str, value: &str) -> String {
    format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
}
