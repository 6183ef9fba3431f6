//! Sends over HTTPS: `POST {namespace}/{entity}/messages` with a signed token.
//!
//! Properties travel in headers: the broker's as JSON in `BrokerProperties`, the sender's own as
//! one header each. Names of headers have no case, and some mean something to HTTP; a message with
//! a property whose name would not survive that is sent as a list of one in JSON, which the service
//! takes too.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use kalends_environment::Clock;
use url::Url;

use super::Message;
use super::failure::Failure;
use super::properties::Properties;
use crate::client::Client;
use crate::endpoints::Endpoint;
use crate::exchange::{Answer, AnswerLimits, NoAnswer, exchange};
use crate::executor::AttemptRequest;
use crate::laps::Laps;
use crate::service_error::{ANSWER_BYTES_MAX, parse_service_error};
use crate::signature::shared_access_signature;
use crate::status::status_name;

/// How long a token is good; it is used once, at once. Clocks may differ by minutes.
const TOKEN_SECONDS: i64 = 900;
/// The form of a list of messages.
const LIST: &str = "application/vnd.microsoft.servicebus.json";
/// Names that a property cannot have as a header.
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
        order: &AttemptRequest,
        message: &Message<'_>,
        laps: &Laps,
    ) -> Result<(), Failure> {
        let namespace = self.endpoint.of(message.namespace);
        let entity = namespace.and_then(|url| url.join(message.entity).ok());
        let entity = entity.ok_or_else(Failure::no_address)?;
        let (url, request) = self.request(&entity, message)?;
        let limits = AnswerLimits { body_bytes_max: ANSWER_BYTES_MAX };
        let answer = exchange(&self.client, &url, &order.path.collection, request, limits, laps);
        match tokio::time::timeout(order.timeout, answer).await {
            Ok(Ok(answer)) => judge(&answer),
            Ok(Err(why @ NoAnswer::NotSent(_))) => Err(Failure::Unreachable(why.to_string())),
            Ok(Err(why)) => Err(Failure::Indeterminate(why.to_string())),
            Err(_) => Err(Failure::timed_out()),
        }
    }

    fn request(
        &self,
        entity: &Url,
        message: &Message<'_>,
    ) -> Result<(Url, Request<Bytes>), Failure> {
        let mut url = entity.clone();
        url.path_segments_mut().map_err(|()| Failure::no_address())?.push("messages");
        let properties = &message.properties;
        let content_type = properties.text(|brokered| &brokered.content_type);
        let own_headers = own_headers(properties);
        let is_list = own_headers.is_none();
        let body = if is_list { list_of_one(message) } else { message.text.to_owned() };
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = own_headers.unwrap_or_default();
        let expires = self.clock.now().as_second() + TOKEN_SECONDS;
        let key = message.key.reveal();
        let token = shared_access_signature(entity.as_str(), message.key_name, key, expires);
        let mut put = |name: HeaderName, value: &str| {
            let value = HeaderValue::from_str(value).map_err(|_| {
                Failure::Unsendable(format!("the header {name} cannot have this value"))
            })?;
            request.headers_mut().insert(name, value);
            Ok::<_, Failure>(())
        };
        put(AUTHORIZATION, &token)?;
        if is_list {
            put(CONTENT_TYPE, LIST)?;
        } else {
            put(HeaderName::from_static("brokerproperties"), &brokered_json(properties, &[]))?;
            if let Some(content_type) = content_type {
                put(CONTENT_TYPE, content_type)?;
            }
        }
        Ok((url, request))
    }
}

/// The sender's own properties as headers, where each would arrive as it is.
fn own_headers(properties: &Properties<'_>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in properties.custom {
        let is_plain = !RESERVED.contains(&name.as_str()) && !name.contains(char::is_uppercase);
        let name = HeaderName::from_bytes(name.as_bytes()).ok().filter(|_| is_plain)?;
        headers.insert(name, HeaderValue::from_str(&json_text(value)).ok()?);
    }
    Some(headers)
}

/// A list with this message alone.
fn list_of_one(message: &Message<'_>) -> String {
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

/// Properties that the broker reads, with names of its own.
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

/// A text in JSON, in ASCII alone, so that it can stand in a header.
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

fn judge(answer: &Answer) -> Result<(), Failure> {
    if answer.status.is_success() {
        return Ok(());
    }
    let said = match parse_service_error(&answer.body) {
        Ok(refusal) => refusal.message.or(refusal.code).unwrap_or_default(),
        Err(why) => why.to_string(),
    };
    Err(match answer.status {
        StatusCode::UNAUTHORIZED => Failure::Unauthorised(said),
        StatusCode::NOT_FOUND | StatusCode::GONE => Failure::Missing(said),
        StatusCode::FORBIDDEN | StatusCode::PAYLOAD_TOO_LARGE => Failure::Quota(said),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            Failure::Busy { why: said, retry_after: answer.retry_after }
        }
        status => Failure::Refused(format!("{} {said}", status_name(status.as_u16()))),
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
    fn every_property_has_its_name() {
        let full = message(two_days());
        assert_eq!(
            brokered_json(&properties(&full), &[]),
            "{\"MessageId\":\"tag\",\"CorrelationId\":\"correlation\",\"SessionId\":\"session\",\
             \"Label\":\"lab\\u00fcl\\\"\\\\\",\"PartitionKey\":\"session\",\
             \"ViaPartitionKey\":\"via\",\"ReplyTo\":\"answers\",\"ReplyToSessionId\":\"theirs\",\
             \"To\":\"there\",\"TimeToLive\":172800,\
             \"ScheduledEnqueueTimeUtc\":\"Sat, 02 Jan 2027 03:04:05 GMT\",\"ForcePersistence\":true}"
        );
        let headers = own_headers(&properties(&full)).unwrap();
        assert_eq!(headers["color"], "\"bl\\u00fc \\\"e\"");
        assert_eq!(headers["size"], "\"9\"");
        let bare = ServiceBusMessage { brokered: None, custom: None, ..full };
        assert_eq!(brokered_json(&properties(&bare), &[]), "{\"MessageId\":\"tag\"}");
    }

    #[test]
    fn names_that_are_no_headers_make_a_list_of_one() {
        for name in ["Priority", "authorization", "a b", "", "ü", "content-type"] {
            let mut odd = message(two_days());
            odd.custom = Some(vec![(name.to_owned(), "1".to_owned())]);
            assert_eq!(own_headers(&properties(&odd)), None, "{name}");
        }
        let mut odd = message(two_days());
        odd.brokered = None;
        odd.custom = Some(vec![("Priority".into(), "high".into())]);
        let key = kalends_domain::Secret::new("key".into());
        let list = list_of_one(&Message {
            namespace: "contoso-ns",
            entity: "orders",
            key_name: "send",
            key: &key,
            text: "hello\n",
            properties: properties(&odd),
        });
        assert_eq!(
            list,
            "[{\"Body\":\"hello\\u000a\",\"BrokerProperties\":{\"MessageId\":\"tag\"},\
             \"UserProperties\":{\"Priority\":\"high\"}}]"
        );
    }

    #[test]
    fn refusals_are_told_apart() {
        let check = |status: u16, expected: &str| {
            let body = b"<Error><Code>1</Code><Detail>why</Detail></Error>".to_vec();
            let status = StatusCode::from_u16(status).unwrap();
            let answer = Answer { status, retry_after: None, body };
            assert_eq!(judge(&answer).unwrap_err().to_string(), expected);
        };
        check(401, "Unauthorized why");
        check(404, "NotFound The queue or topic does not exist: why");
        check(410, "NotFound The queue or topic does not exist: why");
        check(403, "QuotaExceeded why");
        check(503, "ServerBusy why");
        check(400, "BadRequest why");
    }
}
