//! A scan that repeats in the background while clients ask for its result.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kalends_environment::Clock;
use kalends_store::StoreError;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::app::App;

/// Time for which a scan repeats after the last request for its result.
const WANTED: Duration = Duration::from_secs(600);
/// Time that requests wait for the first result, from the start of the scan.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// How often a scan repeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// Time between the starts of two scans, at least, unless something changed.
    pub(super) period_min: Duration,
    /// Rest after a scan, as a multiple of its work.
    pub(super) rest: u32,
}

/// The result of a scan, and the time that its work took.
pub(super) struct Scanned<T> {
    pub(super) result: T,
    pub(super) work: Duration,
}

/// A future scan.
pub(super) type Scan<T> = Pin<Box<dyn Future<Output = Result<Scanned<T>, StoreError>> + Send>>;

/// A scan that repeats in the background. Its result is dropped when no client asks for it any more.
pub(super) struct BackgroundScan<T> {
    state: Mutex<State>,
    latest: watch::Sender<Option<Arc<T>>>,
    /// A change that the latest result may not have.
    changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    is_running: bool,
    /// Uptime when the scan was started.
    started: Duration,
    /// Uptime of the last request.
    asked: Duration,
}

/// Whether a request waits for the first result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstResult {
    /// Until a while after the scan was started.
    Wait,
    /// No.
    Skip,
}

impl<T> Default for BackgroundScan<T> {
    fn default() -> BackgroundScan<T> {
        BackgroundScan {
            state: Mutex::default(),
            latest: watch::Sender::new(None),
            changed: Arc::default(),
        }
    }
}

impl<T: Send + Sync + 'static> BackgroundScan<T> {
    /// The latest result. Starts the scan unless it repeats already.
    pub(super) async fn latest(
        app: &Arc<App>,
        of: fn(&App) -> &BackgroundScan<T>,
        pacing: Pacing,
        scan: fn(Arc<App>) -> Scan<T>,
        first: FirstResult,
    ) -> Option<Arc<T>> {
        let this = of(app);
        let mut latest = this.latest.subscribe();
        let now = app.clock.uptime();
        let (was_running, started) = {
            let mut state = this.state();
            state.asked = now;
            let was_running = std::mem::replace(&mut state.is_running, true);
            if !was_running {
                state.started = now;
            }
            (was_running, state.started)
        };
        if !was_running {
            tokio::spawn(repeat(Arc::downgrade(app), of, pacing, scan));
        }
        let wait = match first {
            FirstResult::Wait => WAIT_MAX.saturating_sub(now.saturating_sub(started)),
            FirstResult::Skip => Duration::ZERO,
        };
        if latest.borrow().is_none() && !wait.is_zero() {
            // Whatever there is then.
            let _ = timeout(wait, latest.wait_for(Option::is_some)).await;
        }
        latest.borrow().clone()
    }

    /// Lets the next scan start as soon as its pacing allows.
    pub(super) fn note_change(&self) {
        self.changed.notify_one();
    }

    /// Whether the scan repeats.
    pub(super) fn is_running(&self) -> bool {
        self.state().is_running
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client asked for the result lately. If not, the scan ends.
    fn is_wanted(&self, uptime: Duration) -> bool {
        let mut state = self.state();
        state.is_running = uptime.saturating_sub(state.asked) < WANTED;
        if !state.is_running {
            self.latest.send_replace(None);
        }
        state.is_running
    }
}

/// Lets the next request start the scan again if it panicked.
struct PanicGuard<T: Send + Sync + 'static> {
    app: Weak<App>,
    of: fn(&App) -> &BackgroundScan<T>,
}

impl<T: Send + Sync + 'static> Drop for PanicGuard<T> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(app) = self.app.upgrade()
        {
            (self.of)(&app).state().is_running = false;
        }
    }
}

/// Scans until no client asks for the result any more, or the server has ended.
async fn repeat<T: Send + Sync + 'static>(
    app: Weak<App>,
    of: fn(&App) -> &BackgroundScan<T>,
    pacing: Pacing,
    scan: fn(Arc<App>) -> Scan<T>,
) {
    let _guard = PanicGuard { app: Weak::clone(&app), of };
    loop {
        // Held during a scan only: a server that ends does not wait for the rest.
        let Some(current) = app.upgrade() else { return };
        if !of(&current).is_wanted(current.clock.uptime()) {
            return;
        }
        let clock: Arc<dyn Clock> = Arc::clone(&current.clock);
        let changed = Arc::clone(&of(&current).changed);
        let started = clock.uptime();
        let work = match scan(Arc::clone(&current)).await {
            Ok(Scanned { result, work }) => {
                of(&current).latest.send_replace(Some(Arc::new(result)));
                work
            }
            Err(error) => {
                tracing::debug!(%error, "overview scan failed, retrying");
                Duration::ZERO
            }
        };
        drop(current);
        clock.sleep(work * pacing.rest).await;
        let elapsed = clock.uptime().saturating_sub(started);
        tokio::select! {
            () = changed.notified() => {}
            () = clock.sleep(pacing.period_min.saturating_sub(elapsed)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_and_its_result_end_ten_minutes_after_the_last_request() {
        let scan = BackgroundScan::<u8>::default();
        scan.latest.send_replace(Some(Arc::new(1)));
        scan.state().asked = Duration::from_secs(100);
        assert!(scan.is_wanted(Duration::from_secs(699)));
        assert!(scan.latest.borrow().is_some() && scan.state().is_running);
        assert!(!scan.is_wanted(Duration::from_secs(700)));
        assert!(scan.latest.borrow().is_none() && !scan.state().is_running);
    }
}
