//! Names of HTTP statuses in history messages: those of .NET, as in the retired service.

use std::borrow::Cow;

const NAMES: [(u16, &str); 39] = [
    (200, "OK"),
    (201, "Created"),
    (202, "Accepted"),
    (203, "NonAuthoritativeInformation"),
    (204, "NoContent"),
    (205, "ResetContent"),
    (206, "PartialContent"),
    (300, "MultipleChoices"),
    (301, "MovedPermanently"),
    (302, "Found"),
    (303, "SeeOther"),
    (304, "NotModified"),
    (305, "UseProxy"),
    (307, "TemporaryRedirect"),
    (400, "BadRequest"),
    (401, "Unauthorized"),
    (402, "PaymentRequired"),
    (403, "Forbidden"),
    (404, "NotFound"),
    (405, "MethodNotAllowed"),
    (406, "NotAcceptable"),
    (407, "ProxyAuthenticationRequired"),
    (408, "RequestTimeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (411, "LengthRequired"),
    (412, "PreconditionFailed"),
    (413, "RequestEntityTooLarge"),
    (414, "RequestUriTooLong"),
    (415, "UnsupportedMediaType"),
    (416, "RequestedRangeNotSatisfiable"),
    (417, "ExpectationFailed"),
    (426, "UpgradeRequired"),
    (500, "InternalServerError"),
    (501, "NotImplemented"),
    (502, "BadGateway"),
    (503, "ServiceUnavailable"),
    (504, "GatewayTimeout"),
    (505, "HttpVersionNotSupported"),
];

/// The name of a status, or its number if it has none.
pub fn status_name(status: u16) -> Cow<'static, str> {
    match NAMES.iter().find(|(number, _)| *number == status) {
        Some((_, name)) => (*name).into(),
        None => status.to_string().into(),
    }
}

/// The status of a name, or of the number of one that has none.
pub fn status_of_name(name: &str) -> Option<u16> {
    let named = NAMES.iter().find(|(_, other)| *other == name);
    let is_status = |status: &u16| (100..1_000).contains(status);
    named.map(|(status, _)| *status).or_else(|| name.parse().ok().filter(is_status))
}

/// The status of the response that a history message describes; `None` if it describes none.
pub fn status_of_message(message: &str) -> Option<u16> {
    let (_, rest) = message.strip_prefix(RESPONSE_MESSAGE)?.split_once("': '")?;
    status_of_name(rest.split_once('\'')?.0)
}

/// Start of the history message of an HTTP action that got a response; the host follows.
pub const RESPONSE_MESSAGE: &str = "Http Action - Response from host '";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_found_by_its_name() {
        for status in 100..1_000 {
            assert_eq!(status_of_name(&status_name(status)), Some(status));
        }
        for name in ["", "Unavailable", "99", "1000", "-5"] {
            assert_eq!(status_of_name(name), None, "{name}");
        }
    }

    #[test]
    fn only_messages_of_responses_have_a_status() {
        let check = |message: &str, status| assert_eq!(status_of_message(message), status);
        let rest = "' Response Headers:  Body: 'OK'";
        for (name, status) in [("ServiceUnavailable", Some(503)), ("429", Some(429)), ("x", None)] {
            check(&format!("{RESPONSE_MESSAGE}a.example': '{name}{rest}"), status);
        }
        check("Http Action - Request to host 'a': 'OK' failed: x", None);
        check("", None);
    }
}
