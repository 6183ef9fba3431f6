//! Paging of lists: `$top`, `$skip` and the signed cursor in `nextLink`.
//!
//! Old API versions have a single page of `$top` entries. In the newest version `$top` is the page
//! size, and a cursor (`$skiptoken`) says where the next page starts. A cursor is valid for the
//! caller, the list and the filter that it was issued for.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header;
use kalends_environment::{Entropy, EntropyError};
use kalends_store::Page;
use kalends_wire::{ErrorDetails, Version};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::hmac;

use crate::request::invalid;
use crate::resources::RequestContext;

/// Largest and default page size.
pub(crate) const PAGE_MAX: usize = 100;
/// Bytes of a signature: HMAC-SHA-256, truncated to 128 bits.
const TAG_BYTES: usize = 16;

/// The key that signs cursors. Each process has its own: after a restart, clients have to start a
/// list from its first page.
#[derive(Clone)]
pub struct PageKey(hmac::Key);

impl PageKey {
    /// Generates a key.
    pub fn new(entropy: &dyn Entropy) -> Result<PageKey, EntropyError> {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes)?;
        Ok(PageKey(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    fn tag(&self, list: &str, position: &str) -> Vec<u8> {
        let signed = format!("{list}\n{position}");
        let tag = hmac::sign(&self.0, signed.as_bytes());
        tag.as_ref().iter().copied().take(TAG_BYTES).collect()
    }

    fn sign(&self, list: &str, position: &str) -> String {
        let mut token = self.tag(list, position);
        token.extend(position.as_bytes());
        URL_SAFE_NO_PAD.encode(token)
    }

    /// The position in a cursor, if its signature is valid for the list.
    fn verify(&self, list: &str, token: &str) -> Option<String> {
        let token = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (tag, position) = token.split_at_checked(TAG_BYTES)?;
        let position = std::str::from_utf8(position).ok()?;
        let expected = self.tag(list, position);
        // Constant-time comparison.
        let differs = tag.iter().zip(&expected).fold(0, |found, (a, b)| found | (a ^ b));
        (differs == 0).then(|| position.to_owned())
    }
}

impl fmt::Debug for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageKey")
    }
}

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
    key: PageKey,
    /// Caller, path and filter that a cursor is valid for.
    list: String,
    link: String,
}

impl NextLink {
    fn after(&self, position: &str) -> String {
        let token = self.key.sign(&self.list, position);
        format!("{}&%24skiptoken={token}", self.link)
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
            key: request.app.page_key.clone(),
            list: format!(
                "{}\n{}\n{}{parameters}",
                request.caller.id,
                request.path.to_ascii_lowercase(),
                filter.unwrap_or("")
            ),
            link: link(request, version, size, filter) + &parameters,
        };
        let after = match request.query.skip_token()? {
            None => None,
            Some(token) => {
                let position = next.key.verify(&next.list, token);
                let key = position.and_then(|position| key_of(&position)).filter(|_| skip == 0);
                let message = "it is none of this list; take nextLink as it is, or begin again";
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

fn link(request: &RequestContext, version: Version, size: usize, filter: Option<&str>) -> String {
    let host = request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = request.source.host.as_deref().or(host).unwrap_or("localhost");
    let base = format!("{}://{host}{}", request.source.scheme.as_str(), request.path);
    let filter = filter.map_or_else(String::new, |filter| parameter("%24filter", filter));
    format!("{base}?api-version={}&%24top={size}{filter}", version.as_str())
}

fn parameter(name: &str, value: &str) -> String {
    format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
}

#[cfg(test)]
mod tests {
    use kalends_environment::SeededEntropy;

    use super::*;

    #[test]
    fn a_cursor_is_valid_for_its_list_only() {
        let key = PageKey::new(&SeededEntropy::new(1)).unwrap();
        let token = key.sign("jobs", "nightly");
        assert_eq!(key.verify("jobs", &token).as_deref(), Some("nightly"));
        assert_eq!(key.verify("history", &token), None);
        let other = PageKey::new(&SeededEntropy::new(2)).unwrap();
        assert_eq!(other.verify("jobs", &token), None);
        let forged = URL_SAFE_NO_PAD.encode([[0; TAG_BYTES].as_slice(), b"nightly"].concat());
        for bad in ["", "x", "!", &token[1..], &forged, &format!("{token}A")] {
            assert_eq!(key.verify("jobs", bad), None, "{bad}");
        }
    }
}
