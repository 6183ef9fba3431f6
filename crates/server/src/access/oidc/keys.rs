//! The keys of a provider, fetched and kept. Old keys serve as long as newer ones cannot be fetched,
//! and tokens with names of keys that nobody has do not make it fetch without end.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kalends_actions::Fetcher;
use kalends_recurrence::Instant;
use kalends_wire::Json;

use crate::access::oidc::key::{PublicKey, read_keys, text};

/// Keys that are older are fetched again beside the next use.
const FRESH: Duration = Duration::from_secs(3_600);
/// For the sake of an unknown name they are fetched no more often.
const UNKNOWN_EVERY: Duration = Duration::from_secs(300);
/// As long as there are none at all they are fetched no more often.
const NONE_EVERY: Duration = Duration::from_secs(10);
/// Bytes of a document; that of Azure AD has some twenty thousand.
const DOCUMENT_BYTES_MAX: usize = 512 * 1024;

pub(super) struct Keys {
    fetcher: Fetcher,
    issuer: String,
    address: Option<String>,
    known: Mutex<Arc<Known>>,
    /// When they were last asked for. Who holds it asks, and others wait.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Known {
    keys: Vec<(String, PublicKey)>,
    fetched: Option<Instant>,
}

impl Known {
    fn find(&self, name: &str) -> Option<PublicKey> {
        self.keys.iter().find(|(known, _)| known == name).map(|(_, key)| key.clone())
    }
}

/// There are no keys at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoKeys;

impl Keys {
    pub(super) fn new(fetcher: Fetcher, issuer: String, address: Option<String>) -> Keys {
        Keys {
            fetcher,
            issuer,
            address,
            known: Mutex::default(),
            asked: tokio::sync::Mutex::default(),
        }
    }

    /// The key of a name, as it is known or, now and then, after another look.
    pub(super) async fn find(
        self: &Arc<Keys>,
        name: &str,
        now: Instant,
    ) -> Result<Option<PublicKey>, NoKeys> {
        let known = self.known();
        if let Some(key) = known.find(name) {
            if !known.fetched.is_some_and(|fetched| is_within(fetched, now, FRESH)) {
                let keys = Arc::clone(self);
                tokio::spawn(async move { keys.look_again(now, UNKNOWN_EVERY).await });
            }
            return Ok(Some(key));
        }
        let every = if known.keys.is_empty() { NONE_EVERY } else { UNKNOWN_EVERY };
        self.look_again(now, every).await;
        let known = self.known();
        match known.keys.is_empty() {
            true => Err(NoKeys),
            false => Ok(known.find(name)),
        }
    }

    /// Fetches the keys, whenever that was last done.
    pub(super) async fn refresh(&self, now: Instant) -> Result<(), String> {
        let mut asked = self.asked.lock().await;
        *asked = Some(now);
        let keys = self.fetch().await?;
        let known = Arc::new(Known { keys, fetched: Some(now) });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    async fn look_again(&self, now: Instant, every: Duration) {
        let asked = *self.asked.lock().await;
        if asked.is_some_and(|asked| is_within(asked, now, every)) {
            return;
        }
        if let Err(why) = self.refresh(now).await {
            // Nothing more can be done where even this cannot be written.
            let issuer = &self.issuer;
            let _ = writeln!(
                std::io::stderr(),
                "the keys of {issuer:?} cannot be fetched: {}",
                why.escape_debug()
            );
        }
    }

    async fn fetch(&self) -> Result<Vec<(String, PublicKey)>, String> {
        let address = match &self.address {
            Some(address) => address.clone(),
            None => self.discover().await?,
        };
        let document = self.fetcher.fetch(&address, DOCUMENT_BYTES_MAX).await;
        let document = document.map_err(|error| format!("{address}: {error}"))?;
        let keys = read_keys(&document).map_err(|why| format!("{address}: {why}"))?;
        match keys.is_empty() {
            true => Err(format!("{address}: it has no key for RS256 or ES256")),
            false => Ok(keys),
        }
    }

    /// Where the issuer says that its keys are.
    async fn discover(&self) -> Result<String, String> {
        let issuer = self.issuer.trim_end_matches('/');
        let address = format!("{issuer}/.well-known/openid-configuration");
        let wrong = |why: &dyn std::fmt::Display| format!("{address}: {why}");
        let document = self
            .fetcher
            .fetch(&address, DOCUMENT_BYTES_MAX)
            .await
            .map_err(|error| wrong(&error))?;
        let document = Json::parse(&document).map_err(|errors| wrong(&errors))?;
        if text(&document, "issuer") != Some(&self.issuer) {
            let named = text(&document, "issuer").unwrap_or("none");
            return Err(wrong(&format!("it is of the issuer {named:?}, spell it so")));
        }
        let keys = text(&document, "jwks_uri").ok_or_else(|| wrong(&"it names no jwks_uri"))?;
        Ok(keys.to_owned())
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether `now` is at most so much later; a clock that was set back is not.
fn is_within(then: Instant, now: Instant, time: Duration) -> bool {
    then <= now && now < then.saturating_add(time)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A provider whose document can be changed, and how often it was asked for.
    #[derive(Default)]
    struct Provider {
        document: Mutex<Option<String>>,
        asked: AtomicU32,
    }

    fn set(names: &[&str]) -> Option<String> {
        let key = |name: &&str| format!(r#"{{"kty":"RSA","kid":"{name}","n":"AQID","e":"AQAB"}}"#);
        let keys: Vec<_> = names.iter().map(key).collect();
        Some(format!(r#"{{"keys":[{}]}}"#, keys.join(",")))
    }

    async fn provider() -> (Arc<Provider>, Arc<Keys>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/keys", listener.local_addr().unwrap());
        let provider = Arc::new(Provider::default());
        let serving = Arc::clone(&provider);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await.unwrap();
                serving.asked.fetch_add(1, Ordering::SeqCst);
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
        let fetcher = Fetcher::new(kalends_actions::EgressSettings::default(), entropy).unwrap();
        (provider, Arc::new(Keys::new(fetcher, "https://issuer.test".into(), Some(address))))
    }

    fn at(second: i64) -> Instant {
        Instant::from_unix_seconds(1_770_000_000 + second).unwrap()
    }

    #[tokio::test]
    async fn unknown_names_make_it_look_once_in_five_minutes() {
        let (provider, keys) = provider().await;
        let asked = || provider.asked.load(Ordering::SeqCst);
        *provider.document.lock().unwrap() = set(&["a"]);
        assert!(keys.find("a", at(0)).await.unwrap().is_some());
        assert_eq!(asked(), 1);
        for number in 0..200 {
            let name = format!("flood-{number}");
            assert_eq!(keys.find(&name, at(299)).await, Ok(None));
        }
        assert_eq!(asked(), 1);
        *provider.document.lock().unwrap() = set(&["a", "b"]);
        assert_eq!(keys.find("b", at(299)).await, Ok(None));
        assert!(keys.find("b", at(300)).await.unwrap().is_some());
        assert_eq!(asked(), 2);
    }

    #[tokio::test]
    async fn old_keys_serve_as_long_as_there_are_no_newer_ones() {
        let (provider, keys) = provider().await;
        assert_eq!(keys.find("a", at(0)).await, Err(NoKeys));
        assert_eq!(keys.find("a", at(9)).await, Err(NoKeys));
        assert_eq!(provider.asked.load(Ordering::SeqCst), 1, "it is not asked all the time");
        *provider.document.lock().unwrap() = set(&["a"]);
        assert!(keys.find("a", at(10)).await.unwrap().is_some());
        *provider.document.lock().unwrap() = None;
        assert!(keys.find("a", at(100_000)).await.unwrap().is_some());
        assert!(keys.refresh(at(100_001)).await.is_err());
        assert!(keys.find("a", at(100_002)).await.unwrap().is_some());
        *provider.document.lock().unwrap() = Some(r#"{"keys":[]}"#.into());
        assert!(keys.refresh(at(100_003)).await.is_err());
        assert!(keys.find("a", at(100_004)).await.unwrap().is_some());
    }
}
