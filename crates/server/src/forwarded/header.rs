//! The syntax of `Forwarded` (RFC 7239) and of the addresses in it.

use std::net::{IpAddr, SocketAddr};

/// An element of a `Forwarded` header, added by one proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ForwardedElement {
    /// `for`; `None` if it is absent, hidden or invalid.
    pub(super) address: Option<IpAddr>,
    /// `proto`.
    pub(super) scheme: Option<String>,
    /// `host`.
    pub(super) host: Option<String>,
}

/// Parses a line of a `Forwarded` header; `None` if it is invalid.
pub(super) fn parse_forwarded(line: &str) -> Option<Vec<ForwardedElement>> {
    let mut elements = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let mut pairs: Vec<(String, String)> = Vec::new();
        loop {
            let (name, after) = rest.split_once('=')?;
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let is_name = !name.is_empty() && name.bytes().all(is_token);
            let is_new = !pairs.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            if !is_name || !is_new {
                return None;
            }
            let (value, after) = take_value(after)?;
            pairs.push((name.to_owned(), value));
            rest = after.trim_start();
            match rest.strip_prefix(';') {
                Some(after) => rest = after.trim_start(),
                None => break,
            }
        }
        let mut take = |name: &str| {
            let found = pairs.iter().position(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|index| pairs.swap_remove(index).1)
        };
        elements.push(ForwardedElement {
            address: take("for").as_deref().and_then(node_address),
            scheme: take("proto"),
            host: take("host"),
        });
        rest = match rest.strip_prefix(',') {
            Some(after) => after.trim_start(),
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    (!elements.is_empty()).then_some(elements)
}

/// Takes a value, quoted or not, from the start of a text. Returns it and the rest of the text.
fn take_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ',', ' ', '\t']).unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end)?;
        let is_valid = !value.is_empty() && !value.contains(['"', '\\', '=']);
        return is_valid.then(|| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, quoted.split_at_checked(index + 1)?.1)),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

/// The address of a node: an IP address, in brackets or not, with or without a port.
pub(super) fn node_address(text: &str) -> Option<IpAddr> {
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = bracketed.unwrap_or(text).parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    address.or_else(with_port).map(|address| address.to_canonical())
}
