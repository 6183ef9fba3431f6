//! The beginning and the end of the loop.

use std::sync::Arc;

use futures_util::StreamExt as _;
use kalends_store::{RunWrite, StoreError};
use tokio::sync::watch as signal;

use super::commit_results::WriteContext;
use super::outage::OutageDetector;
use super::wake_up::WakeUp;
use super::{STORE_RETRY, Scheduler};
use crate::settings::Nodes;

impl Scheduler {
    /// Finds out the time, and takes over what a dead predecessor has claimed, where it must be dead.
    pub(super) async fn begin(&mut self, stopping: &signal::Receiver<bool>) {
        while self.prepare().await.is_err() && !*stopping.borrow() {
            self.services.clock.sleep(STORE_RETRY).await;
        }
        let now = self.now();
        self.outage = OutageDetector::new(now, self.settings.lookahead / 2);
        self.load_schedule.at_once(now);
        self.prune_at = now;
    }

    async fn prepare(&mut self) -> Result<(), StoreError> {
        if let Some(clock) = &self.store_clock {
            clock.ask(&*self.services.store).await?;
        }
        if self.settings.nodes == Nodes::Single {
            self.services.store.expire_claims().await?;
        }
        Ok(())
    }

    /// Begins nothing more, lets attempts under way end within the grace time, and hands back the
    /// rest.
    pub(super) async fn shut_down(&mut self) {
        let is_result = |context: &WriteContext| {
            matches!(context, WriteContext::Conclude(..) | WriteContext::RenewLease(_))
        };
        let ends = self.services.clock.uptime() + self.settings.shutdown_grace;
        let clock = Arc::clone(&self.services.clock);
        let mut wake_up = WakeUp::default();
        self.commit_pacing.end();
        loop {
            self.pending_writes.retain(|(_, context)| is_result(context));
            let elapsed = clock.uptime();
            if elapsed >= self.store_retry_at {
                self.read_gate_states();
                self.renew_leases();
                self.write(self.now());
            }
            let is_done = self.held_claims.is_empty() && self.calls.committing == 0;
            if is_done || elapsed >= ends {
                break;
            }
            let renewal = self.renewals.front().map_or(ends, |renewal| renewal.at.min(ends));
            let wake_at = renewal.max(self.store_retry_at.min(ends));
            let now = self.now();
            wake_up.arm(&clock, now, now.saturating_add(wake_at.saturating_sub(elapsed)));
            tokio::select! {
                biased;
                Some(done) = self.store_calls.next() => self.handle_response(done),
                Some(ended) = self.results.1.recv() => self.receive_results(ended),
                () = wake_up.fired() => {}
            }
        }
        self.release_claims().await;
    }

    /// Gives up the claims that are left, so that others need not wait until they expire.
    async fn release_claims(&mut self) {
        let lease = std::time::Duration::ZERO;
        let release_claims = self.held_claims.iter().map(|(&run, claim)| RunWrite::RenewLease {
            run,
            token: claim.token,
            lease,
        });
        let writes: Vec<_> = release_claims.collect();
        if !writes.is_empty() {
            // Where this fails, they expire.
            drop(self.services.store.commit(writes).await);
        }
    }
}
