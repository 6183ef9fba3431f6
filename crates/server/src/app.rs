//! What every request works with.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{EgressPolicy, Limits, PlanLimits};
use kalends_environment::{Clock, Entropy, format_guid};
use kalends_recurrence::Instant;
use kalends_store::Store;
use kalends_store::record::JobUid;

use crate::access::Gate;
use crate::answer::Refused;
use crate::events::Events;
use crate::figures::ServerFigures;
use crate::hosts::Hosts;
use crate::paging::PageKey;

/// What an operator sets about the API.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Sizes of what a job holds.
    pub limits: Limits,
    /// Whether the limits of plans hold.
    pub plans: PlanLimits,
    /// Limits of schedules, and the delay of a run at once.
    pub schedules: kalends_recurrence::Settings,
    /// The names that the server answers to.
    pub hosts: Hosts,
    /// Where jobs may go.
    pub egress: EgressPolicy,
    /// How long clients are waited for.
    pub patience: Patience,
    /// Connections that one client may have at the same time; without it, all there may be.
    pub connections_per_client_max: Option<NonZeroU16>,
}

/// How long clients are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a head, and for the first one of a connection.
    pub head: Duration,
    /// For a body.
    pub body: Duration,
    /// For the next request on a connection of HTTP/1.1. Longer than proxies and clients usually
    /// keep one, so that they close it and not we, who may do so just when a request comes.
    pub next: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            next: Duration::from_secs(75),
        }
    }
}

/// What every request works with.
pub struct App {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance, for identities.
    pub entropy: Arc<dyn Entropy>,
    /// What an operator sets.
    pub settings: Arc<Settings>,
    /// Told after every edit, so that what runs jobs looks at once.
    pub changed: Arc<dyn Fn() + Send + Sync>,
    /// Signs where lists go on.
    pub page_key: PageKey,
    /// Who may ask, how often, and the audit log.
    pub gate: Arc<Gate>,
    /// Where the server counts what it does.
    pub figures: Arc<ServerFigures>,
    /// Who follows what comes into history.
    pub events: Events,
}

/// What an answer is called by.
pub(crate) struct Ids {
    pub(crate) request: Arc<str>,
    pub(crate) correlation: String,
}

impl App {
    pub(crate) fn now(&self) -> Instant {
        self.clock.now().into()
    }

    pub(crate) fn new_uid(&self) -> Result<JobUid, Refused> {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes).map_err(|error| Refused::internal(error.to_string()))?;
        Ok(JobUid(bytes))
    }

    /// New ones for an answer.
    pub(crate) fn new_ids(&self) -> Ids {
        let mut bytes = [[0; 16]; 2];
        // They tell answers apart; nothing rests on their being so.
        let _ = self.entropy.fill(bytes.as_flattened_mut());
        let [request, correlation] = bytes.map(format_guid);
        Ids { request: request.into(), correlation }
    }
}
