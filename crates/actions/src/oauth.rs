//! Tokens for HTTP actions that authenticate as an application (`ActiveDirectoryOAuth`): asked of
//! the tenant's token endpoint with the application's secret, kept until shortly before they end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request};
use kalends_domain::{CollectionPath, HttpAuthentication, Secret};
use kalends_environment::Clock;
use ring::digest::{SHA256, digest};

use crate::client::Client;
use crate::conceal::conceal;
use crate::endpoints::Endpoint;
use crate::exchange::{Answer, AnswerLimits, exchange};
use crate::laps::Laps;
use crate::signature::encoded;
use crate::status::status_name;

/// Tokens that are kept; then the one that ends first goes.
const TOKENS_MAX: usize = 1_000;
/// Bytes of the endpoint's answer; a token has some two thousand.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long an answer is waited for, however long the attempt may take: others wait for it too.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// A token is asked for anew so long before it ends, or a fifth of its life if that is shorter.
const RENEW_SECONDS_BEFORE: i64 = 300;
/// What a token lives that does not say.
const LIFE_SECONDS_UNSAID: i64 = 300;
/// No token is kept longer, whatever it says.
const LIFE_SECONDS_MAX: i64 = 86_400;

/// The application as which a request is made.
pub(crate) struct Application<'a> {
    tenant: &'a str,
    audience: &'a str,
    client_id: &'a str,
    secret: &'a Secret,
}

impl Application<'_> {
    /// The application of an authentication, where it is of this kind.
    pub(crate) fn of(
        authentication: Option<&HttpAuthentication>,
    ) -> Result<Option<Application<'_>>, String> {
        let Some(HttpAuthentication::ActiveDirectoryOAuth { tenant, audience, client_id, secret }) =
            authentication
        else {
            return Ok(None);
        };
        match (tenant, audience, client_id, secret) {
            (Some(tenant), Some(audience), Some(client_id), Some(secret)) => {
                Ok(Some(Application { tenant, audience, client_id, secret }))
            }
            _ => {
                Err("the job has no tenant, audience, clientId or secret for its authentication"
                    .into())
            }
        }
    }

    fn key(&self) -> Key {
        Key {
            tenant: self.tenant.to_ascii_lowercase(),
            audience: self.audience.to_owned(),
            client_id: self.client_id.to_owned(),
            secret: digest(&SHA256, self.secret.reveal().as_bytes()).as_ref().to_vec(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    tenant: String,
    audience: String,
    client_id: String,
    /// Its digest, so that another secret does not get this one's token.
    secret: Vec<u8>,
}

/// A token that is good until then, in Unix seconds.
#[derive(Clone)]
struct Token {
    text: Secret,
    renew_at: i64,
}

#[derive(Default)]
struct Slot {
    /// Held while the token is asked for, so that one asks and the others wait for it.
    state: tokio::sync::Mutex<Option<Result<Token, String>>>,
    /// How often it was asked for.
    asked: AtomicU64,
    renew_at: Mutex<i64>,
}

/// Gets tokens and keeps them.
pub(crate) struct Tokens {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    login: Endpoint,
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

impl Tokens {
    pub(crate) fn new(client: Arc<Client>, clock: Arc<dyn Clock>, login: Endpoint) -> Tokens {
        Tokens { client, clock, login, slots: Mutex::new(HashMap::new()) }
    }

    /// A token for an application: a kept one, or a new one. A failure is told to all who waited
    /// for it, and the next who asks tries again.
    pub(crate) async fn token(
        &self,
        application: &Application<'_>,
        collection: &CollectionPath,
    ) -> Result<Secret, String> {
        let slot = self.slot(application.key());
        let seen = slot.asked.load(Ordering::Acquire);
        let mut state = slot.state.lock().await;
        match &*state {
            Some(Ok(token)) if self.now() < token.renew_at => return Ok(token.text.clone()),
            Some(Err(why)) if slot.asked.load(Ordering::Acquire) != seen => return Err(why.clone()),
            _ => {}
        }
        let asked = self.ask(application, collection).await;
        slot.asked.fetch_add(1, Ordering::Release);
        if let Ok(token) = &asked {
            *slot.renew_at.lock().unwrap_or_else(PoisonError::into_inner) = token.renew_at;
        }
        *state = Some(asked.clone());
        asked.map(|token| token.text)
    }

    /// A target did not accept `token`: it is not used again.
    pub(crate) async fn forget(&self, whose: Option<&HttpAuthentication>, token: &Secret) {
        let Ok(Some(application)) = Application::of(whose) else { return };
        let slot = self.slot(application.key());
        let mut state = slot.state.lock().await;
        if state.as_ref().is_some_and(|kept| kept.as_ref().is_ok_and(|kept| kept.text == *token)) {
            *state = None;
        }
    }

    fn now(&self) -> i64 {
        self.clock.now().as_second()
    }

    fn slot(&self, key: Key) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if !slots.contains_key(&key) && slots.len() >= TOKENS_MAX {
            let ends =
                |slot: &Arc<Slot>| *slot.renew_at.lock().unwrap_or_else(PoisonError::into_inner);
            let first = slots.iter().min_by_key(|(_, slot)| ends(slot));
            if let Some(first) = first.map(|(key, _)| key.clone()) {
                slots.remove(&first);
            }
        }
        Arc::clone(slots.entry(key).or_default())
    }

    async fn ask(
        &self,
        application: &Application<'_>,
        collection: &CollectionPath,
    ) -> Result<Token, String> {
        let url = self.login.below(&[application.tenant, "oauth2", "token"]);
        let url = url.ok_or("the token endpoint's address is unusable")?;
        let body = [
            ("grant_type", "client_credentials"),
            ("client_id", application.client_id),
            ("client_secret", application.secret.reveal()),
            ("resource", application.audience),
        ]
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .join("&");
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = Method::POST;
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(CONTENT_TYPE, form);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let limits = AnswerLimits { body_bytes_max: ANSWER_BYTES_MAX };
        // A part of getting ready: what is noted is of the request itself.
        let laps = Laps::default();
        let answer = exchange(&self.client, &url, collection, request, limits, &laps);
        let answer = tokio::time::timeout(ANSWER_MAX, answer).await;
        let host = url.host_str().unwrap_or_default();
        let failed = |why: &str| {
            format!(
                "AuthenticationFailure No token for client '{}' of tenant '{}' from '{host}': {why}",
                application.client_id, application.tenant
            )
        };
        let answer = answer.map_err(|_| failed("Timeout The operation has timed out"))?;
        let answer = answer.map_err(|why| failed(&why.to_string()))?;
        read_token(&answer, self.now()).map_err(|why| failed(&conceal(&why, &[application.secret])))
    }
}

/// Reads the answer of a token endpoint at `now`, in Unix seconds.
fn read_token(answer: &Answer, now: i64) -> Result<Token, String> {
    let status = status_name(answer.status.as_u16());
    let said: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = |name: &str| said.get(name).and_then(serde_json::Value::as_str);
    if !answer.status.is_success() {
        let parts = [Some(status.as_str()), text("error"), text("error_description")];
        return Err(parts.into_iter().flatten().collect::<Vec<_>>().join(" "));
    }
    let token = text("access_token").filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| format!("{status}, but the answer has no token"))?;
    // Some endpoints write the number as a text.
    let life = said.get("expires_in").and_then(|life| match life {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    });
    let life = life.unwrap_or(LIFE_SECONDS_UNSAID).clamp(0, LIFE_SECONDS_MAX);
    let renew_at = now + life - RENEW_SECONDS_BEFORE.min(life / 5);
    Ok(Token { text: Secret::new(token.to_owned()), renew_at })
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

    /// A token endpoint that gives every answer in its turn, and how often it was asked.
    fn endpoint(answers: Vec<&'static str>) -> (Endpoint, Arc<AtomicU64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (answer, stream) in answers.into_iter().zip(listener.incoming()) {
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
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        });
        (address.parse().unwrap(), asked)
    }

    const TOKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"access_token\":\"first\",\"expires_in\":60}";
    const REFUSED: &str =
        "HTTP/1.1 401 No\r\nContent-Length: 26\r\n\r\n{\"error\":\"invalid_client\"}";

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

    /// Asks for a token `count` times at once.
    async fn ask(tokens: &Arc<Tokens>, count: usize) -> Vec<Result<String, String>> {
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..count {
            let tokens = Arc::clone(tokens);
            asking.spawn(async move {
                let secret = Secret::new("canary".to_owned());
                let application = Application {
                    tenant: "contoso.com",
                    audience: "https://a",
                    client_id: "c",
                    secret: &secret,
                };
                tokens
                    .token(&application, &collection())
                    .await
                    .map(|token| token.reveal().to_owned())
            });
        }
        asking.join_all().await
    }

    #[test]
    fn one_asks_for_all_who_wait_and_a_token_that_ends_is_asked_for_anew() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (login, asked) = endpoint(vec![REFUSED, TOKEN, TOKEN]);
            let clock = Arc::new(ManualClock::new("2026-11-15T12:00:00Z".parse().unwrap()));
            let tokens = Arc::new(Tokens::new(client(), clock.clone(), login));
            for answer in ask(&tokens, 8).await {
                let why = answer.unwrap_err();
                assert!(why.contains("Unauthorized invalid_client"), "{why}");
                assert!(!why.contains("canary"), "{why}");
            }
            assert_eq!(asked.load(Ordering::SeqCst), 1, "a failure is shared by who waited");
            assert_eq!(ask(&tokens, 8).await, vec![Ok("first".to_owned()); 8]);
            assert_eq!(asked.load(Ordering::SeqCst), 2, "and so is a token");
            clock.set("2026-11-15T12:00:47Z".parse().unwrap());
            assert_eq!(ask(&tokens, 1).await.len(), 1);
            assert_eq!(asked.load(Ordering::SeqCst), 2, "it is good until shortly before its end");
            clock.set("2026-11-15T12:00:48Z".parse().unwrap());
            assert_eq!(ask(&tokens, 1).await, vec![Ok("first".to_owned())]);
            assert_eq!(asked.load(Ordering::SeqCst), 3);
        });
    }

    fn answer(status: u16, body: &str) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        Answer { status, retry_after: None, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn tokens_are_renewed_before_they_end() {
        let check = |life: &str, renew_at: i64| {
            let body = format!("{{\"access_token\":\"t\"{life}}}");
            let token = read_token(&answer(200, &body), 1_000).unwrap();
            assert_eq!((token.text.reveal(), token.renew_at), ("t", renew_at), "{life}");
        };
        check(",\"expires_in\":3600", 1_000 + 3_300);
        check(",\"expires_in\":\"3599\"", 1_000 + 3_299);
        check(",\"expires_in\":10", 1_000 + 8);
        check(",\"expires_in\":-5", 1_000);
        check(",\"expires_in\":99999999999", 1_000 + 86_100);
        check("", 1_000 + 240);
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_endpoint() {
        let check = |status, body, expected: &str| {
            assert_eq!(read_token(&answer(status, body), 0).err().as_deref(), Some(expected));
        };
        check(
            401,
            r#"{"error":"invalid_client","error_description":"AADSTS7000215: wrong"}"#,
            "Unauthorized invalid_client AADSTS7000215: wrong",
        );
        check(500, "<html>", "InternalServerError");
        check(200, "{}", "OK, but the answer has no token");
    }
}
