//! Executes all types of actions over the network.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::{Outcome, SecretHeaders, Target};
use kalends_environment::{Clock, Entropy, Stopwatch};

use crate::client::Client;
use crate::egress::{Egress, EgressSettings};
use crate::endpoints::Services;
use crate::executor::{
    ActionExecutor, AttemptFuture, AttemptReport, AttemptRequest, PrewarmFuture,
};
use crate::http::HttpExecutor;
use crate::oauth::TokenCache;
use crate::send_fence::{AttemptContext, NotSent, Refused, SendFence, SendGuard};
use crate::service_bus::{EntityKind, ServiceBus};
use crate::signing::Signer;
use crate::storage_queue::StorageQueues;
use crate::timing::AttemptTimer;

/// Settings of actions, from the command line or the configuration file.
#[derive(Clone, Debug, Default)]
pub struct ExecutorSettings {
    /// Outbound connections.
    pub egress: EgressSettings,
    /// Signs the requests of jobs with `signing` on; `None` signs no requests.
    pub signer: Option<Signer>,
    /// Headers whose values are secret.
    pub secret_headers: SecretHeaders,
    /// Endpoints of queues, brokers and token endpoints.
    pub services: Services,
}

/// History message of an attempt whose fence closed between two of its requests.
const REST_REFUSED: &str = "The scheduler lost its lease before it followed a redirect; another \
    node may repeat the attempt.";

/// Executes actions over the network.
pub struct NetworkExecutor {
    http: HttpExecutor,
    queues: StorageQueues,
    service_bus: ServiceBus,
}

impl NetworkExecutor {
    /// Fails if the CA bundle cannot be read.
    pub fn new(
        settings: ExecutorSettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> io::Result<NetworkExecutor> {
        let ExecutorSettings { egress, signer, secret_headers, services } = settings;
        let connections_max = egress.connections_per_target_max;
        let egress = Egress::new(egress, entropy.clone())?;
        let client = Arc::new(Client::new(egress, connections_max));
        let tokens =
            TokenCache::new(Arc::clone(&client), Arc::clone(&clock), services.login.clone());
        let queues = StorageQueues {
            client: Arc::clone(&client),
            clock: Arc::clone(&clock),
            entropy: Arc::clone(&entropy),
            endpoint: services.queues.clone(),
            format: services.queue_format,
        };
        let service_bus = ServiceBus::new(
            Arc::clone(&client),
            Arc::clone(&clock),
            Arc::clone(&entropy),
            &services,
        );
        let http = HttpExecutor::new(client, clock, entropy, tokens, signer, secret_headers);
        Ok(NetworkExecutor { http, queues, service_bus })
    }
}

impl ActionExecutor for NetworkExecutor {
    fn execute<'a>(&'a self, attempt: AttemptRequest<'a>, fence: SendFence) -> AttemptFuture<'a> {
        Box::pin(async move {
            let (timer, stopwatch) = (AttemptTimer::default(), Stopwatch::start());
            let guard = SendGuard::new(fence);
            let context = AttemptContext { timer: &timer, guard: &guard };
            // Messages are boxed: their futures are large, and most attempts are HTTP requests.
            let report = match &attempt.action.target {
                Target::Http(request) => self.http.execute(&attempt, request, context).await,
                Target::StorageQueue(message) => {
                    Box::pin(self.queues.execute(&attempt, message, context)).await
                }
                Target::ServiceBusQueue(message) => {
                    let kind = EntityKind::Queue;
                    Box::pin(self.service_bus.execute(&attempt, kind, message, context)).await
                }
                Target::ServiceBusTopic(message) => {
                    let kind = EntityKind::Topic;
                    Box::pin(self.service_bus.execute(&attempt, kind, message, context)).await
                }
            };
            let report = match guard.refused() {
                None => report,
                Some(Refused::Everything) => return Err(NotSent),
                Some(Refused::Rest) => AttemptReport::new(Outcome::Indeterminate, REST_REFUSED),
            };
            Ok(report.with_timing(timer.finish(stopwatch)))
        })
    }

    fn prewarm(&self, attempts: &[AttemptRequest<'_>], ahead: Duration) -> Vec<PrewarmFuture> {
        self.http.prewarm(attempts, ahead)
    }
}
