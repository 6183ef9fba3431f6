//! Pauses of all jobs in a world.

use super::World;
use crate::scenario::ScenarioEvent;

impl World<'_> {
    /// Lets a user pause all jobs for `lasts` ticks, unless they are paused already. No node is nudged:
    /// the gate alone respects the pause.
    pub(super) fn pause_jobs(&mut self, lasts: i64, ends_by_itself: bool) {
        let now = self.time.now();
        if self.users.pause(lasts, ends_by_itself, (now, self.api_now())) {
            self.add(now + lasts, ScenarioEvent::ResumeJobs);
        }
    }

    /// Ends the pause, or notes that it has ended by itself.
    pub(super) fn resume_jobs(&mut self) {
        let now = self.time.now();
        self.users.resume((now, self.api_now()));
        self.nudge(now.unsigned_abs());
    }
}
