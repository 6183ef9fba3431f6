//! Messages for storage queues, and what history says of them.
//!
//! One request puts a message (`POST {account}/{queue}/messages`). Clients of the retired service
//! take account and queue out of the history by the apostrophes around them, and tell the cases
//! apart by `succeeded`, `does not exist` and `could not be found`.

mod credential;
mod envelope;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use kalends_domain::{MessageFormat, Outcome, Secret, StorageQueueMessage};
use kalends_environment::{Clock, Entropy, new_guid};
use url::Url;

use self::credential::{Credential, Signed};
use self::envelope::Envelope;
use crate::client::Client;
use crate::conceal::conceal;
use crate::egress::NoConnection;
use crate::endpoints::Endpoint;
use crate::exchange::{Answer, AnswerLimits, NoAnswer, exchange};
use crate::executor::{AttemptReport, AttemptRequest};
use crate::idempotency_key::idempotency_key;
use crate::laps::Laps;
use crate::service_error::{ANSWER_BYTES_MAX, parse_service_error};
use crate::status::status_name;

/// The oldest version of the storage API that emulators and installations in use still share.
const API_VERSION: &str = "2019-02-02";

/// Puts messages into queues.
#[derive(Clone)]
pub(crate) struct StorageQueues {
    pub(crate) client: Arc<Client>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) endpoint: Endpoint,
    /// The form of messages that do not say theirs.
    pub(crate) format: MessageFormat,
}

/// What a message is put into.
struct Place<'a> {
    account: &'a str,
    queue: &'a str,
}

impl StorageQueues {
    pub(crate) async fn execute(
        &self,
        order: &AttemptRequest,
        message: &StorageQueueMessage,
        laps: &Laps,
    ) -> AttemptReport {
        let place = Place {
            account: message.storage_account.as_deref().unwrap_or_default(),
            queue: message.queue_name.as_deref().unwrap_or_default(),
        };
        let (url, request) = match self.request(order, message, &place) {
            Ok(request) => request,
            Err(why) => return place.failed(&why),
        };
        let host = url.host_str().unwrap_or_default();
        let limits = AnswerLimits { body_bytes_max: ANSWER_BYTES_MAX };
        let answer = exchange(&self.client, &url, &order.path.collection, request, limits, laps);
        match tokio::time::timeout(order.timeout, answer).await {
            Ok(Ok(answer)) => place.answered(&answer, message.sas_token.as_ref()),
            Ok(Err(NoAnswer::NotSent(NoConnection::Unresolved(_)))) => place.no_account(host),
            Ok(Err(why)) => place.failed(&why.to_string()),
            Err(_) => place.failed(
                "Timeout The operation has timed out; the queue may or may not have the message",
            ),
        }
    }

    fn request(
        &self,
        order: &AttemptRequest,
        message: &StorageQueueMessage,
        place: &Place<'_>,
    ) -> Result<(Url, Request<Bytes>), String> {
        if place.account.is_empty() || place.queue.is_empty() {
            return Err("the job names no storage account or no queue".into());
        }
        let token = message.sas_token.as_ref().ok_or("the job has no sasToken")?;
        let credential = Credential::read(token)?;
        let account = place.account.to_ascii_lowercase();
        let url = self.endpoint.of(&account);
        let path = format!("{}/messages", place.queue.to_ascii_lowercase());
        let mut url = url.and_then(|url| url.join(&path).ok()).ok_or("the address is unusable")?;
        let body = self.body(order, message)?;

        let mut request = Request::new(Bytes::from(body.clone()));
        *request.method_mut() = Method::POST;
        let date = jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&self.clock.now())
            .map_err(|error| error.to_string())?;
        let id = new_guid(&*self.entropy);
        let signed = Signed {
            account: &account,
            path: url.path(),
            body_bytes: body.len(),
            headers: [
                ("x-ms-client-request-id", &id),
                ("x-ms-date", &date),
                ("x-ms-version", API_VERSION),
            ],
        };
        let headers = request.headers_mut();
        for (name, value) in signed.headers {
            let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            headers.insert(HeaderName::from_static(name), value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(credential::CONTENT_TYPE));
        match &credential {
            Credential::Query(query) => url.set_query(Some(query.reveal())),
            Credential::Key(key) => {
                let value = HeaderValue::from_str(&signed.authorization(key));
                headers.insert(AUTHORIZATION, value.map_err(|error| error.to_string())?);
            }
        }
        Ok((url, request))
    }

    /// Consumers read the text with a library that takes base64 off.
    fn body(
        &self,
        order: &AttemptRequest,
        message: &StorageQueueMessage,
    ) -> Result<String, String> {
        let text = message.message.as_deref().unwrap_or_default();
        let format = match message.format {
            MessageFormat::Unset => self.format,
            format => format,
        };
        let text = match format {
            MessageFormat::Raw => text.to_owned(),
            MessageFormat::Unset | MessageFormat::Envelope => Envelope {
                tag: &idempotency_key(order),
                request_id: &new_guid(&*self.entropy),
                expected: order.scheduled,
                job: order.path.job.as_str(),
                collection: order.path.collection.collection.as_str(),
                region: &order.region,
                text,
            }
            .write()?,
        };
        let text = STANDARD.encode(text);
        Ok(format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"))
    }
}

impl Place<'_> {
    fn answered(&self, answer: &Answer, token: Option<&Secret>) -> AttemptReport {
        let Place { account, queue } = self;
        if answer.status.is_success() {
            let message = format!(
                "StorageQueue Action - Put message to account '{account}' queue '{queue}' succeeded"
            );
            return AttemptReport::new(Outcome::Succeeded, message);
        }
        let said = match parse_service_error(&answer.body) {
            Ok(refusal) => {
                let parts = [refusal.code, refusal.message].into_iter().flatten();
                parts.collect::<Vec<_>>().join(": ")
            }
            Err(why) => why.to_string(),
        };
        // A signature is a part of the token, and may be repeated without the rest.
        let parts = token.into_iter().flat_map(|token| token.reveal().split('&'));
        let parts = parts.filter_map(|part| part.split_once("sig=").map(|(_, value)| value));
        let parts: Vec<_> = parts.map(|part| Secret::new(part.to_owned())).collect();
        let said = conceal(&said, &parts.iter().chain(token).collect::<Vec<_>>());
        let status = status_name(answer.status.as_u16());
        let mut report = self.failed(&format!("{status} {said}"));
        if answer.status == StatusCode::NOT_FOUND {
            report.message = format!(
                "StorageQueue Action - The queue '{queue}' of account '{account}' does not exist: {said}"
            );
        }
        report.outcome = Outcome::Failed { retry_after: answer.retry_after };
        report
    }

    fn no_account(&self, host: &str) -> AttemptReport {
        let Place { account, queue } = self;
        let message = format!(
            "StorageQueue Action - The account '{account}' of queue '{queue}' could not be found: \
             NameResolutionFailure The remote name could not be resolved: '{host}'"
        );
        AttemptReport::failed(message)
    }

    fn failed(&self, why: &str) -> AttemptReport {
        let Place { account, queue } = self;
        let message = format!(
            "StorageQueue Action - Put message to account '{account}' queue '{queue}' failed: {why}"
        );
        AttemptReport::failed(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        Answer { status, retry_after: None, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn history_has_the_words_that_clients_look_for() {
        let place = Place { account: "acc", queue: "work" };
        let token = Secret::new("sv=1&sig=canary%2B1&sp=a".to_owned());
        let check = |answer: Answer, expected: &str| {
            assert_eq!(place.answered(&answer, Some(&token)).message, expected);
        };
        check(
            answer(201, ""),
            "StorageQueue Action - Put message to account 'acc' queue 'work' succeeded",
        );
        check(
            answer(404, "<Error><Code>QueueNotFound</Code><Message>No queue.</Message></Error>"),
            "StorageQueue Action - The queue 'work' of account 'acc' does not exist: \
             QueueNotFound: No queue.",
        );
        check(
            answer(
                403,
                "<Error><Code>AuthenticationFailed</Code><Message>canary%2B1 is wrong</Message></Error>",
            ),
            "StorageQueue Action - Put message to account 'acc' queue 'work' failed: \
             Forbidden AuthenticationFailed: [secret] is wrong",
        );
        check(
            answer(500, "<!DOCTYPE x>"),
            "StorageQueue Action - Put message to account 'acc' queue 'work' failed: \
             InternalServerError the answer declares types or entities",
        );
        assert!(
            place.no_account("acc.x").message.contains("'acc' of queue 'work' could not be found")
        );
    }
}
