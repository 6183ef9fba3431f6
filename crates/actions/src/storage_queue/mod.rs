//! Storage queue actions and their history messages.
//!
//! One request puts a message (`POST {account}/{queue}/messages`). Clients of the retired service
//! parse account and queue from the quotes in the history message, and distinguish the results by
//! `succeeded`, `does not exist` and `could not be found`.

mod credential;
mod envelope;
mod error;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use kalends_domain::{MessageFormat, Outcome, Secret, StorageQueueMessage, status_name};
use kalends_environment::{Clock, Entropy, new_guid};
use url::Url;

use self::credential::{Credential, SignedParts};
use self::envelope::Envelope;
use self::error::StorageQueueError;
use crate::client::{Client, ClientError};
use crate::egress::ConnectError;
use crate::endpoints::Endpoint;
use crate::executor::{AttemptReport, AttemptRequest};
use crate::idempotency_key::idempotency_key;
use crate::redaction::Redactor;
use crate::send_fence::AttemptContext;
use crate::service_error::{RESPONSE_BYTES_MAX, parse_service_error};
use crate::service_request::{ServiceResponse, send_service_request};

/// The oldest version of the storage API that current emulators and installations share.
const API_VERSION: &str = "2019-02-02";

/// Executes storage queue actions.
#[derive(Clone)]
pub(crate) struct StorageQueues {
    pub(crate) client: Arc<Client>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) endpoint: Endpoint,
    /// The format of messages without `messageFormat`.
    pub(crate) format: MessageFormat,
}

/// The queue of a message.
struct QueueName<'a> {
    account: &'a str,
    queue: &'a str,
}

impl StorageQueues {
    pub(crate) async fn execute(
        &self,
        attempt: &AttemptRequest<'_>,
        message: &StorageQueueMessage,
        context: AttemptContext<'_>,
    ) -> AttemptReport {
        let name = QueueName {
            account: message.storage_account.as_deref().unwrap_or_default(),
            queue: message.queue_name.as_deref().unwrap_or_default(),
        };
        let (url, request) = match self.build_request(attempt, message, &name) {
            Ok(request) => request,
            Err(error) => return name.failed(&error.to_string()),
        };
        let host = url.host_str().unwrap_or_default();
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
            Ok(Ok(response)) => name.report(&response, message.sas_token.as_ref()),
            Ok(Err(ClientError::Connect(ConnectError::Unresolved(_)))) => name.no_account(host),
            Ok(Err(error)) => name.failed(&StorageQueueError::from(error).to_string()),
            Err(_) => name.failed(&StorageQueueError::Timeout.to_string()),
        }
    }

    fn build_request(
        &self,
        attempt: &AttemptRequest<'_>,
        message: &StorageQueueMessage,
        name: &QueueName<'_>,
    ) -> Result<(Url, Request<Bytes>), StorageQueueError> {
        if name.account.is_empty() || name.queue.is_empty() {
            return Err(StorageQueueError::MissingName);
        }
        let token = message.sas_token.as_ref().ok_or(StorageQueueError::MissingToken)?;
        let credential = Credential::parse(token)?;
        let account = name.account.to_ascii_lowercase();
        let url = self.endpoint.of(&account);
        let path = format!("{}/messages", name.queue.to_ascii_lowercase());
        let url = url.and_then(|url| url.join(&path).ok());
        let mut url = url.ok_or(StorageQueueError::InvalidAddress)?;
        let body = self.build_body(attempt, message)?;

        let mut request = Request::new(Bytes::from(body.clone()));
        *request.method_mut() = Method::POST;
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        let date = printer.timestamp_to_rfc9110_string(&self.clock.now())?;
        let id = new_guid(&*self.entropy);
        let signed = SignedParts {
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
            headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(credential::CONTENT_TYPE));
        match &credential {
            Credential::Query(query) => url.set_query(Some(query.reveal())),
            Credential::Key(key) => {
                let value = HeaderValue::from_str(&signed.authorization(key))?;
                headers.insert(AUTHORIZATION, value);
            }
        }
        Ok((url, request))
    }

    /// The message in base64, which consumers' client libraries decode.
    fn build_body(
        &self,
        attempt: &AttemptRequest<'_>,
        message: &StorageQueueMessage,
    ) -> Result<String, StorageQueueError> {
        let text = message.message.as_deref().unwrap_or_default();
        let format = match message.format {
            MessageFormat::Unset => self.format,
            format => format,
        };
        let text = match format {
            MessageFormat::Raw => text.to_owned(),
            MessageFormat::Unset | MessageFormat::Envelope => Envelope {
                idempotency_key: &idempotency_key(attempt),
                request_id: &new_guid(&*self.entropy),
                expected: attempt.scheduled,
                job: attempt.path.job.as_str(),
                collection: attempt.path.collection.collection.as_str(),
                region: attempt.region,
                text,
            }
            .write()?,
        };
        let text = STANDARD.encode(text);
        Ok(format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"))
    }
}

impl QueueName<'_> {
    fn report(&self, response: &ServiceResponse, token: Option<&Secret>) -> AttemptReport {
        let QueueName { account, queue } = self;
        if response.status.is_success() {
            let message = format!(
                "StorageQueue Action - Put message to account '{account}' queue '{queue}' succeeded"
            );
            return AttemptReport::new(Outcome::Succeeded, message);
        }
        let text = match parse_service_error(&response.body) {
            Ok(error) => {
                let parts = [error.code, error.message].into_iter().flatten();
                parts.collect::<Vec<_>>().join(": ")
            }
            Err(error) => error.to_string(),
        };
        let text = Redactor::for_sas_token(token).redact_to_line(text);
        let status = status_name(response.status.as_u16());
        let mut report = self.failed(&format!("{status} {text}"));
        if response.status == StatusCode::NOT_FOUND {
            report.message = format!(
                "StorageQueue Action - The queue '{queue}' of account '{account}' does not exist: {text}"
            );
        }
        report.outcome = Outcome::Failed { retry_after: response.retry_after };
        report
    }

    fn no_account(&self, host: &str) -> AttemptReport {
        let QueueName { account, queue } = self;
        let message = format!(
            "StorageQueue Action - The account '{account}' of queue '{queue}' could not be found: \
             NameResolutionFailure The remote name could not be resolved: '{host}'"
        );
        AttemptReport::failed(message)
    }

    fn failed(&self, error: &str) -> AttemptReport {
        let QueueName { account, queue } = self;
        let message = format!(
            "StorageQueue Action - Put message to account '{account}' queue '{queue}' failed: {error}"
        );
        AttemptReport::failed(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &str) -> ServiceResponse {
        let status = StatusCode::from_u16(status).unwrap();
        ServiceResponse { status, retry_after: None, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn history_messages_have_the_wording_that_clients_parse() {
        let name = QueueName { account: "acc", queue: "work" };
        let token = Secret::new("sv=1&sig=canary%2B1&sp=a".to_owned());
        let check = |response: ServiceResponse, expected: &str| {
            assert_eq!(name.report(&response, Some(&token)).message, expected);
        };
        check(
            response(201, ""),
            "StorageQueue Action - Put message to account 'acc' queue 'work' succeeded",
        );
        check(
            response(404, "<Error><Code>QueueNotFound</Code><Message>No queue.</Message></Error>"),
            "StorageQueue Action - The queue 'work' of account 'acc' does not exist: \
             QueueNotFound: No queue.",
        );
        check(
            response(
                403,
                "<Error><Code>AuthenticationFailed</Code><Message>canary%2B1 is wrong</Message></Error>",
            ),
            "StorageQueue Action - Put message to account 'acc' queue 'work' failed: \
             Forbidden AuthenticationFailed: [secret] is wrong",
        );
        check(
            response(500, "<!DOCTYPE x>"),
            "StorageQueue Action - Put message to account 'acc' queue 'work' failed: \
             InternalServerError the response declares types or entities",
        );
        assert!(
            name.no_account("acc.x").message.contains("'acc' of queue 'work' could not be found")
        );
    }
}
