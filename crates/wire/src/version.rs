//! API versions. The three old ones reproduce the retired service; the newest has additional
//! members and structured errors.

use std::fmt;

use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::quoting::quoted;

/// An API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(non_camel_case_types, reason = "versions are named by date")]
#[expect(missing_docs, reason = "versions are named by date")]
pub enum Version {
    V2014_08_01_Preview,
    V2016_01_01,
    V2016_03_01,
    V2026_11_01,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Version; 4] = [
        Version::V2014_08_01_Preview,
        Version::V2016_01_01,
        Version::V2016_03_01,
        Version::V2026_11_01,
    ];

    /// The version of new clients.
    pub const NEWEST: Version = Version::V2026_11_01;

    /// Parses the query parameter `api-version`, case-insensitively.
    pub fn from_query(text: Option<&str>) -> Result<Version, ErrorDetails> {
        let supported = || Version::ALL.map(Version::as_str).join(", ");
        let reject = |code, message| Err(ErrorDetails::one(code, "api-version", message));
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            let message =
                format!("is missing from the query; supported versions are {}", supported());
            return reject(ErrorCode::MissingApiVersionParameter, message);
        };
        match Version::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(text)) {
            Some(version) => Ok(version),
            None => {
                let message = format!("must be one of {} (found {})", supported(), quoted(text));
                reject(ErrorCode::InvalidApiVersionParameter, message)
            }
        }
    }

    /// The value of the query parameter `api-version`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::V2014_08_01_Preview => "2014-08-01-preview",
            Version::V2016_01_01 => "2016-01-01",
            Version::V2016_03_01 => "2016-03-01",
            Version::V2026_11_01 => "2026-11-01",
        }
    }

    /// Whether the retired service had this version.
    pub const fn is_old(self) -> bool {
        !matches!(self, Version::V2026_11_01)
    }

    /// Whether the version has one plan `Premium` instead of `P10Premium` and `P20Premium`.
    pub(crate) const fn has_one_premium(self) -> bool {
        matches!(self, Version::V2014_08_01_Preview | Version::V2016_01_01)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_case_insensitive_and_errors_list_the_supported_ones() {
        let parse = |text| Version::from_query(text).map_err(|errors| errors.code());
        assert_eq!(parse(Some("2014-08-01-PREVIEW")), Ok(Version::V2014_08_01_Preview));
        assert_eq!(parse(Some("2026-11-01")), Ok(Version::V2026_11_01));
        assert_eq!(parse(None), Err(ErrorCode::MissingApiVersionParameter));
        assert_eq!(parse(Some("")), Err(ErrorCode::MissingApiVersionParameter));
        for text in ["2016-13-01", "2016-03-01 ", "2016-03-01,2014-08-01-preview"] {
            assert_eq!(parse(Some(text)), Err(ErrorCode::InvalidApiVersionParameter));
        }
        let message = Version::from_query(Some("1")).unwrap_err().to_string();
        assert!(message.contains("2014-08-01-preview, 2016-01-01, 2016-03-01, 2026-11-01"));
    }
}
