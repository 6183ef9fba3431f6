//! Formats a distinguished name as .NET does: most specific part first, Windows' attribute names,
//! quotes where needed.

use std::fmt::Write;

use der::asn1::ObjectIdentifier;
use der::{Encode, Tag, Tagged};
use x509_cert::attr::AttributeValue;
use x509_cert::name::Name;

/// Characters that require quotes.
const QUOTED: &str = ",+=\"\n<>#;";

/// White space that requires quotes at the ends of a value.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];

/// Formats a name on one line.
pub(crate) fn write_name(name: &Name) -> String {
    let parts = name.as_ref().as_ref().iter().rev().map(|part| {
        let values = part.iter().map(|pair| {
            let value = write_value(&pair.value);
            match short_name(&pair.oid) {
                Some(short) => format!("{short}={value}"),
                None => format!("OID.{}={value}", pair.oid),
            }
        });
        values.collect::<Vec<_>>().join(" + ")
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn short_name(oid: &ObjectIdentifier) -> Option<&'static str> {
    const EMAIL: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.1");
    const DOMAIN: ObjectIdentifier = ObjectIdentifier::new_unwrap("0.9.2342.19200300.100.1.25");
    const X500: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4");
    match *oid {
        EMAIL => return Some("E"),
        DOMAIN => return Some("DC"),
        _ => {}
    }
    if oid.parent()? != X500 {
        return None;
    }
    match oid.arcs().last()? {
        3 => Some("CN"),
        4 => Some("SN"),
        5 => Some("SERIALNUMBER"),
        6 => Some("C"),
        7 => Some("L"),
        8 => Some("S"),
        9 => Some("STREET"),
        10 => Some("O"),
        11 => Some("OU"),
        12 => Some("T"),
        13 => Some("Description"),
        17 => Some("PostalCode"),
        18 => Some("POBox"),
        20 => Some("Phone"),
        42 => Some("G"),
        43 => Some("I"),
        46 => Some("dnQualifier"),
        _ => None,
    }
}

/// Formats a string, quoted where needed; other values as `#` and their DER in hexadecimal.
fn write_value(value: &AttributeValue) -> String {
    match read_text(value) {
        Some(text) => quote(text.trim_end_matches('\0')),
        None => {
            let der = value.to_der().unwrap_or_default();
            let mut hex = String::from("#");
            for byte in der {
                // Writing to a String does not fail.
                let _ = write!(hex, "{byte:02X}");
            }
            hex
        }
    }
}

fn read_text(value: &AttributeValue) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String
        | Tag::PrintableString
        | Tag::Ia5String
        | Tag::NumericString
        | Tag::VisibleString => String::from_utf8(bytes.to_vec()).ok(),
        // Formally T.61, in practice Latin-1.
        Tag::TeletexString => Some(bytes.iter().copied().map(char::from).collect()),
        Tag::BmpString => {
            let (pairs, rest) = bytes.as_chunks::<2>();
            let units: Vec<u16> = pairs.iter().copied().map(u16::from_be_bytes).collect();
            String::from_utf16(&units).ok().filter(|_| rest.is_empty())
        }
        _ => None,
    }
}

fn quote(text: &str) -> String {
    let needed = text.is_empty()
        || text.contains(|found| QUOTED.contains(found))
        || text.starts_with(BLANKS)
        || text.ends_with(BLANKS);
    match needed {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_values_are_quoted() {
        for (value, written) in [
            ("plain", "plain"),
            ("Muster & Söhne: 50% (b/w)", "Muster & Söhne: 50% (b/w)"),
            ("a, b", "\"a, b\""),
            ("a+b", "\"a+b\""),
            ("a=b", "\"a=b\""),
            ("the \"best\"", "\"the \"\"best\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("<a>", "\"<a>\""),
            ("no #1", "\"no #1\""),
            ("a;b", "\"a;b\""),
            (" a", "\" a\""),
            ("a\t", "\"a\t\""),
            ("", "\"\""),
        ] {
            assert_eq!(quote(value), written);
        }
    }

    fn value(tag: Tag, bytes: &[u8]) -> String {
        write_value(&AttributeValue::new(tag, bytes).unwrap())
    }

    #[test]
    fn every_string_type_is_decoded() {
        assert_eq!(value(Tag::Utf8String, "Söhne".as_bytes()), "Söhne");
        assert_eq!(value(Tag::PrintableString, b"US"), "US");
        assert_eq!(value(Tag::TeletexString, b"S\xf6hne"), "Söhne");
        assert_eq!(value(Tag::BmpString, b"\0S\0\xf6"), "Sö");
        assert_eq!(value(Tag::PrintableString, b"US\0"), "US");
    }

    #[test]
    fn undecodable_values_are_written_as_hexadecimal_der() {
        assert_eq!(value(Tag::Utf8String, b"\xff"), "#0C01FF");
        assert_eq!(value(Tag::BmpString, b"\0"), "#1E0100");
        assert_eq!(value(Tag::Integer, b"\x05"), "#020105");
    }
}
