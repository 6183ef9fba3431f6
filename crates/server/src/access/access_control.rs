//! Authenticates requests, counts them against rate limits, and holds the audit log.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, Method};
use kalends_domain::CollectionPath;
use kalends_store::SessionHash;
use kalends_wire::{ErrorCode, ErrorDetails, collection_id};

use crate::access::Caller;
use crate::access::authentication::{Authentication, Presented, presented_token};
use crate::access::authorization::Requirement;
use crate::access::oidc::OidcProvider;
use crate::access::rate_limit::{RateDecision, RateLimiter, RateSettings};
use crate::access::session_cookie;
use crate::access::sessions::StartedSession;
use crate::app::App;
use crate::audit::AuditLog;
use crate::capacity::RequestSlot;
use crate::client::{Client, ClientNetwork};
use crate::forwarded::RequestSource;
use crate::response::ApiError;

/// Access control of the API.
pub struct AccessControl {
    /// `None`: every request comes from the single user.
    tokens: Option<TokenAccess>,
    pub(crate) audit: AuditLog,
}

struct TokenAccess {
    authentication: Authentication,
    reads: RateLimiter,
    writes: RateLimiter,
    runs: RateLimiter,
    failures: RateLimiter,
    /// Codes of the identity provider that one address presents.
    code_exchanges: RateLimiter,
}

/// The header with the remaining requests of a caller, and their number.
type RemainingRequests = Option<(HeaderName, u32)>;

impl AccessControl {
    /// Treats every request as the single user's, without authentication and rate limits. For
    /// listeners on loopback addresses only.
    pub fn single_user(audit: AuditLog) -> AccessControl {
        AccessControl { tokens: None, audit }
    }

    /// Requires a bearer token or a session.
    pub fn with_tokens(
        authentication: Authentication,
        rates: RateSettings,
        audit: AuditLog,
    ) -> AccessControl {
        let tokens = TokenAccess {
            authentication,
            reads: RateLimiter::new(rates.reads),
            writes: RateLimiter::new(rates.writes),
            runs: RateLimiter::new(rates.runs),
            failures: RateLimiter::new(rates.failures),
            code_exchanges: RateLimiter::new(rates.failures),
        };
        AccessControl { tokens: Some(tokens), audit }
    }

    /// Whether every request comes from the single user.
    pub fn is_single_user(&self) -> bool {
        self.tokens.is_none()
    }

    /// The caller of a request.
    pub(crate) async fn authenticate(
        &self,
        app: &App,
        source: &RequestSource,
        method: &Method,
        headers: &HeaderMap,
        requirement: &Requirement,
        slot: &RequestSlot,
    ) -> Result<Caller, ApiError> {
        let Some(tokens) = &self.tokens else { return Ok(Caller::single_user()) };
        if *requirement == Requirement::Nothing {
            return Ok(Caller::anonymous());
        }
        if let Presented::Session(_) = Presented::of(headers) {
            session_cookie::check(method, source, headers)?;
        }
        // Boxed, because the future is large and the single user does not need it.
        let caller = Box::pin(tokens.authentication.authenticate(app, headers, slot)).await;
        caller.map_err(|error| {
            // A browser that opens the console without a session guesses nothing.
            match *requirement == Requirement::Page && Presented::of(headers) == Presented::Nothing
            {
                true => error,
                false => tokens.count_failure(app, source.client, headers, error),
            }
        })
    }

    /// Begins a session of a caller who presented a token.
    pub(crate) async fn start_session(
        &self,
        app: &App,
        caller: &Caller,
    ) -> Result<StartedSession, ApiError> {
        match &self.tokens {
            Some(tokens) => tokens.authentication.start_session(app, caller).await,
            None => {
                let message = "The server runs without authentication; no session is necessary";
                Err(ErrorDetails::one(ErrorCode::InvalidRequest, "", message).into())
            }
        }
    }

    /// The identity provider, if users can sign in there.
    pub(crate) fn sign_in_provider(&self) -> Option<&OidcProvider> {
        self.tokens.as_ref()?.authentication.sign_in_provider()
    }

    /// Counts a response of the identity provider against the rate limit of the client address: a
    /// code costs a request to the provider.
    pub(crate) fn allows_code_exchange(&self, app: &App, client: Client) -> bool {
        let Some(tokens) = &self.tokens else { return true };
        let decision = tokens.code_exchanges.take(&address_key(client), app.now());
        matches!(decision, RateDecision::Allowed { .. })
    }

    /// Ends a session.
    pub(crate) async fn end_session(&self, app: &App, hash: SessionHash) -> Result<(), ApiError> {
        match &self.tokens {
            Some(tokens) => tokens.authentication.end_session(app, hash).await,
            None => Ok(()),
        }
    }

    /// The caller of a request that was authenticated before: its token may have expired or been
    /// revoked since. Counts against no limit.
    pub(crate) async fn authenticate_again(
        &self,
        app: &App,
        headers: &HeaderMap,
        slot: &RequestSlot,
    ) -> Result<Caller, ApiError> {
        match &self.tokens {
            None => Ok(Caller::single_user()),
            Some(tokens) => tokens.authentication.authenticate(app, headers, slot).await,
        }
    }

    /// Counts a request against the rate limit of its caller. Returns the number of requests that
    /// remain, where there is a limit.
    pub(crate) fn count_request(
        &self,
        app: &App,
        caller: &Caller,
        method: &Method,
        requirement: &Requirement,
    ) -> Result<RemainingRequests, ApiError> {
        let Some(tokens) = self.tokens.as_ref().filter(|_| *requirement != Requirement::Nothing)
        else {
            return Ok(None);
        };
        let (limiter, name) = match method.is_safe() {
            true => (&tokens.reads, "x-ms-ratelimit-remaining-subscription-reads"),
            false => (&tokens.writes, "x-ms-ratelimit-remaining-subscription-writes"),
        };
        let remaining = |number| Some((HeaderName::from_static(name), number));
        match limiter.take(&caller.id, app.now()) {
            RateDecision::Allowed { remaining: number } => Ok(remaining(number)),
            RateDecision::Exceeded { retry_after } => {
                let error = too_many("Too many requests with this token", retry_after);
                Err(error.with_remaining(remaining(0)))
            }
        }
    }

    /// Counts a manual run against the rate limit of its collection.
    pub(crate) fn count_run(&self, app: &App, path: &CollectionPath) -> Result<(), ApiError> {
        let Some(tokens) = &self.tokens else { return Ok(()) };
        let collection = collection_id(path).to_ascii_uppercase().into();
        match tokens.runs.take(&collection, app.now()) {
            RateDecision::Allowed { .. } => Ok(()),
            RateDecision::Exceeded { retry_after } => {
                Err(too_many("Too many manual runs of jobs in this collection", retry_after))
            }
        }
    }
}

impl TokenAccess {
    /// Counts a failed authentication by client address and by token id, and replaces its error
    /// where either exceeds the limit. The limit never affects a valid token: many clients may share
    /// an address.
    fn count_failure(
        &self,
        app: &App,
        client: Client,
        headers: &HeaderMap,
        error: ApiError,
    ) -> ApiError {
        if error.code().status() != 401 {
            return error;
        }
        let now = app.now();
        let token = presented_token(headers).map(|id| Caller::id_of_token(&id));
        let sources = std::iter::once(address_key(client)).chain(token);
        let waits = sources.filter_map(|source| match self.failures.take(&source, now) {
            RateDecision::Allowed { .. } => None,
            RateDecision::Exceeded { retry_after } => Some(retry_after),
        });
        match waits.max() {
            None => error,
            Some(retry_after) => too_many("Too many invalid tokens", retry_after),
        }
    }
}

fn address_key(client: Client) -> Arc<str> {
    format!("address:{}", ClientNetwork::from(client)).into()
}

fn too_many(message: &str, retry_after: u64) -> ApiError {
    let message = format!("{message}; retry after {retry_after} s");
    ApiError::rate_limited(ErrorDetails::one(ErrorCode::TooManyRequests, "", message), retry_after)
}
