//! Startup and graceful shutdown of the loop.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kalends_store::{RunWrite, StoreError};
use tokio::sync::watch as signal;

use super::commit_results::WriteContext;
use super::outage::OutageDetector;
use super::prune::{ClockStepDetector, PruneSchedule};
use super::wake_up::WakeUp;
use super::{STORE_RETRY, Scheduler};
use crate::settings::Nodes;
use crate::status::CallKind;

impl Scheduler {
    /// Synchronizes the clock and, with a single node, expires the claims of the previous process.
    pub(super) async fn start_up(&mut self, stopping: &signal::Receiver<bool>) {
        while let Err(error) = self.prepare().await
            && !*stopping.borrow()
        {
            self.status.store_responded(CallKind::Write, Some(&error));
            self.services.clock.sleep(STORE_RETRY).await;
        }
        self.status.store_responded(CallKind::Write, None);
        let now = self.now();
        self.outage = OutageDetector::new(now, self.settings.lookahead / 2);
        self.load_schedule.load_now(now);
        self.clock_steps = ClockStepDetector::new(now, self.services.clock.uptime());
        self.prune_schedule = PruneSchedule::new(now);
    }

    async fn prepare(&mut self) -> Result<(), StoreError> {
        if let Some(clock) = &self.store_clock {
            clock.synchronize(&*self.services.store).await?;
        }
        if self.settings.nodes == Nodes::Single {
            self.services.store.expire_claims().await?;
        }
        Ok(())
    }

    /// Starts no more attempts, waits up to the grace period for attempts in flight, and releases the
    /// remaining claims.
    pub(super) async fn shut_down(&mut self) {
        let is_result = |context: &WriteContext| matches!(context, WriteContext::Conclude(..));
        let ends = self.services.clock.uptime() + self.settings.shutdown_grace;
        let clock = Arc::clone(&self.services.clock);
        let mut wake_up = WakeUp::default();
        self.commit_pacing.disable();
        self.is_stopping = true;
        self.withdraw_next_attempts();
        self.return_claimed_ahead();
        loop {
            self.pending_writes.retain(|(_, context)| is_result(context));
            let elapsed = clock.uptime();
            self.renew_leases();
            if elapsed >= self.store_retry_at {
                self.read_current_jobs();
                self.write(self.now());
            }
            let is_done = self.held_claims.is_empty() && self.calls.committing == 0;
            if is_done || elapsed >= ends {
                break;
            }
            let retry = Some(self.store_retry_at).filter(|&at| elapsed < at);
            let wake_at = self.next_renewal().into_iter().chain(retry).fold(ends, Duration::min);
            let now = self.now();
            wake_up.arm(&clock, now, now.saturating_add(wake_at.saturating_sub(elapsed)));
            tokio::select! {
                biased;
                Some(response) = self.store_calls.next() => self.handle_response(response),
                Some(finished) = self.results.1.recv() => self.receive_results(finished),
                () = wake_up.fired() => {}
            }
        }
        self.release_claims().await;
    }

    /// Releases the remaining claims, so that other nodes do not wait for their expiry.
    async fn release_claims(&mut self) {
        let mut claims: Vec<_> =
            self.held_claims.iter().map(|(run, held)| (*run, held.token)).collect();
        // In the same order each time, so that simulations repeat exactly.
        claims.sort_unstable_by_key(|(run, _)| *run);
        let release = |(run, token)| RunWrite::RenewLease { run, token, lease: Duration::ZERO };
        let writes: Vec<_> = claims.into_iter().map(release).collect();
        if !writes.is_empty() {
            // If the commit fails, the claims expire.
            drop(self.services.store.commit(writes).await);
        }
    }
}
