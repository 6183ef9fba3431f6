//! What every request passes: who asks, how often, and a line about it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, Method};
use kalends_domain::CollectionPath;
use kalends_wire::{ErrorCode, ErrorDetails, collection_id};

use crate::access::Caller;
use crate::access::authentication::{Authentication, Denied};
use crate::access::permit::Need;
use crate::access::rates::{Rate, RateSettings, Rates};
use crate::answer::Refused;
use crate::app::App;
use crate::audit::AuditLog;

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client(pub(crate) SocketAddr);

/// What every request passes.
pub struct Gate {
    guard: Option<Guard>,
    pub(crate) audit: AuditLog,
}

/// What there is beyond the single user.
struct Guard {
    authentication: Authentication,
    reads: Rates,
    writes: Rates,
    runs: Rates,
    failures: Rates,
}

/// Somebody who may ask, and how often he may ask again.
pub(crate) struct Passed {
    pub(crate) caller: Caller,
    pub(crate) left: Option<(HeaderName, u32)>,
}

/// Why somebody may not ask.
pub(crate) struct Stopped {
    pub(crate) refused: Refused,
    /// Who it is, where that is known.
    pub(crate) caller: Option<Caller>,
    pub(crate) left: Option<(HeaderName, u32)>,
}

impl Gate {
    /// Everybody is the single user. For listeners on the loopback.
    pub fn open(audit: AuditLog) -> Gate {
        Gate { guard: None, audit }
    }

    /// Everybody needs a token.
    pub fn guarded(authentication: Authentication, rates: RateSettings, audit: AuditLog) -> Gate {
        let guard = Guard {
            authentication,
            reads: Rates::new(rates.reads),
            writes: Rates::new(rates.writes),
            runs: Rates::new(rates.runs),
            failures: Rates::new(rates.failures),
        };
        Gate { guard: Some(guard), audit }
    }

    /// Whether everybody is the single user.
    pub(crate) fn is_open(&self) -> bool {
        self.guard.is_none()
    }

    /// Who asks, and whether he may ask so often.
    pub(crate) async fn pass(
        &self,
        app: &App,
        client: Option<Client>,
        method: &Method,
        headers: &HeaderMap,
        need: &Need,
    ) -> Result<Passed, Stopped> {
        let Some(guard) = &self.guard else {
            return Ok(Passed { caller: Caller::single_user(), left: None });
        };
        if *need == Need::Nothing {
            return Ok(Passed { caller: Caller::nobody(), left: None });
        }
        // Large, and of no use to the single user.
        let caller = match Box::pin(guard.authentication.authenticate(app, headers)).await {
            Ok(caller) => caller,
            Err(denied) => {
                let refused = guard.count_failure(app, client, denied);
                return Err(Stopped { refused, caller: None, left: None });
            }
        };
        let (rates, name) = match method.is_safe() {
            true => (&guard.reads, "x-ms-ratelimit-remaining-subscription-reads"),
            false => (&guard.writes, "x-ms-ratelimit-remaining-subscription-writes"),
        };
        let left = |left| Some((HeaderName::from_static(name), left));
        match rates.take(&caller.id, app.now()) {
            Rate::Left(more) => Ok(Passed { caller, left: left(more) }),
            Rate::Wait(seconds) => {
                let refused = too_many("this token asks too often", seconds);
                Err(Stopped { refused, caller: Some(caller), left: left(0) })
            }
        }
    }

    /// Whether another run of a job of this collection may be asked for.
    pub(crate) fn pass_run(&self, app: &App, path: &CollectionPath) -> Result<(), Refused> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let collection = collection_id(path).to_ascii_uppercase().into();
        match guard.runs.take(&collection, app.now()) {
            Rate::Left(_) => Ok(()),
            Rate::Wait(seconds) => {
                Err(too_many("the jobs of this collection are run too often by hand", seconds))
            }
        }
    }
}

impl Guard {
    /// Who fails too often is told to wait. A right token is never refused for others' failures:
    /// all clients behind a proxy have one address.
    fn count_failure(&self, app: &App, client: Option<Client>, denied: Denied) -> Refused {
        if denied.refused.errors.code().status() != 401 {
            return denied.refused;
        }
        let now = app.now();
        let token = denied.token.as_ref().map(Caller::id_of_token);
        let sources = client.map(|client| source(client.0.ip())).into_iter().chain(token);
        let waits = sources.filter_map(|source| match self.failures.take(&source, now) {
            Rate::Left(_) => None,
            Rate::Wait(seconds) => Some(seconds),
        });
        match waits.max() {
            None => denied.refused,
            Some(seconds) => too_many("too many tokens were wrong", seconds),
        }
    }
}

/// An address as far as it tells clients from each other: of IPv6, everybody has a whole network.
fn source(address: IpAddr) -> Arc<str> {
    let address = match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = u128::from(v6) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        v4 => v4,
    };
    format!("address:{address}").into()
}

fn too_many(message: &str, seconds: u64) -> Refused {
    let message = format!("{message}; try again in {seconds} s");
    Refused::wait(ErrorDetails::one(ErrorCode::TooManyRequests, "", message), seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_client_is_its_network_and_a_mapped_one_its_ipv4_address() {
        let check = |address: &str, expected: &str| {
            assert_eq!(&*source(address.parse().unwrap()), expected, "{address}");
        };
        check("192.0.2.7", "address:192.0.2.7");
        check("::ffff:192.0.2.7", "address:192.0.2.7");
        check("2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::");
    }
}
