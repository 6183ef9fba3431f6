//! How long the parts of an attempt took, noted as each ends: one that fails or is cut off still
//! says how far it came.

use std::sync::{Mutex, PoisonError};

use kalends_domain::{Micros, Timing};
use kalends_environment::Stopwatch;

/// A part that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lap {
    /// Finding the addresses.
    Dns,
    /// Being connected.
    Connect,
    /// Agreeing on encryption.
    Tls,
    /// From the first byte sent to the first byte of the answer.
    FirstByte,
}

/// What was noted of one attempt.
#[derive(Debug, Default)]
pub(crate) struct Laps(Mutex<Timing>);

impl Laps {
    /// A part has ended that began with the watch.
    pub(crate) fn note(&self, lap: Lap, watch: Stopwatch) {
        let time = Some(Micros::from(watch.elapsed()));
        let mut timing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match lap {
            Lap::Dns => timing.dns = time,
            Lap::Connect => timing.connect = time,
            Lap::Tls => timing.tls = time,
            Lap::FirstByte => timing.first_byte = time,
        }
    }

    /// Another request begins: what was noted of the one before is forgotten.
    pub(crate) fn start_over(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Timing::default();
    }

    /// What was noted, of an attempt that began with the watch and is over.
    pub(crate) fn total(&self, watch: Stopwatch) -> Timing {
        let noted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Timing { total: Some(watch.elapsed().into()), ..noted }
    }
}
