//! State and settings that all requests share.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use kalends_actions::certificate::PfxLimit;
use kalends_domain::{EgressPolicy, GroupPath, Limits, OpenRunsMax, PlanLimits, SecretHeaders};
use kalends_environment::{Clock, Entropy, format_guid};
use kalends_recurrence::Instant;
use kalends_store::ApiStore;
use kalends_store::record::JobUid;

use crate::access::AccessControl;
use crate::allowed_hosts::AllowedHosts;
use crate::events::EventSubscriptions;
use crate::forwarded::TrustedProxies;
use crate::health::Health;
use crate::metrics::ServerMetrics;
use crate::node::Node;
use crate::overview::Overview;
use crate::position_key::PositionKey;
use crate::response::ApiError;
use crate::test_runs::TestRuns;

/// Settings of the API.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Size limits of job definitions.
    pub limits: Limits,
    /// Whether the limits of plans are enforced.
    pub plans: PlanLimits,
    /// Limits of schedules, and the delay of a job that starts immediately.
    pub schedules: kalends_recurrence::Settings,
    /// Host names that the server accepts in requests.
    pub hosts: AllowedHosts,
    /// Reverse proxies that name client, scheme and host of the requests that they pass on.
    pub trusted_proxies: TrustedProxies,
    /// Destinations that jobs may call.
    pub egress: EgressPolicy,
    /// Timeouts of client connections.
    pub timeouts: Timeouts,
    /// Connections that one client may have open at the same time. `None`: only the limit of the
    /// server applies.
    pub connections_per_client_max: Option<NonZeroU16>,
    /// Maximum number of open runs of one job.
    pub open_runs_max: OpenRunsMax,
    /// Headers of jobs whose values are secret.
    pub secret_headers: SecretHeaders,
    /// Subscription and resource group of short paths.
    pub default_group: GroupPath,
    /// Address of the echo target; `None` without one.
    pub echo: Option<SocketAddr>,
}

/// Timeouts of client connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time to receive a complete request head. For the first request it starts when the
    /// connection is accepted.
    pub request_head: Duration,
    /// Time to receive a complete request body.
    pub request_body: Duration,
    /// Time that an HTTP/1.1 keep-alive connection may stay idle. Longer than the usual idle
    /// timeout of proxies and clients, so that they close first: a connection that the server
    /// closes may lose a request that is just arriving.
    pub keep_alive: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            request_head: Duration::from_secs(10),
            request_body: Duration::from_secs(30),
            keep_alive: Duration::from_secs(75),
        }
    }
}

/// State that all requests share.
pub struct App {
    /// Collections, jobs, runs and tokens.
    pub store: Arc<dyn ApiStore>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Source of job ids and secrets.
    pub entropy: Arc<dyn Entropy>,
    /// Source of the ids of responses, which are no secrets.
    pub id_entropy: Arc<dyn Entropy>,
    /// Settings of the API.
    pub settings: Arc<Settings>,
    /// Called after every committed edit; wakes the engine.
    pub on_edit: Arc<dyn Fn() + Send + Sync>,
    /// Encrypts the cursors of `nextLink` and the ids of events.
    pub position_key: PositionKey,
    /// Authentication, rate limits and the audit log.
    pub access: Arc<AccessControl>,
    /// Metrics of the server.
    pub metrics: Arc<ServerMetrics>,
    /// Subscriptions to `GET /events`.
    pub events: EventSubscriptions,
    /// Health of store and scheduler.
    pub health: Arc<Health>,
    /// Limits the client certificates that are read at the same time.
    pub certificates: PfxLimit,
    /// Numbers over all jobs.
    pub overview: Overview,
    /// This process.
    pub node: Node,
    /// Executes definitions that are not saved.
    pub test_runs: TestRuns,
}

/// Ids that a response carries in its headers.
pub(crate) struct ResponseIds {
    pub(crate) request: Arc<str>,
    pub(crate) correlation: String,
}

impl App {
    pub(crate) fn now(&self) -> Instant {
        self.clock.now().into()
    }

    pub(crate) fn new_uid(&self) -> Result<JobUid, ApiError> {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes).map_err(|error| ApiError::internal(error.to_string()))?;
        Ok(JobUid(bytes))
    }

    pub(crate) fn new_response_ids(&self) -> ResponseIds {
        let mut bytes = [[0; 16]; 2];
        // Without entropy the ids are all zero: they are diagnostic and need not be unique.
        let _ = self.id_entropy.fill(bytes.as_flattened_mut());
        let [request, correlation] = bytes.map(format_guid);
        ResponseIds { request: request.into(), correlation }
    }
}
