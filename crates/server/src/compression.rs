//! gzip for pages and assets of the web console. Bodies of the API stay as they are: clients of the retired
//! service expect those bytes.
//!
//! The length of a compressed page depends on its content. Pages have no secret next to text of a caller:
//! secrets of jobs are masked, and the session is a cookie.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, header};
use hyper::body::Bytes;

/// Smaller bodies fit into one packet.
const SIZE_MIN: usize = 1_000;

/// The body compressed, if the client accepts that and it is worth it.
pub(crate) fn gzip(body: &[u8], headers: &HeaderMap) -> Option<Bytes> {
    if body.len() < SIZE_MIN || !accepts_gzip(headers) {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    codings.map(|coding| coding.split_once(';').unwrap_or((coding, ""))).any(|(name, weight)| {
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight != Some(0.0)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use http::HeaderValue;

    use super::*;

    fn accepting(codings: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(codings))])
    }

    #[test]
    fn a_body_is_compressed_for_clients_that_accept_it() {
        let body = "<td>a row</td>".repeat(1_000);
        for codings in ["gzip", "deflate, GZIP;q=0.5, br", "gzip ; q=1"] {
            let compressed = gzip(body.as_bytes(), &accepting(codings)).unwrap();
            assert!(compressed.len() < body.len() / 10, "{codings}: {}", compressed.len());
            let mut text = String::new();
            GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
            assert_eq!(text, body);
        }
        for codings in ["", "br", "identity", "gzip;q=0", "gzip; q=0.0", "xgzip"] {
            assert_eq!(gzip(body.as_bytes(), &accepting(codings)), None, "{codings}");
        }
        assert_eq!(gzip(body.as_bytes(), &HeaderMap::new()), None);
        assert_eq!(gzip(b"short", &accepting("gzip")), None);
    }
}
