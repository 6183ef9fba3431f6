//! The beginning and the end of the loop.

use std::sync::Arc;

use futures_util::StreamExt as _;
use kalends_store::{RunWrite, StoreError};
use tokio::sync::watch as signal;

use super::alarm::Alarm;
use super::follow_up::About;
use super::watch::Watch;
use super::{Ledger, STORE_RETRY};
use crate::settings::Neighbours;

impl Ledger {
    /// Finds out the time, and takes over what a dead predecessor has claimed, where it must be dead.
    pub(super) async fn begin(&mut self, stopping: &signal::Receiver<bool>) {
        while self.prepare().await.is_err() && !*stopping.borrow() {
            self.tools.clock.sleep(STORE_RETRY).await;
        }
        let now = self.now();
        self.watch = Watch::new(now, self.settings.looks_ahead / 2);
        self.loads.at_once(now);
        self.prune_at = now;
    }

    async fn prepare(&mut self) -> Result<(), StoreError> {
        if let Some(clock) = &self.store_clock {
            clock.ask(&*self.tools.store).await?;
        }
        if self.settings.neighbours == Neighbours::Impossible {
            self.tools.store.expire_claims().await?;
        }
        Ok(())
    }

    /// Begins nothing more, lets attempts under way end within the grace time, and hands back the
    /// rest.
    pub(super) async fn wind_up(&mut self) {
        let is_result = |about: &About| matches!(about, About::Ended(..) | About::Prolonged(_));
        let ends = self.tools.clock.uptime() + self.settings.grace;
        let clock = Arc::clone(&self.tools.clock);
        let mut alarm = Alarm::default();
        self.pace.end();
        loop {
            self.unwritten.retain(|(_, about)| is_result(about));
            let elapsed = clock.uptime();
            if elapsed >= self.rests_until {
                self.ask_about_unsettled();
                self.prolong_claims();
                self.write(self.now());
            }
            let is_done = self.under_way.is_empty() && self.going.writing == 0;
            if is_done || elapsed >= ends {
                break;
            }
            let renewal = self.renewals.front().map_or(ends, |renewal| renewal.at.min(ends));
            let wake_at = renewal.max(self.rests_until.min(ends));
            let now = self.now();
            alarm.set(&clock, now, now.saturating_add(wake_at.saturating_sub(elapsed)));
            tokio::select! {
                biased;
                Some(done) = self.steps.next() => self.take_in(done),
                Some(ended) = self.results.1.recv() => self.take_back(ended),
                () = alarm.rings() => {}
            }
        }
        self.hand_back().await;
    }

    /// Gives up the claims that are left, so that others need not wait until they expire.
    async fn hand_back(&mut self) {
        let lease = std::time::Duration::ZERO;
        let hand_back = self.under_way.iter().map(|(&run, claim)| RunWrite::RenewLease {
            run,
            token: claim.token,
            lease,
        });
        let writes: Vec<_> = hand_back.collect();
        if !writes.is_empty() {
            // Where this fails, they expire.
            drop(self.tools.store.commit(writes).await);
        }
    }
}
