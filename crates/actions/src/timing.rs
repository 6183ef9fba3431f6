//! Measures the phases of an attempt. Each phase is recorded when it ends, so an attempt that fails
//! or times out still reports the phases it completed.

use std::sync::{Mutex, PoisonError};

use kalends_domain::{Micros, Timing};
use kalends_environment::Stopwatch;

/// A measured part of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Name resolution.
    Dns,
    /// TCP connect, including the proxy's CONNECT.
    Connect,
    /// TLS handshake.
    Tls,
    /// From the first byte sent to the first byte of the response.
    FirstByte,
}

/// The phase durations of one attempt.
#[derive(Debug, Default)]
pub(crate) struct AttemptTimer(Mutex<Timing>);

impl AttemptTimer {
    /// Records a phase that began with the stopwatch and ends now.
    pub(crate) fn record(&self, phase: Phase, stopwatch: Stopwatch) {
        let time = Some(Micros::from(stopwatch.elapsed()));
        let mut timing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match phase {
            Phase::Dns => timing.dns = time,
            Phase::Connect => timing.connect = time,
            Phase::Tls => timing.tls = time,
            Phase::FirstByte => timing.first_byte = time,
        }
    }

    /// Discards the recorded phases: after a redirect only the last request counts.
    pub(crate) fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Timing::default();
    }

    /// The recorded phases and the total of an attempt that began with the stopwatch.
    pub(crate) fn finish(&self, stopwatch: Stopwatch) -> Timing {
        let phases = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Timing { total: Some(stopwatch.elapsed().into()), ..phases }
    }
}
