//! The beginning and the end of the loop.

use std::sync::Arc;

use futures_util::StreamExt as _;
use kalends_store::RunWrite;

use super::follow_up::About;
use super::{Ledger, STORE_RETRY, wait};
use crate::settings::Neighbours;

impl Ledger {
    /// Takes over what a dead predecessor has claimed, where it must be dead.
    pub(super) async fn take_over(&mut self) {
        if self.settings.neighbours == Neighbours::Possible {
            return;
        }
        while self.tools.store.expire_claims().await.is_err() {
            wait(&*self.tools.clock, self.now().saturating_add(STORE_RETRY)).await;
        }
    }

    /// Begins nothing more, lets attempts under way end within the grace time, and hands back the
    /// rest.
    pub(super) async fn wind_up(&mut self) {
        let is_result = |about: &About| matches!(about, About::Ended(..) | About::Prolonged(_));
        let ends = self.tools.clock.elapsed() + self.settings.grace;
        let clock = Arc::clone(&self.tools.clock);
        loop {
            self.unwritten.retain(|(_, about)| is_result(about));
            let elapsed = clock.elapsed();
            if elapsed >= self.rests_until {
                self.ask_about_ended();
                self.prolong_claims();
                self.write();
            }
            let is_done = self.under_way.is_empty() && self.going.writing == 0;
            if is_done || elapsed >= ends {
                break;
            }
            let renewal = self.renewals.front().map_or(ends, |renewal| renewal.at.min(ends));
            let wake_at = renewal.max(self.rests_until.min(ends));
            let wake_at = self.now().saturating_add(wake_at.saturating_sub(elapsed));
            tokio::select! {
                biased;
                Some(done) = self.steps.next() => self.take_in(done),
                Some(ended) = self.results.1.recv() => self.take_back(ended),
                () = wait(&*clock, wake_at) => {}
            }
        }
        self.hand_back().await;
    }

    /// Gives up the claims that are left, so that others need not wait until they expire.
    async fn hand_back(&mut self) {
        let lease = std::time::Duration::ZERO;
        let hand_back = self.under_way.iter().map(|(&run, claim)| RunWrite::Extend {
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
