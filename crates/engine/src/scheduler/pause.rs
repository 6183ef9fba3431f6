//! The pause of all jobs: logged when it begins and ends, and loaded again at its end.

use std::time::Duration;

use kalends_recurrence::Instant;
use kalends_store::record::PauseRecord;

use super::Scheduler;

/// If the store's clock is behind and the pause still holds there at its end, the next load is due after
/// this time.
const LOAD_AGAIN_AFTER: Duration = Duration::from_millis(10);

impl Scheduler {
    /// Notes the pause that held when the store was read for a load.
    pub(super) fn observe_pause(&mut self, pause: Option<PauseRecord>, now: Instant) {
        if let Some(until) = pause.as_ref().and_then(|record| record.pause.until()) {
            self.load_schedule.load_by(until.max(now.saturating_add(LOAD_AGAIN_AFTER)));
        }
        if pause == self.pause {
            return;
        }
        match &pause {
            Some(PauseRecord { pause, reason, by }) => {
                let until = pause.until().map(|until| until.to_string()).unwrap_or_default();
                tracing::warn!(reason, by, since = %pause.since, until, "all jobs are paused");
            }
            None => tracing::info!("all jobs resumed"),
        }
        self.pause = pause;
    }
}
