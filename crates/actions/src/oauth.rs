//! Access tokens for HTTP actions with `ActiveDirectoryOAuth` authentication: requested from the
//! tenant's token endpoint with the client credentials grant, cached until shortly before they expire.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request};
use kalends_domain::{CollectionPath, HttpAuthentication, Secret, status_name};
use kalends_environment::Clock;
use ring::digest::{SHA256, digest};

use crate::client::{Client, ClientError};
use crate::endpoints::Endpoint;
use crate::redaction::Redactor;
use crate::send_fence::{AttemptContext, SendFence, SendGuard};
use crate::service_request::{ServiceResponse, send_service_request};
use crate::signature::percent_encode;
use crate::timing::AttemptTimer;

/// Cached tokens; when the cache is full, the one that expires first is evicted.
const TOKENS_MAX: usize = 1_000;
/// Bytes of the endpoint's response; a token has some two thousand.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Time limit of a token request, whatever the timeout of the attempt: other attempts wait for it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A token is renewed this long before it expires, or a fifth of its lifetime if that is shorter.
const RENEW_SECONDS_BEFORE: i64 = 300;
/// Lifetime of a token without `expires_in`.
const LIFETIME_SECONDS_DEFAULT: i64 = 300;
/// Longer lifetimes are cut to this.
const LIFETIME_SECONDS_MAX: i64 = 86_400;

/// Why there is no access token. The text goes into history.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The job's authentication is incomplete.
    #[error("the job has no tenant, audience, clientId or secret for its authentication")]
    IncompleteCredentials,
    /// The configured endpoint and the tenant do not form a URL.
    #[error("the URI of the token endpoint is invalid")]
    InvalidEndpoint,
    /// The token request failed.
    #[error(
        "AuthenticationFailure No token for client '{client_id}' of tenant '{tenant}' from '{host}': {cause}"
    )]
    RequestFailed {
        /// The client id of the job.
        client_id: String,
        /// The tenant of the job.
        tenant: String,
        /// The host of the token endpoint.
        host: String,
        /// Why it failed.
        #[source]
        cause: TokenRequestError,
    },
}

/// Why a token request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TokenRequestError {
    /// No response within the time limit.
    #[error("Timeout The operation has timed out")]
    Timeout,
    /// No valid response.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The endpoint returned an error or no token. The text is redacted.
    #[error("{0}")]
    Refused(String),
}

/// The client credentials of an HTTP action.
pub(crate) struct ClientCredentials<'a> {
    tenant: &'a str,
    audience: &'a str,
    client_id: &'a str,
    secret: &'a Secret,
}

impl ClientCredentials<'_> {
    /// The credentials of an authentication; `None` if it is of another type.
    pub(crate) fn of(
        authentication: Option<&HttpAuthentication>,
    ) -> Result<Option<ClientCredentials<'_>>, TokenError> {
        let Some(HttpAuthentication::ActiveDirectoryOAuth { tenant, audience, client_id, secret }) =
            authentication
        else {
            return Ok(None);
        };
        match (tenant, audience, client_id, secret) {
            (Some(tenant), Some(audience), Some(client_id), Some(secret)) => {
                Ok(Some(ClientCredentials { tenant, audience, client_id, secret }))
            }
            _ => Err(TokenError::IncompleteCredentials),
        }
    }

    fn key(&self) -> TokenKey {
        TokenKey {
            tenant: self.tenant.to_ascii_lowercase(),
            audience: self.audience.to_owned(),
            client_id: self.client_id.to_owned(),
            secret: digest(&SHA256, self.secret.reveal().as_bytes()).as_ref().to_vec(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct TokenKey {
    tenant: String,
    audience: String,
    client_id: String,
    /// Digest of the secret: credentials with another secret get another token.
    secret: Vec<u8>,
}

/// A token and when to renew it, in Unix seconds.
#[derive(Clone)]
struct CachedToken {
    text: Secret,
    renew_at: i64,
}

#[derive(Default)]
struct TokenSlot {
    /// Locked during a token request: concurrent attempts wait for its result.
    state: tokio::sync::Mutex<Option<Result<CachedToken, TokenError>>>,
    /// Number of token requests.
    requests: AtomicU64,
    renew_at: Mutex<i64>,
}

/// Requests and caches tokens.
pub(crate) struct TokenCache {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    login: Endpoint,
    slots: Mutex<HashMap<TokenKey, Arc<TokenSlot>>>,
}

impl TokenCache {
    pub(crate) fn new(client: Arc<Client>, clock: Arc<dyn Clock>, login: Endpoint) -> TokenCache {
        TokenCache { client, clock, login, slots: Mutex::new(HashMap::new()) }
    }

    /// A cached or new token. Attempts that wait for the same request share its error; the next
    /// attempt requests a token again.
    pub(crate) async fn token(
        &self,
        credentials: &ClientCredentials<'_>,
        collection: &CollectionPath,
    ) -> Result<Secret, TokenError> {
        let slot = self.slot(credentials.key());
        let seen = slot.requests.load(Ordering::Acquire);
        let mut state = slot.state.lock().await;
        match &*state {
            Some(Ok(token)) if self.now() < token.renew_at => return Ok(token.text.clone()),
            Some(Err(error)) if slot.requests.load(Ordering::Acquire) != seen => {
                return Err(error.clone());
            }
            _ => {}
        }
        let result = self.request_token(credentials, collection).await;
        slot.requests.fetch_add(1, Ordering::Release);
        if let Ok(token) = &result {
            *slot.renew_at.lock().unwrap_or_else(PoisonError::into_inner) = token.renew_at;
        }
        *state = Some(result.clone());
        result.map(|token| token.text)
    }

    /// Removes a token that a target did not accept.
    pub(crate) async fn invalidate(
        &self,
        authentication: Option<&HttpAuthentication>,
        token: &Secret,
    ) {
        let Ok(Some(credentials)) = ClientCredentials::of(authentication) else { return };
        let slot = self.slot(credentials.key());
        let mut state = slot.state.lock().await;
        if state.as_ref().is_some_and(|cached| cached.as_ref().is_ok_and(|it| it.text == *token)) {
            *state = None;
        }
    }

    fn now(&self) -> i64 {
        self.clock.now().as_second()
    }

    fn slot(&self, key: TokenKey) -> Arc<TokenSlot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if !slots.contains_key(&key) && slots.len() >= TOKENS_MAX {
            let renew_at = |slot: &Arc<TokenSlot>| {
                *slot.renew_at.lock().unwrap_or_else(PoisonError::into_inner)
            };
            let first = slots.iter().min_by_key(|(_, slot)| renew_at(slot));
            if let Some(first) = first.map(|(key, _)| key.clone()) {
                slots.remove(&first);
            }
        }
        Arc::clone(slots.entry(key).or_default())
    }

    async fn request_token(
        &self,
        credentials: &ClientCredentials<'_>,
        collection: &CollectionPath,
    ) -> Result<CachedToken, TokenError> {
        let url = self.login.below(&[credentials.tenant, "oauth2", "token"]);
        let url = url.ok_or(TokenError::InvalidEndpoint)?;
        let body = [
            ("grant_type", "client_credentials"),
            ("client_id", credentials.client_id),
            ("client_secret", credentials.secret.reveal()),
            ("resource", credentials.audience),
        ]
        .map(|(name, value)| format!("{name}={}", percent_encode(value)))
        .join("&");
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = Method::POST;
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(CONTENT_TYPE, form);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        // Not part of the attempt's timing and fence, which are about the request to the target.
        let (timer, guard) = (AttemptTimer::default(), SendGuard::new(SendFence::unlimited()));
        let response = send_service_request(
            &self.client,
            &url,
            collection,
            request,
            RESPONSE_BYTES_MAX,
            AttemptContext { timer: &timer, guard: &guard },
        );
        let result = match tokio::time::timeout(REQUEST_TIMEOUT, response).await {
            Err(_) => Err(TokenRequestError::Timeout),
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(response)) => parse_token(&response, self.now(), credentials.secret),
        };
        result.map_err(|cause| TokenError::RequestFailed {
            client_id: credentials.client_id.to_owned(),
            tenant: credentials.tenant.to_owned(),
            host: url.host_str().unwrap_or_default().to_owned(),
            cause,
        })
    }
}

/// Parses the response of a token endpoint at `now`, in Unix seconds. The endpoint's message may
/// repeat `secret`, which is redacted.
fn parse_token(
    response: &ServiceResponse,
    now: i64,
    secret: &Secret,
) -> Result<CachedToken, TokenRequestError> {
    let refused = |message: String| {
        TokenRequestError::Refused(Redactor::for_secrets([secret]).redact_to_line(message))
    };
    let status = status_name(response.status.as_u16());
    let json: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let text = |name: &str| json.get(name).and_then(serde_json::Value::as_str);
    if !response.status.is_success() {
        let parts = [Some(&*status), text("error"), text("error_description")];
        return Err(refused(parts.into_iter().flatten().collect::<Vec<_>>().join(" ")));
    }
    let token = text("access_token").filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| refused(format!("{status}, but the response has no token")))?;
    // Some endpoints return the number as a string.
    let lifetime = json.get("expires_in").and_then(|lifetime| match lifetime {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    });
    let lifetime = lifetime.unwrap_or(LIFETIME_SECONDS_DEFAULT).clamp(0, LIFETIME_SECONDS_MAX);
    let renew_at = now + lifetime - RENEW_SECONDS_BEFORE.min(lifetime / 5);
    Ok(CachedToken { text: Secret::new(token.to_owned()), renew_at })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use hyper::StatusCode;
    use kalends_domain::{
        CollectionName, EgressMode, EgressPolicy, GroupName, GroupPath, SubscriptionId,
    };
    use kalends_environment::{ManualClock, SystemEntropy};

    use super::*;
    use crate::egress::{Egress, EgressSettings};

    /// A token endpoint that returns the responses in turn, and its count of requests.
    fn endpoint(responses: Vec<&'static str>) -> (Endpoint, Arc<AtomicU64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        std::thread::spawn(move || {
            for (response, stream) in responses.into_iter().zip(listener.incoming()) {
                let mut reader = BufReader::new(stream.unwrap());
                let mut length = 0;
                for line in reader.by_ref().lines().map(Result::unwrap) {
                    if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = text.trim().parse().unwrap();
                    }
                    if line.is_empty() {
                        break;
                    }
                }
                reader.read_exact(&mut vec![0; length]).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                reader.get_mut().write_all(response.as_bytes()).unwrap();
            }
        });
        (address.parse().unwrap(), requests)
    }

    // Each announces the end of its connection, which the client then does not use again.
    const TOKEN: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 40\r\n\r\n{\"access_token\":\"first\",\"expires_in\":60}";
    const REFUSED: &str = "HTTP/1.1 401 No\r\nConnection: close\r\nContent-Length: 26\r\n\r\n{\"error\":\"invalid_client\"}";

    fn client() -> Arc<Client> {
        let policy = EgressPolicy { mode: EgressMode::SingleUser, ..EgressPolicy::default() };
        let settings = EgressSettings { policy, ..EgressSettings::default() };
        let egress = Egress::new(settings, Arc::new(SystemEntropy)).unwrap();
        Arc::new(Client::new(egress, 8))
    }

    fn collection() -> CollectionPath {
        let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
        let group = GroupPath { subscription, group: GroupName::new("g").unwrap() };
        CollectionPath { group, collection: CollectionName::new("c").unwrap() }
    }

    /// Requests a token `count` times concurrently.
    async fn get_tokens(tokens: &Arc<TokenCache>, count: usize) -> Vec<Result<String, String>> {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..count {
            let tokens = Arc::clone(tokens);
            tasks.spawn(async move {
                let secret = Secret::new("canary".to_owned());
                let credentials = ClientCredentials {
                    tenant: "contoso.com",
                    audience: "https://a",
                    client_id: "c",
                    secret: &secret,
                };
                tokens
                    .token(&credentials, &collection())
                    .await
                    .map(|token| token.reveal().to_owned())
                    .map_err(|error| error.to_string())
            });
        }
        tasks.join_all().await
    }

    #[test]
    fn concurrent_attempts_share_a_request_and_expiring_tokens_are_renewed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (login, requests) = endpoint(vec![REFUSED, TOKEN, TOKEN]);
            let clock = Arc::new(ManualClock::new("2026-11-15T12:00:00Z".parse().unwrap()));
            let tokens = Arc::new(TokenCache::new(client(), clock.clone(), login));
            for result in get_tokens(&tokens, 8).await {
                let error = result.unwrap_err();
                assert!(error.contains("Unauthorized invalid_client"), "{error}");
                assert!(!error.contains("canary"), "{error}");
            }
            assert_eq!(requests.load(Ordering::SeqCst), 1, "waiting attempts share an error");
            assert_eq!(get_tokens(&tokens, 8).await, vec![Ok("first".to_owned()); 8]);
            assert_eq!(requests.load(Ordering::SeqCst), 2, "waiting attempts share a token");
            clock.set("2026-11-15T12:00:47Z".parse().unwrap());
            assert_eq!(get_tokens(&tokens, 1).await.len(), 1);
            assert_eq!(
                requests.load(Ordering::SeqCst),
                2,
                "cached until shortly before it expires"
            );
            clock.set("2026-11-15T12:00:48Z".parse().unwrap());
            assert_eq!(get_tokens(&tokens, 1).await, vec![Ok("first".to_owned())]);
            assert_eq!(requests.load(Ordering::SeqCst), 3);
        });
    }

    fn response(status: u16, body: &str) -> ServiceResponse {
        let status = StatusCode::from_u16(status).unwrap();
        ServiceResponse { status, retry_after: None, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn tokens_are_renewed_before_they_expire() {
        let secret = Secret::new("canary".to_owned());
        let check = |lifetime: &str, renew_at: i64| {
            let body = format!("{{\"access_token\":\"t\"{lifetime}}}");
            let token = parse_token(&response(200, &body), 1_000, &secret).unwrap();
            assert_eq!((token.text.reveal(), token.renew_at), ("t", renew_at), "{lifetime}");
        };
        check(",\"expires_in\":3600", 1_000 + 3_300);
        check(",\"expires_in\":\"3599\"", 1_000 + 3_299);
        check(",\"expires_in\":10", 1_000 + 8);
        check(",\"expires_in\":-5", 1_000);
        check(",\"expires_in\":99999999999", 1_000 + 86_100);
        check("", 1_000 + 240);
    }

    #[test]
    fn an_error_contains_the_endpoints_message() {
        let check = |status, body, expected: &str| {
            let result = parse_token(&response(status, body), 0, &Secret::new("canary".to_owned()));
            assert_eq!(result.err().map(|error| error.to_string()).as_deref(), Some(expected));
        };
        check(
            401,
            r#"{"error":"invalid_client","error_description":"AADSTS7000215: wrong"}"#,
            "Unauthorized invalid_client AADSTS7000215: wrong",
        );
        check(500, "<html>", "InternalServerError");
        check(200, "{}", "OK, but the response has no token");
    }
}
