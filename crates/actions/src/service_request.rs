//! One HTTP request to a service whose response is parsed here and not shown to users: queues,
//! brokers and token endpoints. Redirects are not followed.

use std::time::Duration;

use bytes::Bytes;
use hyper::{Request, StatusCode};
use kalends_domain::CollectionPath;
use url::{Position, Url};

use crate::client::{self, Client, ClientError};
use crate::egress::{Destination, Identity};
use crate::send_fence::AttemptContext;

/// A service's response.
#[derive(Debug)]
pub(crate) struct ServiceResponse {
    pub(crate) status: StatusCode,
    /// `Retry-After` in seconds, of responses with the status 429 or 503.
    pub(crate) retry_after: Option<Duration>,
    /// The body, cut to the caller's limit.
    pub(crate) body: Vec<u8>,
}

/// Sends `request` to `url` on behalf of a collection. Method, headers and body come from `request`,
/// the address from `url`; at most `body_bytes_max` bytes of the response's body are returned.
pub(crate) async fn send_service_request(
    client: &Client,
    url: &Url,
    collection: &CollectionPath,
    request: Request<Bytes>,
    body_bytes_max: usize,
    context: AttemptContext<'_>,
) -> Result<ServiceResponse, ClientError> {
    let to = Destination::of_url(url, collection).ok_or(ClientError::InvalidRequest)?;
    let (head, body) = request.into_parts();
    let mut message = client::Request {
        method: head.method.to_string().into(),
        target: url[Position::BeforePath..Position::AfterQuery].to_owned(),
        authority: url[Position::BeforeHost..Position::AfterPort].to_owned(),
        headers: client::Headers::default(),
        body,
    };
    for (name, value) in &head.headers {
        let value = value.to_str().map_err(|_| ClientError::InvalidRequest)?;
        if !message.set_header(name.as_str(), value) {
            return Err(ClientError::InvalidRequest);
        }
    }
    let response = client.send(&message, &to, &Identity::none(), body_bytes_max, context).await?;
    let status = StatusCode::from_u16(response.status).map_err(|_| ClientError::InvalidRequest)?;
    let is_busy = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
    let retry_after = response.headers.get("retry-after").filter(|_| is_busy.contains(&status));
    let retry_after = retry_after.and_then(|text| text.trim().parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    Ok(ServiceResponse { status, retry_after, body: response.body })
}
