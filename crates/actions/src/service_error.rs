//! Parses the XML errors of storage and Service Bus: `<Error><Code/><Message/></Error>`.
//!
//! The input is untrusted. The parser supports neither document types nor entities other than the
//! five predefined ones, and limits length and depth.

/// Bytes of an error body; the services send some hundred.
pub(crate) const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Nested elements; the services send two.
const DEPTH_MAX: usize = 8;

/// The error that a service returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceError {
    /// The error code, such as `QueueNotFound`.
    pub code: Option<String>,
    /// The description.
    pub message: Option<String>,
}

/// Why an error body cannot be parsed. The text goes into history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// The body exceeds the length limit.
    #[error("the response is too long")]
    TooLong,
    /// The elements exceed the depth limit.
    #[error("the response is nested too deep")]
    TooDeep,
    /// The body contains a document type, CDATA or an unknown entity.
    #[error("the response declares types or entities")]
    Forbidden,
    /// The body is not well-formed XML.
    #[error("the response is not XML")]
    Malformed,
}

/// Parses the body of an error response.
pub fn parse_service_error(bytes: &[u8]) -> Result<ServiceError, XmlError> {
    if bytes.len() > RESPONSE_BYTES_MAX {
        return Err(XmlError::TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::Malformed)?;
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    let mut error = ServiceError::default();
    let mut open: Vec<&str> = Vec::new();
    // Terminates: each iteration consumes at least one character.
    while !rest.is_empty() {
        let Some(tag) = rest.strip_prefix('<') else {
            let (text, after) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
            rest = after;
            let plain = unescape(text)?;
            match open.as_slice() {
                [] if !plain.trim().is_empty() => return Err(XmlError::Malformed),
                [_, name] => set_member(&mut error, name, &plain),
                _ => {}
            }
            continue;
        };
        if tag.starts_with('!') {
            return Err(XmlError::Forbidden);
        }
        let (inside, after) = tag.split_once('>').ok_or(XmlError::Malformed)?;
        rest = after;
        if inside.starts_with('?') {
            continue;
        }
        if let Some(name) = inside.strip_prefix('/') {
            if open.pop() != Some(name.trim_end()) {
                return Err(XmlError::Malformed);
            }
            continue;
        }
        let name = inside.split([' ', '\t', '\r', '\n', '/']).next().unwrap_or_default();
        if name.is_empty() || inside.contains('<') {
            return Err(XmlError::Malformed);
        }
        if !inside.ends_with('/') {
            if open.len() == DEPTH_MAX {
                return Err(XmlError::TooDeep);
            }
            open.push(name);
        }
    }
    open.is_empty().then_some(error).ok_or(XmlError::Malformed)
}

fn set_member(error: &mut ServiceError, name: &str, text: &str) {
    let member = match name {
        "Code" => &mut error.code,
        "Message" | "Detail" => &mut error.message,
        _ => return,
    };
    member.get_or_insert_with(|| text.trim().to_owned());
}

/// Replaces the five predefined entities. Others and character references are refused: no service
/// sends them.
fn unescape(text: &str) -> Result<String, XmlError> {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entity, after) = part.split_once(';').ok_or(XmlError::Malformed)?;
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => return Err(XmlError::Forbidden),
        });
        plain.push_str(after);
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, String), XmlError> {
        let error = parse_service_error(text.as_bytes())?;
        Ok((error.code.unwrap_or_default(), error.message.unwrap_or_default()))
    }

    #[test]
    fn errors_of_both_services_are_parsed() {
        let storage = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error>\
            <Code>QueueNotFound</Code><Message>The specified queue does not exist.\nRequestId:1</Message>\
            <Extra a='b'/></Error>";
        let expected = ("QueueNotFound", "The specified queue does not exist.\nRequestId:1");
        assert_eq!(read(storage), Ok((expected.0.into(), expected.1.into())));
        let bus = "<Error xmlns=\"x\"><Code>401</Code><Detail>a &lt; b &amp; c</Detail></Error>";
        assert_eq!(read(bus), Ok(("401".into(), "a < b & c".into())));
        assert_eq!(read(""), Ok((String::new(), String::new())));
    }

    #[test]
    fn document_types_entities_and_deep_nesting_are_refused() {
        let laughs = "<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><Error>&b;</Error>";
        assert_eq!(read(laughs), Err(XmlError::Forbidden));
        assert_eq!(read("<Error><Code>&b;</Code></Error>"), Err(XmlError::Forbidden));
        assert_eq!(read("<Error><![CDATA[x]]></Error>"), Err(XmlError::Forbidden));
        let nested = |depth| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(read(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(read(&nested(DEPTH_MAX + 1)), Err(XmlError::TooDeep));
        assert_eq!(read(&" ".repeat(RESPONSE_BYTES_MAX + 1)), Err(XmlError::TooLong));
        for text in ["<Error>", "</Error>", "<a></b>", "x", "<a", "<a><b</a>", "<>", "<a>&x</a>"] {
            assert_eq!(read(text), Err(XmlError::Malformed), "{text}");
        }
        assert_eq!(parse_service_error(&[0xff]), Err(XmlError::Malformed));
    }
}
