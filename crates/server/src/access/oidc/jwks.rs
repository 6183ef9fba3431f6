//! The JSON Web Key Set (JWKS) of a provider: fetched on demand and cached. Cached keys remain in use
//! while a refresh fails, and unknown key ids in tokens do not cause a fetch each.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kalends_recurrence::Instant;

use crate::access::oidc::OidcError;
use crate::access::oidc::discovery::Discovery;
use crate::access::oidc::public_key::{PublicKey, read_keys};
use crate::capacity::{RequestSlot, WaitsFor};

/// Age after which the next use starts a refresh in the background.
const KEYS_TTL: Duration = Duration::from_secs(3_600);
/// Minimum interval between two fetches if there are keys.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// Minimum interval between two fetches while there are no keys.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct Jwks {
    discovery: Discovery,
    /// `None`: found by OIDC discovery.
    url: Option<String>,
    cached: Mutex<Arc<CachedKeys>>,
    /// Time of the last fetch. Locked during a fetch, so that there is one at a time.
    last_fetch: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct CachedKeys {
    /// Keys with their `kid`.
    keys: Vec<(String, PublicKey)>,
    fetched_at: Option<Instant>,
}

impl CachedKeys {
    fn find(&self, id: &str) -> Option<PublicKey> {
        self.keys.iter().find(|(other, _)| other == id).map(|(_, key)| key.clone())
    }
}

/// No keys could be fetched so far, or too many requests wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeysUnavailable;

impl Jwks {
    pub(super) fn new(discovery: Discovery, url: Option<String>) -> Jwks {
        Jwks { discovery, url, cached: Mutex::default(), last_fetch: tokio::sync::Mutex::default() }
    }

    /// The key with an id. An unknown id causes a fetch, unless the last one is too recent.
    pub(super) async fn find(
        self: &Arc<Jwks>,
        id: &str,
        now: Instant,
        slot: &RequestSlot,
    ) -> Result<Option<PublicKey>, KeysUnavailable> {
        let cached = self.cached();
        if let Some(key) = cached.find(id) {
            if !cached.fetched_at.is_some_and(|fetched| is_within(fetched, now, KEYS_TTL)) {
                let jwks = Arc::clone(self);
                tokio::spawn(async move { jwks.refresh_if_due(now, REFRESH_INTERVAL).await });
            }
            return Ok(Some(key));
        }
        let interval = if cached.keys.is_empty() { RETRY_INTERVAL } else { REFRESH_INTERVAL };
        let refreshed = slot.wait(WaitsFor::Keys, self.refresh_if_due(now, interval)).await;
        refreshed.map_err(|_| KeysUnavailable)?;
        let cached = self.cached();
        match cached.keys.is_empty() {
            true => Err(KeysUnavailable),
            false => Ok(cached.find(id)),
        }
    }

    /// Fetches the keys now.
    pub(super) async fn refresh(&self, now: Instant) -> Result<(), OidcError> {
        let mut last_fetch = self.last_fetch.lock().await;
        self.fetch_and_cache(&mut last_fetch, now).await
    }

    async fn fetch_and_cache(
        &self,
        last_fetch: &mut Option<Instant>,
        now: Instant,
    ) -> Result<(), OidcError> {
        *last_fetch = Some(now);
        let keys = self.fetch().await?;
        let cached = Arc::new(CachedKeys { keys, fetched_at: Some(now) });
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = cached;
        Ok(())
    }

    async fn refresh_if_due(&self, now: Instant, interval: Duration) {
        // Held from the check to the end of the fetch: of many requests that find a fetch due, one
        // fetches, and the others find that it was recent.
        let mut last_fetch = self.last_fetch.lock().await;
        if last_fetch.is_some_and(|last_fetch| is_recent(last_fetch, now, interval)) {
            return;
        }
        if let Err(error) = self.fetch_and_cache(&mut last_fetch, now).await {
            let error = error.to_string().escape_debug().to_string();
            let issuer = &self.discovery.issuer;
            tracing::warn!(issuer, error, "fetching the keys of the issuer failed");
        }
    }

    async fn fetch(&self) -> Result<Vec<(String, PublicKey)>, OidcError> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => {
                let jwks = self.discovery.endpoints().await?.jwks;
                jwks.ok_or_else(|| self.discovery.lacks("jwks_uri"))?
            }
        };
        let document = self.discovery.fetch(&url).await?;
        let keys = read_keys(&document).map_err(|why| OidcError::document(&url, why))?;
        match keys.is_empty() {
            true => Err(OidcError::document(&url, "it has no key for RS256 or ES256")),
            false => Ok(keys),
        }
    }

    fn cached(&self) -> Arc<CachedKeys> {
        Arc::clone(&self.cached.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether less than `time` lies between the two. A request may have read the clock before the fetch
/// that it waited for.
pub(super) fn is_recent(then: Instant, now: Instant, time: Duration) -> bool {
    is_within(then, now, time) || is_within(now, then, time)
}

/// Whether `now` is less than `time` after `then`. False if the clock was set back before `then`.
fn is_within(then: Instant, now: Instant, time: Duration) -> bool {
    then <= now && now < then.saturating_add(time)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::capacity::RequestCapacity;

    /// A provider whose document tests can change. Counts its requests.
    #[derive(Default)]
    struct Provider {
        document: Mutex<Option<String>>,
        requests: AtomicU32,
    }

    fn set(ids: &[&str]) -> Option<String> {
        let key = |id: &&str| format!(r#"{{"kty":"RSA","kid":"{id}","n":"AQID","e":"AQAB"}}"#);
        let keys: Vec<_> = ids.iter().map(key).collect();
        Some(format!(r#"{{"keys":[{}]}}"#, keys.join(",")))
    }

    async fn provider() -> (Arc<Provider>, Arc<Jwks>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/keys", listener.local_addr().unwrap());
        let provider = Arc::new(Provider::default());
        let serving = Arc::clone(&provider);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await.unwrap();
                serving.requests.fetch_add(1, Ordering::SeqCst);
                let document = serving.document.lock().unwrap().clone();
                let (status, body) = match document {
                    Some(document) => ("200 OK", document),
                    None => ("500 Broken", String::new()),
                };
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).await.unwrap();
            }
        });
        let entropy = Arc::new(kalends_environment::SystemEntropy);
        let settings = kalends_actions::EgressSettings::default();
        let fetcher = kalends_actions::Fetcher::new(settings, entropy).unwrap();
        let discovery = Discovery { fetcher, issuer: "https://issuer.test".into() };
        (provider, Arc::new(Jwks::new(discovery, Some(address))))
    }

    impl Jwks {
        async fn find_unlimited(
            self: &Arc<Jwks>,
            id: &str,
            now: Instant,
        ) -> Result<Option<PublicKey>, KeysUnavailable> {
            let client = std::net::IpAddr::from([127, 0, 0, 1]).into();
            let slot = RequestSlot::outside(Arc::new(RequestCapacity::new(true)), client);
            self.find(id, now, &slot).await
        }
    }

    fn at(second: i64) -> Instant {
        Instant::from_unix_seconds(1_770_000_000 + second).unwrap()
    }

    #[tokio::test]
    async fn unknown_key_ids_cause_one_fetch_in_five_minutes() {
        let (provider, jwks) = provider().await;
        let requests = || provider.requests.load(Ordering::SeqCst);
        *provider.document.lock().unwrap() = set(&["a"]);
        assert!(jwks.find_unlimited("a", at(0)).await.unwrap().is_some());
        assert_eq!(requests(), 1);
        for number in 0..200 {
            let id = format!("flood-{number}");
            assert_eq!(jwks.find_unlimited(&id, at(299)).await, Ok(None));
        }
        assert_eq!(requests(), 1);
        *provider.document.lock().unwrap() = set(&["a", "b"]);
        assert_eq!(jwks.find_unlimited("b", at(299)).await, Ok(None));
        assert!(jwks.find_unlimited("b", at(300)).await.unwrap().is_some());
        assert_eq!(requests(), 2);
    }

    #[tokio::test]
    async fn cached_keys_remain_in_use_while_a_refresh_fails() {
        let (provider, jwks) = provider().await;
        assert_eq!(jwks.find_unlimited("a", at(0)).await, Err(KeysUnavailable));
        assert_eq!(jwks.find_unlimited("a", at(9)).await, Err(KeysUnavailable));
        assert_eq!(provider.requests.load(Ordering::SeqCst), 1, "failed fetches are limited too");
        *provider.document.lock().unwrap() = set(&["a"]);
        assert!(jwks.find_unlimited("a", at(10)).await.unwrap().is_some());
        *provider.document.lock().unwrap() = None;
        assert!(jwks.find_unlimited("a", at(100_000)).await.unwrap().is_some());
        assert!(jwks.refresh(at(100_001)).await.is_err());
        assert!(jwks.find_unlimited("a", at(100_002)).await.unwrap().is_some());
        *provider.document.lock().unwrap() = Some(r#"{"keys":[]}"#.into());
        assert!(jwks.refresh(at(100_003)).await.is_err());
        assert!(jwks.find_unlimited("a", at(100_004)).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn concurrent_requests_with_unknown_keys_share_one_fetch() {
        let (provider, jwks) = provider().await;
        let found = (0..100).map(|number| {
            let jwks = Arc::clone(&jwks);
            // Requests that arrive later may be earlier at the lock.
            async move { jwks.find_unlimited("a", at(number % 7)).await }
        });
        let found = futures_util::future::join_all(found).await;
        assert!(found.iter().all(|found| *found == Err(KeysUnavailable)));
        assert_eq!(provider.requests.load(Ordering::SeqCst), 1);
    }
}
