//! Pages of lists: where a page begins, and the link to the next.
//!
//! The old versions have no next page: a list ends where `$top` says. In the newest, `$top` is the
//! length of a page, and a signed position says where the next one begins. A position is good for
//! the caller, the list and the filter that it was given out for.

use std::fmt;

use axum::http::header;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kalends_environment::{Entropy, EntropyError};
use kalends_store::Page;
use kalends_wire::{ErrorDetails, Version};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::hmac;

use crate::request::invalid;
use crate::resources::Asked;

/// Entries of a page, where `$top` does not say less.
const PAGE_MAX: usize = 100;
/// Bytes of a signature; nobody guesses sixteen.
const TAG_BYTES: usize = 16;

/// The key that positions are signed with. It lives as long as the process: after a restart a list
/// is read again from its beginning.
#[derive(Clone)]
pub struct PageKey(hmac::Key);

impl PageKey {
    /// A new key.
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

    fn seal(&self, list: &str, position: &str) -> String {
        let mut token = self.tag(list, position);
        token.extend(position.as_bytes());
        URL_SAFE_NO_PAD.encode(token)
    }

    fn open(&self, list: &str, token: &str) -> Option<String> {
        let token = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (tag, position) = token.split_at_checked(TAG_BYTES)?;
        let position = std::str::from_utf8(position).ok()?;
        let expected = self.tag(list, position);
        // All bytes are looked at, whichever differs.
        let differs = tag.iter().zip(&expected).fold(0, |found, (a, b)| found | (a ^ b));
        (differs == 0).then(|| position.to_owned())
    }
}

impl fmt::Debug for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageKey")
    }
}

/// The page that is asked for.
pub(crate) struct AskedPage<K> {
    /// Where it begins, how much is passed over, and how much is read from the store: one more than
    /// is shown tells whether there is a next page.
    pub(crate) page: Page<K>,
    shown: usize,
    /// Where the next page is, but for its position; the old versions have none.
    next: Option<Next>,
}

struct Next {
    key: PageKey,
    list: String,
    link: String,
}

impl Next {
    fn link_after(&self, position: &str) -> String {
        let token = self.key.seal(&self.list, position);
        format!("{}&%24skiptoken={token}", self.link)
    }
}

impl<K> AskedPage<K> {
    /// Reads `$top`, `$skip` and `$skiptoken`. `old_default` is how many the old versions show when
    /// `$top` does not say.
    pub(crate) fn read(
        asked: &Asked,
        version: Version,
        old_default: usize,
        key_of: impl Fn(&str) -> Option<K>,
    ) -> Result<AskedPage<K>, ErrorDetails> {
        AskedPage::read_with(asked, version, old_default, &[], key_of)
    }

    /// The same for a list that further parameters choose from, with their values in full.
    pub(crate) fn read_with(
        asked: &Asked,
        version: Version,
        old_default: usize,
        chosen: &[(&str, String)],
        key_of: impl Fn(&str) -> Option<K>,
    ) -> Result<AskedPage<K>, ErrorDetails> {
        let skip = asked.query.skip()?;
        if version.is_old() {
            let shown = asked.query.top(old_default, PAGE_MAX)?;
            let page = Page { after: None, skip, limit: shown };
            return Ok(AskedPage { page, shown, next: None });
        }
        let shown = asked.query.top(PAGE_MAX, PAGE_MAX)?;
        let filter = asked.query.filter()?;
        let chosen: String = chosen.iter().map(|(name, value)| parameter(name, value)).collect();
        let next = Next {
            key: asked.app.page_key.clone(),
            // What a position is good for.
            list: format!(
                "{}\n{}\n{}{chosen}",
                asked.caller.id,
                asked.path.to_ascii_lowercase(),
                filter.unwrap_or("")
            ),
            link: link(asked, version, shown, filter) + &chosen,
        };
        let after = match asked.query.skip_token()? {
            None => None,
            Some(token) => {
                let position = next.key.open(&next.list, token);
                let key = position.and_then(|position| key_of(&position)).filter(|_| skip == 0);
                let message = "it is none of this list; take nextLink as it is, or begin again";
                Some(key.ok_or_else(|| invalid("$skiptoken", message))?)
            }
        };
        Ok(AskedPage { page: Page { after, skip, limit: shown + 1 }, shown, next: Some(next) })
    }

    /// Cuts what was read to what is shown, and gives the link to the rest.
    pub(crate) fn cut<T>(
        &self,
        entries: &mut Vec<T>,
        position_of: impl Fn(&T) -> String,
    ) -> Option<String> {
        self.cut_at(entries, |shown| shown.last().map(position_of))
    }

    /// The same, with a position that all of what is shown has a part in.
    pub(crate) fn cut_at<T>(
        &self,
        entries: &mut Vec<T>,
        position_of: impl FnOnce(&[T]) -> Option<String>,
    ) -> Option<String> {
        let next = self.next.as_ref().filter(|_| entries.len() > self.shown)?;
        entries.truncate(self.shown);
        Some(next.link_after(&position_of(entries)?))
    }

    /// The link to what comes after a position, for a page that ends before it is full.
    pub(crate) fn link_after(&self, position: &str) -> Option<String> {
        self.next.as_ref().map(|next| next.link_after(position))
    }
}

fn link(asked: &Asked, version: Version, shown: usize, filter: Option<&str>) -> String {
    let host = asked.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let place = format!("http://{}{}", host.unwrap_or("localhost"), asked.path);
    let filter = filter.map_or_else(String::new, |filter| parameter("%24filter", filter));
    format!("{place}?api-version={}&%24top={shown}{filter}", version.as_str())
}

fn parameter(name: &str, value: &str) -> String {
    format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
}

#[cfg(test)]
mod tests {
    use kalends_environment::SeededEntropy;

    use super::*;

    #[test]
    fn a_position_is_good_for_its_list_and_for_nothing_else() {
        let key = PageKey::new(&SeededEntropy::new(1)).unwrap();
        let token = key.seal("jobs", "nightly");
        assert_eq!(key.open("jobs", &token).as_deref(), Some("nightly"));
        assert_eq!(key.open("history", &token), None);
        let other = PageKey::new(&SeededEntropy::new(2)).unwrap();
        assert_eq!(other.open("jobs", &token), None);
        let forged = URL_SAFE_NO_PAD.encode([[0; TAG_BYTES].as_slice(), b"nightly"].concat());
        for bad in ["", "x", "!", &token[1..], &forged, &format!("{token}A")] {
            assert_eq!(key.open("jobs", bad), None, "{bad}");
        }
    }
}
