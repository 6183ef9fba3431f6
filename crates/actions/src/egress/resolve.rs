//! Name resolution with a short-lived cache; concurrent lookups of one name share a query.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kalends_environment::{Entropy, Stopwatch};
use tokio::net::lookup_host;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use super::dns::{self, RecordType};

/// Time limit of one lookup.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to live of a cached lookup. Short, because the system resolver does not report the TTL.
const CACHE_TTL: Duration = Duration::from_secs(5);
/// Cached lookups; the cache is cleared when it is full.
const CACHE_ENTRIES_MAX: usize = 4_096;
/// Concurrent lookups: the system resolver needs a thread for each.
const LOOKUPS_MAX: usize = 64;

type Lookup = Arc<OnceCell<Option<Arc<[IpAddr]>>>>;

/// Resolves host names.
pub(super) struct Resolver {
    /// Empty if the system resolver is used.
    servers: Vec<SocketAddr>,
    entropy: Arc<dyn Entropy>,
    cache: Mutex<HashMap<String, (Stopwatch, Lookup)>>,
    permits: Semaphore,
}

impl Resolver {
    pub(super) fn new(servers: Vec<SocketAddr>, entropy: Arc<dyn Entropy>) -> Resolver {
        let (cache, permits) = (Mutex::default(), Semaphore::new(LOOKUPS_MAX));
        Resolver { servers, entropy, cache, permits }
    }

    /// All addresses of a name; `None` if it has none or the lookup fails or times out.
    pub(super) async fn addresses(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        let lookup = self.cached(name);
        let found = lookup.get_or_init(|| self.look_up(name)).await.clone();
        if found.is_none() {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.remove(name);
        }
        found
    }

    /// The cached lookup of a name, or a new one to be filled.
    fn cached(&self, name: &str) -> Lookup {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, lookup)) = cache.get(name)
            && since.elapsed() < CACHE_TTL
        {
            return lookup.clone();
        }
        if cache.len() >= CACHE_ENTRIES_MAX {
            cache.clear();
        }
        let lookup = Lookup::default();
        cache.insert(name.to_owned(), (Stopwatch::start(), lookup.clone()));
        lookup
    }

    async fn look_up(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        let lookup = async {
            let _permit = self.permits.acquire().await.map_err(io::Error::other)?;
            match self.servers.is_empty() {
                true => {
                    let found = lookup_host((name, 0)).await?;
                    Ok::<Vec<IpAddr>, io::Error>(found.map(|address| address.ip()).collect())
                }
                false => self.query_servers(name).await,
            }
        };
        let found = timeout(RESOLVE_TIMEOUT, lookup).await.ok()?.ok()?;
        // An IPv4-mapped IPv6 address is checked as the IPv4 address.
        let found: Vec<_> = found.into_iter().map(|address| address.to_canonical()).collect();
        (!found.is_empty()).then(|| found.into())
    }

    async fn query_servers(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut random = [0; 4];
        self.entropy.fill(&mut random).map_err(io::Error::other)?;
        let [a, b, c, d] = random;
        let (v4, v6) = tokio::join!(
            dns::query(&self.servers, name, RecordType::A, u16::from_be_bytes([a, b])),
            dns::query(&self.servers, name, RecordType::Aaaa, u16::from_be_bytes([c, d])),
        );
        match (v4, v6) {
            (Ok(v4), Ok(v6)) => Ok([v4, v6].concat()),
            // Some servers support only one of the two record types.
            (Ok(found), Err(_)) | (Err(_), Ok(found)) if !found.is_empty() => Ok(found),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }
}
