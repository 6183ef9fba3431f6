//! The query and the body of a request.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes};
use kalends_domain::NoteText;
use kalends_recurrence::{Instant, InstantError};
use kalends_wire::{ErrorCode, ErrorDetails, Json, Version, quoted};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;

use crate::capacity::WaitsFor;
use crate::resources::RequestContext;
use crate::response::ApiError;
use crate::route::PathForm;

/// Size of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyLimit {
    pub(crate) bytes_max: usize,
    /// Members of all its objects together.
    pub(crate) members_max: usize,
}

impl Default for BodyLimit {
    /// A job of at most 16 KiB and a certificate in base64.
    fn default() -> BodyLimit {
        BodyLimit { bytes_max: 64 * 1024, members_max: Json::MEMBERS_MAX }
    }
}

/// Parameters of a query; the API has about ten.
const PARAMETERS_MAX: usize = 50;

/// Decoded query parameters. Names are compared without regard to case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    parameters: Vec<(String, String)>,
    /// The API version of a request without `api-version`.
    default_version: Option<Version>,
}

impl Query {
    /// Parses the part after the question mark. A plus sign stands for a space.
    pub(crate) fn read(text: &str, form: PathForm) -> Result<Query, ErrorDetails> {
        let decode = |text: &str| {
            let spaced = match text.contains('+') {
                true => Cow::Owned(text.replace('+', " ")),
                false => Cow::Borrowed(text),
            };
            let decoded = percent_decode_str(&spaced).decode_utf8();
            decoded.map(|decoded| decoded.into_owned())
        };
        let mut parameters = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Ok(name), Ok(value)) = (decode(name), decode(value)) else {
                return Err(invalid("", "The query must be percent-encoded UTF-8"));
            };
            parameters.push((name, value));
        }
        if parameters.len() > PARAMETERS_MAX {
            let found = parameters.len();
            let message =
                format!("The query must have at most {PARAMETERS_MAX} parameters (found {found})");
            return Err(invalid("", message));
        }
        let default_version = (form == PathForm::Short).then_some(Version::NEWEST);
        Ok(Query { parameters, default_version })
    }

    /// All parameters, decoded.
    pub(crate) fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }

    fn get(&self, name: &str) -> Result<Option<&str>, ErrorDetails> {
        let mut found =
            self.parameters.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let first = found.next().map(|(_, value)| value.as_str());
        match found.next() {
            Some(_) => Err(invalid(name, "is given twice; send it once")),
            None => Ok(first),
        }
    }

    pub(crate) fn version(&self) -> Result<Version, ErrorDetails> {
        let twice = |_| {
            let message = "is given twice; send it once";
            ErrorDetails::one(ErrorCode::InvalidApiVersionParameter, "api-version", message)
        };
        match (self.get("api-version").map_err(twice)?, self.default_version) {
            (None, Some(default)) => Ok(default),
            (text, _) => Version::from_query(text),
        }
    }

    /// `$top`, from 1 to `max`.
    pub(crate) fn top(&self, default: usize, max: usize) -> Result<usize, ErrorDetails> {
        let Some(text) = self.get("$top")? else { return Ok(default) };
        let number = text.parse::<usize>().ok().filter(|number| (1..=max).contains(number));
        number.ok_or_else(|| {
            let found = quoted(text);
            invalid("$top", format!("must be a whole number from 1 to {max} (found {found})"))
        })
    }

    /// `$skip`, 0 if absent.
    pub(crate) fn skip(&self) -> Result<u64, ErrorDetails> {
        const SKIP_MAX: u64 = 1_000_000_000;
        let Some(text) = self.get("$skip")? else { return Ok(0) };
        let number = text.parse::<u64>().ok().filter(|&number| number <= SKIP_MAX);
        number.ok_or_else(|| {
            let found = quoted(text);
            invalid("$skip", format!("must be a whole number from 0 to {SKIP_MAX} (found {found})"))
        })
    }

    /// `$skiptoken`, the cursor of a `nextLink`.
    pub(crate) fn skip_token(&self) -> Result<Option<&str>, ErrorDetails> {
        self.get("$skiptoken")
    }

    /// `note`: a text that is stored with the effect of the request.
    pub(crate) fn note(&self) -> Result<Option<NoteText>, ErrorDetails> {
        let note = self.get("note")?.map(NoteText::new).transpose();
        note.map_err(|error| invalid("note", error.to_string()))
    }

    pub(crate) fn filter(&self) -> Result<Option<&str>, ErrorDetails> {
        Ok(self.get("$filter")?.filter(|text| !text.trim().is_empty()))
    }

    /// A date and time parameter.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Instant>, ErrorDetails> {
        let Some(text) = self.get(name)? else { return Ok(None) };
        // Clients often send the plus sign of an offset unescaped, which decodes to a space.
        let time = text.replace(' ', "+").parse();
        time.map(Some).map_err(|error: InstantError| {
            invalid(name, format!("{error} (found {})", quoted(text)))
        })
    }

    /// A whole number within a range; an empty one counts as absent.
    pub(crate) fn number(
        &self,
        name: &str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>, ErrorDetails> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (min, max, found) = (range.start(), range.end(), quoted(text));
            invalid(name, format!("must be a whole number from {min} to {max} (found {found})"))
        })
    }

    /// One of some words, compared without regard to case; an empty one counts as absent.
    pub(crate) fn word<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ErrorDetails> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let allowed: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let (allowed, found) = (allowed.join(", "), quoted(text));
            invalid(name, format!("must be one of {allowed} (found {found})"))
        })
    }

    /// A text parameter; an empty one counts as absent.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ErrorDetails> {
        Ok(self.get(name)?.filter(|text| !text.is_empty()))
    }
}

pub(crate) fn invalid(path: &str, message: impl Into<String>) -> ErrorDetails {
    ErrorDetails::one(ErrorCode::InvalidQueryParameter, path, message)
}

/// Reads the body of a request as JSON.
pub(crate) async fn read_json(request: &mut RequestContext) -> Result<Json<'static>, ApiError> {
    read_json_up_to(request, BodyLimit::default()).await
}

/// Reads the body of a request as JSON, up to another limit.
pub(crate) async fn read_json_up_to(
    request: &mut RequestContext,
    limit: BodyLimit,
) -> Result<Json<'static>, ApiError> {
    check_media_type(&request.headers)?;
    let bytes = read_bytes(request, limit.bytes_max).await?;
    Ok(Json::parse_up_to(&bytes, limit.members_max)?.into_owned())
}

/// Reads and ignores the body of a request that needs none, so that a broken one is an error before
/// the request has an effect.
pub(crate) async fn ignore_body(request: &mut RequestContext) -> Result<(), ApiError> {
    match request.body.as_ref().is_none_or(|body| body.is_end_stream()) {
        true => Ok(()),
        false => Box::pin(read_bytes(request, BodyLimit::default().bytes_max)).await.map(drop),
    }
}

async fn read_bytes(request: &mut RequestContext, bytes_max: usize) -> Result<Bytes, ApiError> {
    // A body can be read once; a second call sees an empty one.
    let Some(body) = request.body.take() else { return Ok(Bytes::new()) };
    let time_max = request.app.settings.timeouts.request_body;
    let too_long = || {
        let message = format!("The request body must have at most {bytes_max} bytes");
        ErrorDetails::one(ErrorCode::RequestEntityTooLarge, "", message)
    };
    // Reject by Content-Length, before the body is received.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_long().into());
    }
    let whole = timeout(time_max, Limited::new(body, bytes_max).collect());
    let whole = request.slot.wait(WaitsFor::Body, whole).await?;
    let bytes = match whole {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_long().into()),
        Ok(Err(_)) => {
            let message = "The request body ended early or has invalid chunks";
            return Err(ErrorDetails::one(ErrorCode::InvalidRequest, "", message).into());
        }
        Err(_) => {
            let message =
                format!("The request body must arrive within {} s", time_max.as_secs_f64());
            return Err(ErrorDetails::one(ErrorCode::RequestTimeout, "", message).into());
        }
    };
    Ok(bytes.to_bytes())
}

fn check_media_type(headers: &HeaderMap) -> Result<(), ErrorDetails> {
    let unsupported = |path: &str, message: String| {
        Err(ErrorDetails::one(ErrorCode::UnsupportedMediaType, path, message))
    };
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING) {
        let found = quoted(&String::from_utf8_lossy(encoding.as_bytes()));
        let message = format!("must be absent (found {found}); send the body uncompressed");
        return unsupported("Content-Encoding", message);
    }
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mut parts = text.unwrap_or("").split(';').map(|part| part.trim().to_ascii_lowercase());
    let is_json = matches!(parts.next().as_deref(), Some("application/json" | "text/json"));
    let is_utf8 = parts.all(|part| match part.strip_prefix("charset=") {
        Some(charset) => charset.trim_matches('"') == "utf-8",
        None => true,
    });
    match is_json && is_utf8 {
        true => Ok(()),
        false => {
            let found = text.map_or_else(|| "none".to_owned(), quoted);
            let message = format!("must be application/json in UTF-8 (found {found})");
            unsupported("Content-Type", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_real_clients_are_parsed() {
        let query = Query::read(
            "api-version=2016-03-01&%24filter=state+eq%20Disabled&$top=5",
            PathForm::Arm,
        )
        .unwrap();
        assert_eq!(query.version(), Ok(Version::V2016_03_01));
        assert_eq!(query.filter(), Ok(Some("state eq Disabled")));
        assert_eq!((query.top(100, 100), query.skip()), (Ok(5), Ok(0)));
    }

    #[test]
    fn invalid_paging_parameters_are_rejected() {
        for bad in ["0", "-1", "101", "1e3", "abc", ""] {
            let query = Query::read(&format!("$top={bad}"), PathForm::Arm).unwrap();
            assert_eq!(
                query.top(9, 100).unwrap_err().code(),
                ErrorCode::InvalidQueryParameter,
                "{bad}"
            );
        }
        for bad in ["-5", "99999999999999999999"] {
            assert!(
                Query::read(&format!("$skip={bad}"), PathForm::Arm).unwrap().skip().is_err(),
                "{bad}"
            );
        }
        let twice =
            Query::read("api-version=2016-03-01&api-version=2014-08-01-preview", PathForm::Arm)
                .unwrap();
        assert_eq!(twice.version().unwrap_err().code(), ErrorCode::InvalidApiVersionParameter);
    }
}
