//! Renewal of the leases of this node's claims. Renewals are store calls of their own: behind other
//! writes they would come too late.

use std::sync::Arc;
use std::time::Duration;

use kalends_actions::SendFence;
use kalends_store::record::{Claim, FencingToken, RunId};
use kalends_store::{LeaseRenewal, RenewalResult, StoreError};

use super::store_calls::StoreResponse;
use super::{BATCH_MAX, Scheduler};
use crate::status::CallKind;

/// A claim is not used in the last part of its lease, to allow for clock and network delays.
const LEASE_MARGIN: Duration = Duration::from_millis(500);
/// Maximum number of concurrent renewal calls: one that hangs does not delay the others.
const RENEWAL_CALLS_MAX: usize = 4;
/// Pause after a failed renewal. A lease of ten seconds, half of which is left, has time for two more.
const RENEWAL_RETRY: Duration = Duration::from_millis(200);

/// A claim of this node.
pub(super) struct HeldClaim {
    pub(super) token: FencingToken,
    /// Lets the attempt send while the lease is certainly valid.
    fence: SendFence,
}

impl Scheduler {
    /// Records a claim that the store granted to a call made at the uptime `began`.
    pub(super) fn hold_claim(&mut self, run: RunId, claim: Claim, began: Duration) -> SendFence {
        let fence =
            SendFence::open_until(Arc::clone(&self.services.clock), self.holds_until(began));
        let held = HeldClaim { token: claim.token, fence: fence.clone() };
        self.held_claims.insert(run, held);
        // Runs of one commit share an entry.
        self.schedule_renewal(began + self.settings.lease / 2, run, claim.token);
        fence
    }

    /// Uptime until which a lease certainly holds. Conservative: the store starts the lease after the
    /// call was made.
    fn holds_until(&self, began: Duration) -> Duration {
        began + self.settings.lease.saturating_sub(LEASE_MARGIN)
    }

    fn schedule_renewal(&mut self, at: Duration, run: RunId, token: FencingToken) {
        self.renewals.entry(at).or_default().push((run, token));
    }

    /// Uptime of the next renewal, if one may start.
    pub(super) fn next_renewal(&self) -> Option<Duration> {
        let next = self.renewals.first_key_value().map(|(at, _)| *at);
        next.filter(|_| self.calls.renewing < RENEWAL_CALLS_MAX)
    }

    /// Renews leases that are half expired.
    pub(super) fn renew_leases(&mut self) {
        let (elapsed, lease) = (self.services.clock.uptime(), self.settings.lease);
        while self.next_renewal().is_some_and(|at| at <= elapsed) {
            let mut renewals = Vec::new();
            while renewals.len() < BATCH_MAX
                && let Some(mut entry) =
                    self.renewals.first_entry().filter(|it| *it.key() <= elapsed)
            {
                let Some((run, token)) = entry.get_mut().pop() else {
                    entry.remove();
                    continue;
                };
                // The renewal of an older claim is dropped.
                if self.held_claims.get(&run).is_some_and(|held| held.token == token) {
                    renewals.push(LeaseRenewal { run, token, lease });
                }
            }
            if renewals.is_empty() {
                continue;
            }
            self.calls.renewing += 1;
            let store = Arc::clone(&self.services.store);
            self.store_calls.push(Box::pin(async move {
                let results = store.renew_leases(renewals.clone()).await;
                StoreResponse::Renewed { began: elapsed, renewals, results }
            }));
        }
    }

    pub(super) fn handle_renewals(
        &mut self,
        began: Duration,
        renewals: Vec<LeaseRenewal>,
        results: Result<Vec<RenewalResult>, StoreError>,
    ) {
        self.calls.renewing -= 1;
        let now = self.now();
        let results = match results {
            Ok(results) => {
                self.outage.call_succeeded(CallKind::Write, now);
                results
            }
            Err(_) => {
                self.outage.call_failed(CallKind::Write, now);
                vec![RenewalResult::Busy; renewals.len()]
            }
        };
        let (holds_until, elapsed) = (self.holds_until(began), self.services.clock.uptime());
        let (next, retry) = (elapsed + self.settings.lease / 2, elapsed + RENEWAL_RETRY);
        for (LeaseRenewal { run, token, .. }, result) in renewals.into_iter().zip(results) {
            let held = self.held_claims.get(&run).filter(|held| held.token == token);
            let Some(HeldClaim { fence, .. }) = held else { continue };
            match result {
                RenewalResult::Renewed(_) => {
                    fence.extend(holds_until);
                    self.schedule_renewal(next, run, token);
                }
                RenewalResult::Busy => self.schedule_renewal(retry, run, token),
                // Another node took over. The result of an attempt in flight will be rejected.
                RenewalResult::Lost => fence.cancel(),
            }
        }
    }
}
