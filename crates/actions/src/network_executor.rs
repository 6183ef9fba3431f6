//! Carries out every kind of action.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kalends_domain::Target;
use kalends_environment::{Clock, Entropy, Stopwatch};

use crate::client::Client;
use crate::egress::{Egress, EgressSettings};
use crate::endpoints::Services;
use crate::executor::{ActionExecutor, AttemptFuture, AttemptRequest, PrewarmFuture};
use crate::http::HttpExecutor;
use crate::laps::Laps;
use crate::oauth::Tokens;
use crate::service_bus::{EntityKind, ServiceBus};
use crate::signing::Signer;
use crate::storage_queue::StorageQueues;

/// What an operator sets about actions.
#[derive(Clone, Debug, Default)]
pub struct ExecutorSettings {
    /// The door to the network.
    pub egress: EgressSettings,
    /// Signs requests of jobs that want it; without it none are signed.
    pub signer: Option<Signer>,
    /// Names of headers that are secret beside those that always are.
    pub secret_headers: Vec<String>,
    /// Where queues, brokers and tokens are.
    pub services: Services,
}

/// Carries out actions over the network.
pub struct NetworkExecutor {
    http: HttpExecutor,
    queues: StorageQueues,
    service_bus: ServiceBus,
}

impl NetworkExecutor {
    /// Fails where certificates that are to be trusted cannot be read.
    pub fn new(
        settings: ExecutorSettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> io::Result<NetworkExecutor> {
        let ExecutorSettings { egress, signer, secret_headers, services } = settings;
        let connections_max = egress.connections_per_target_max;
        let egress = Egress::new(egress, entropy.clone())?;
        let client = Arc::new(Client::new(egress, connections_max));
        let tokens = Tokens::new(Arc::clone(&client), Arc::clone(&clock), services.login.clone());
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
        let http = HttpExecutor::new(client, clock, entropy, tokens, signer, &secret_headers);
        Ok(NetworkExecutor { http, queues, service_bus })
    }
}

impl ActionExecutor for NetworkExecutor {
    fn execute(&self, order: AttemptRequest) -> AttemptFuture<'_> {
        Box::pin(async move {
            let (laps, watch) = (Laps::default(), Stopwatch::start());
            // In boxes of their own where they are large and rare: a request is not to cost as much.
            let report = match &order.action.target {
                Target::Http(request) => self.http.execute(&order, request, &laps).await,
                Target::StorageQueue(message) => {
                    Box::pin(self.queues.execute(&order, message, &laps)).await
                }
                Target::ServiceBusQueue(message) => {
                    let kind = EntityKind::Queue;
                    Box::pin(self.service_bus.execute(&order, kind, message, &laps)).await
                }
                Target::ServiceBusTopic(message) => {
                    let kind = EntityKind::Topic;
                    Box::pin(self.service_bus.execute(&order, kind, message, &laps)).await
                }
            };
            report.with_timing(laps.total(watch))
        })
    }

    fn prewarm(&self, orders: &[&AttemptRequest], ahead: Duration) -> Vec<PrewarmFuture> {
        self.http.prewarm(orders, ahead)
    }
}
