//! Parses arbitrary bytes as the XML error of a queue or broker. The parsed texts are no longer than
//! the input, and plain text survives serialising and parsing.

#![no_main]

use kalends_actions::parse_service_error;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(error) = parse_service_error(bytes) {
        for text in [error.code, error.message].into_iter().flatten() {
            assert!(text.len() <= bytes.len());
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let plain = text.replace(['&', '<', '\u{feff}'], "");
    let written = format!("<Error><Code>{plain}</Code></Error>");
    let expected = (!plain.is_empty()).then(|| plain.trim().to_owned());
    // The parser refuses bodies above its length limit.
    if let Ok(error) = parse_service_error(written.as_bytes()) {
        assert_eq!(error.code, expected);
    } else {
        assert!(written.len() > 64 * 1024);
    }
});
