//! Limit of the PFX files that are read at the same time.
//!
//! Deriving the key of one file takes some tenths of a second of CPU time. Without a limit, a few
//! clients could occupy all cores.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinError;

/// Requests that may wait for each file that is read: a second or two.
const WAITING_PER_CORE_MAX: usize = 4;

/// Runs the reading of PFX files on blocking threads, on half of the cores.
pub struct PfxLimit {
    running: Arc<Semaphore>,
    /// Places for requests whose file is read, or that wait for it.
    places: Semaphore,
}

impl Default for PfxLimit {
    fn default() -> PfxLimit {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let running_max = (cores / 2).max(1);
        PfxLimit {
            running: Arc::new(Semaphore::new(running_max)),
            places: Semaphore::new(running_max * (1 + WAITING_PER_CORE_MAX)),
        }
    }
}

impl PfxLimit {
    /// Takes a place for a request. `None` if too many wait already.
    pub fn take_place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    /// Does the work on a blocking thread, when a core is free for it. It is done to the end even if
    /// the future is dropped.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.running).acquire_owned().await.ok();
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        tokio::task::spawn_blocking(work).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_bounded_number_of_files_is_read_and_waits() {
        let limit = Arc::new(PfxLimit::default());
        let running_max = limit.running.available_permits();
        let (release, released) = channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let (start, mut started) = tokio::sync::mpsc::unbounded_channel();
        let tasks: Vec<_> = (0..running_max + 3)
            .map(|_| {
                let (limit, released, start) = (limit.clone(), released.clone(), start.clone());
                tokio::spawn(async move {
                    let work = move || {
                        start.send(()).unwrap();
                        released.lock().unwrap().recv().unwrap();
                    };
                    limit.run(work).await.unwrap();
                })
            })
            .collect();
        for _ in 0..running_max {
            started.recv().await.unwrap();
        }
        assert_eq!(limit.running.available_permits(), 0);
        assert!(started.try_recv().is_err(), "more files are read than allowed");
        for _ in 0..3 {
            release.send(()).unwrap();
            started.recv().await.unwrap();
        }
        (0..running_max).for_each(|_| release.send(()).unwrap());
        for task in tasks {
            task.await.unwrap();
        }
        let places: Vec<_> = std::iter::from_fn(|| limit.take_place()).collect();
        assert_eq!(places.len(), running_max * (1 + WAITING_PER_CORE_MAX));
        drop(places);
        assert!(limit.take_place().is_some());
    }
}
