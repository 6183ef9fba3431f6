//! Target hosts of a world. Some hang, fail or respond slowly, for a while or for good.

use std::time::Duration;

use kalends_domain::{Action, Outcome, Target};

use crate::rng::Rng;

/// How a host responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostState {
    /// By the behavior of the world's targets.
    Healthy,
    /// Responds after seconds.
    Slow,
    /// Accepts requests and never responds: every attempt ends with its timeout.
    Hanging,
    /// Rejects every request at once.
    Failing,
}

/// A host whose state may change once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) state: HostState,
    /// Ticks after the start of the world from which `state` is replaced by the second state.
    pub(crate) change: Option<(i64, HostState)>,
}

impl Host {
    pub(crate) const HEALTHY: Host = Host { state: HostState::Healthy, change: None };

    /// A host of a world that lasts `length` ticks.
    pub(crate) fn random(rng: &Rng, length: i64) -> Host {
        let state = |rng: &Rng| {
            rng.pick([HostState::Healthy, HostState::Slow, HostState::Hanging, HostState::Failing])
        };
        let (first, second) = (state(rng), state(rng));
        let at = rng.below(length.unsigned_abs()) as i64;
        Host { state: first, change: rng.one_in(2).then_some((at, second)) }
    }

    pub(crate) fn state_at(&self, ticks: i64) -> HostState {
        self.change.filter(|&(at, _)| at <= ticks).map_or(self.state, |(_, state)| state)
    }
}

impl HostState {
    /// Duration and outcome of an attempt, or `None` if the behavior of the world decides.
    pub(crate) fn respond(self, rng: &Rng, timeout: Duration) -> Option<(Duration, Outcome)> {
        let failed = Outcome::Failed { retry_after: None };
        match self {
            HostState::Healthy => None,
            HostState::Slow => {
                let duration = Duration::from_millis(rng.between(1_000, 20_000));
                let outcome = if duration < timeout { Outcome::Succeeded } else { failed };
                Some((duration.min(timeout), outcome))
            }
            HostState::Hanging => Some((timeout, failed)),
            HostState::Failing => Some((Duration::from_millis(rng.between(1, 50)), failed)),
        }
    }
}

/// URI of an action: its host, and a number that identifies the definition.
pub(crate) fn uri(host: u64, definition: u64) -> String {
    format!("http://host{host}.example.com/{definition}")
}

/// Host and number of the definition of an action with a URI of [`uri`].
pub(crate) fn parse(action: &Action) -> (u64, u64) {
    let Target::Http(request) = &action.target else { return (0, 0) };
    let text = request.uri.as_str().trim_start_matches("http://host");
    let (host, definition) = text.split_once(".example.com/").unwrap_or_default();
    (host.parse().unwrap_or_default(), definition.parse().unwrap_or_default())
}
