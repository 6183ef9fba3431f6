//! Sends over HTTPS: `POST {namespace}/{entity}/messages` with a signed token.
//!
//! Properties are sent as headers: those of the broker as JSON in `BrokerProperties`, custom
//! properties as one header each. Header names are case-insensitive, and some have a meaning in HTTP.
//! A message with a custom property that cannot be a header is sent as a JSON batch of one.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use kalends_domain::status_name;
use kalends_environment::Clock;
use url::Url;

use super::CompleteMessage;
use super::error::ServiceBusError;
use super::properties::Properties;
use crate::client::Client;
use crate::endpoints::Endpoint;
use crate::executor::AttemptRequest;
use crate::send_fence::AttemptContext;
use crate::service_error::{RESPONSE_BYTES_MAX, parse_service_error};
use crate::service_request::{ServiceResponse, send_service_request};
use crate::signature::shared_access_signature;

/// Lifetime of a token, which is used once: allows for clock skew of some minutes.
const TOKEN_LIFETIME_SECONDS: i64 = 900;
/// Content type of a batch of messages.
const BATCH: &str = "application/vnd.microsoft.servicebus.json";
/// Header names that a custom property cannot use.
const RESERVED: [&str; 12] = [
    "authorization",
    "brokerproperties",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

pub(super) struct RestSender {
    pub(super) client: Arc<Client>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) endpoint: Endpoint,
}

impl RestSender {
    pub(super) async fn send(
        &self,
        attempt: &AttemptRequest<'_>,
        message: &CompleteMessage<'_>,
        context: AttemptContext<'_>,
    ) -> Result<(), ServiceBusError> {
        let namespace = self.endpoint.of(message.namespace);
        let entity = namespace.and_then(|url| url.join(message.entity).ok());
        let entity = entity.ok_or_else(|| ServiceBusError::InvalidAddress)?;
        let (url, request) = self.build_request(&entity, message)?;
        let collection = &attempt.path.collection;
        let response = send_service_request(
            &self.client,
            &url,
            collection,
            request,
            RESPONSE_BYTES_MAX,
            context,
        );
        match tokio::time::timeout(attempt.timeout, response).await {
            Ok(response) => check_response(&response?),
            Err(_) => Err(ServiceBusError::Timeout),
        }
    }

    fn build_request(
        &self,
        entity: &Url,
        message: &CompleteMessage<'_>,
    ) -> Result<(Url, Request<Bytes>), ServiceBusError> {
        let mut url = entity.clone();
        url.path_segments_mut().map_err(|()| ServiceBusError::InvalidAddress)?.push("messages");
        let properties = &message.properties;
        let content_type = properties.text(|brokered| &brokered.content_type);
        let custom_headers = custom_headers(properties);
        let is_batch = custom_headers.is_none();
        let body = if is_batch { batch_of_one(message) } else { message.text.to_owned() };
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = custom_headers.unwrap_or_default();
        let expires = self.clock.now().as_second() + TOKEN_LIFETIME_SECONDS;
        let key = message.key.reveal();
        let token = shared_access_signature(entity.as_str(), message.key_name, key, expires);
        let mut put = |name: HeaderName, value: &str| {
            let value = HeaderValue::from_str(value)
                .map_err(|_| ServiceBusError::InvalidHeader(name.to_string()))?;
            request.headers_mut().insert(name, value);
            Ok::<_, ServiceBusError>(())
        };
        put(AUTHORIZATION, &token)?;
        if is_batch {
            put(CONTENT_TYPE, BATCH)?;
        } else {
            put(HeaderName::from_static("brokerproperties"), &brokered_json(properties, &[]))?;
            if let Some(content_type) = content_type {
                put(CONTENT_TYPE, content_type)?;
            }
        }
        Ok((url, request))
    }
}

/// Custom properties as headers; `None` if one of them cannot be a header.
fn custom_headers(properties: &Properties<'_>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in properties.custom {
        let is_plain = !RESERVED.contains(&name.as_str()) && !name.contains(char::is_uppercase);
        let name = HeaderName::from_bytes(name.as_bytes()).ok().filter(|_| is_plain)?;
        headers.insert(name, HeaderValue::from_str(&json_text(value)).ok()?);
    }
    Some(headers)
}

/// A JSON batch with this message only.
fn batch_of_one(message: &CompleteMessage<'_>) -> String {
    let properties = &message.properties;
    let own = properties.custom.iter();
    let own: Vec<_> =
        own.map(|(name, value)| format!("{}:{}", json_text(name), json_text(value))).collect();
    let content_type = properties.text(|brokered| &brokered.content_type);
    let content_type: Vec<_> = content_type.map(|text| ("ContentType", text)).into_iter().collect();
    format!(
        "[{{\"Body\":{},\"BrokerProperties\":{},\"UserProperties\":{{{}}}}}]",
        json_text(message.text),
        brokered_json(properties, &content_type),
        own.join(",")
    )
}

/// The broker properties as a JSON object, with `more` members.
fn brokered_json(properties: &Properties<'_>, more: &[(&str, &str)]) -> String {
    let texts = [
        ("MessageId", Some(properties.message_id)),
        ("CorrelationId", properties.text(|brokered| &brokered.correlation_id)),
        ("SessionId", properties.text(|brokered| &brokered.session_id)),
        ("Label", properties.text(|brokered| &brokered.label)),
        ("PartitionKey", properties.text(|brokered| &brokered.partition_key)),
        ("ViaPartitionKey", properties.text(|brokered| &brokered.via_partition_key)),
        ("ReplyTo", properties.text(|brokered| &brokered.reply_to)),
        ("ReplyToSessionId", properties.text(|brokered| &brokered.reply_to_session_id)),
        ("To", properties.text(|brokered| &brokered.to)),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
    let texts = texts.chain(more.iter().copied());
    let mut members: Vec<_> =
        texts.map(|(name, text)| format!("\"{name}\":{}", json_text(text))).collect();
    if let Some(life) = properties.time_to_live {
        members.push(format!("\"TimeToLive\":{}", life.as_secs_f64()));
    }
    let brokered = properties.brokered;
    let at = brokered.and_then(|brokered| brokered.scheduled_enqueue_time_utc?.timestamp());
    let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
    if let Some(at) = at.and_then(|at| printer.timestamp_to_rfc9110_string(&at).ok()) {
        members.push(format!("\"ScheduledEnqueueTimeUtc\":\"{at}\""));
    }
    if let Some(forced) = brokered.and_then(|brokered| brokered.force_persistence) {
        members.push(format!("\"ForcePersistence\":{forced}"));
    }
    format!("{{{}}}", members.join(","))
}

/// A JSON string in ASCII, which a header can contain.
fn json_text(text: &str) -> String {
    let mut json = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            ' '..='~' => json.push(letter),
            _ => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    json.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    json.push('"');
    json
}

/// Maps the status and the error body of a response.
fn check_response(response: &ServiceResponse) -> Result<(), ServiceBusError> {
    if response.status.is_success() {
        return Ok(());
    }
    let message = match parse_service_error(&response.body) {
        Ok(error) => error.message.or(error.code).unwrap_or_default(),
        Err(error) => error.to_string(),
    };
    Err(match response.status {
        StatusCode::UNAUTHORIZED => ServiceBusError::Unauthorized(message),
        StatusCode::NOT_FOUND | StatusCode::GONE => ServiceBusError::NotFound(message),
        StatusCode::FORBIDDEN | StatusCode::PAYLOAD_TOO_LARGE => {
            ServiceBusError::QuotaExceeded(message)
        }
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            ServiceBusError::Busy { message, retry_after: response.retry_after }
        }
        status => ServiceBusError::Rejected(format!("{} {message}", status_name(status.as_u16()))),
    })
}

#[cfg(test)]
mod tests {
    use kalends_domain::ServiceBusMessage;

    use super::*;
    use crate::service_bus::properties::tests::{message, two_days};

    fn properties(message: &ServiceBusMessage) -> Properties<'_> {
        Properties::of(message, "tag", "2026-11-15T12:00:00Z".parse().unwrap()).unwrap()
    }

    #[test]
    fn all_properties_are_sent() {
        let full = message(two_days());
        assert_eq!(
            brokered_json(&properties(&full), &[]),
            "{\"MessageId\":\"tag\",\"CorrelationId\":\"correlation\",\"SessionId\":\"session\",\
             \"Label\":\"lab\\u00fcl\\\"\\\\\",\"PartitionKey\":\"session\",\
             \"ViaPartitionKey\":\"via\",\"ReplyTo\":\"answers\",\"ReplyToSessionId\":\"theirs\",\
             \"To\":\"there\",\"TimeToLive\":172800,\
             \"ScheduledEnqueueTimeUtc\":\"Sat, 02 Jan 2027 03:04:05 GMT\",\"ForcePersistence\":true}"
        );
        let headers = custom_headers(&properties(&full)).unwrap();
        assert_eq!(headers["color"], "\"bl\\u00fc \\\"e\"");
        assert_eq!(headers["size"], "\"9\"");
        let bare = ServiceBusMessage { brokered: None, custom: None, ..full };
        assert_eq!(brokered_json(&properties(&bare), &[]), "{\"MessageId\":\"tag\"}");
    }

    #[test]
    fn properties_that_cannot_be_headers_are_sent_as_a_batch() {
        for name in ["Priority", "authorization", "a b", "", "ü", "content-type"] {
            let mut odd = message(two_days());
            odd.custom = Some(vec![(name.to_owned(), "1".to_owned())]);
            assert_eq!(custom_headers(&properties(&odd)), None, "{name}");
        }
        let mut odd = message(two_days());
        odd.brokered = None;
        odd.custom = Some(vec![("Priority".into(), "high".into())]);
        let key = kalends_domain::Secret::new("key".into());
        let batch = batch_of_one(&CompleteMessage {
            namespace: "contoso-ns",
            entity: "orders",
            key_name: "send",
            key: &key,
            text: "hello\n",
            properties: properties(&odd),
        });
        assert_eq!(
            batch,
            "[{\"Body\":\"hello\\u000a\",\"BrokerProperties\":{\"MessageId\":\"tag\"},\
             \"UserProperties\":{\"Priority\":\"high\"}}]"
        );
    }

    #[test]
    fn error_statuses_are_distinguished() {
        let check = |status: u16, expected: &str| {
            let body = b"<Error><Code>1</Code><Detail>why</Detail></Error>".to_vec();
            let status = StatusCode::from_u16(status).unwrap();
            let response = ServiceResponse { status, retry_after: None, body };
            assert_eq!(check_response(&response).unwrap_err().to_string(), expected);
        };
        check(401, "Unauthorized why");
        check(404, "NotFound The queue or topic does not exist: why");
        check(410, "NotFound The queue or topic does not exist: why");
        check(403, "QuotaExceeded why");
        check(503, "ServerBusy why");
        check(400, "BadRequest why");
    }
}
