//! Carries out every kind of action.

use std::io;
use std::sync::Arc;

use kalends_domain::Target;
use kalends_environment::{Clock, Entropy};

use crate::client::Client;
use crate::egress::{Egress, EgressSettings};
use crate::endpoints::Services;
use crate::http::HttpPerformer;
use crate::oauth::Tokens;
use crate::perform::{Order, Perform, Performing, Report};
use crate::service_bus::{EntityKind, ServiceBus};
use crate::signing::Signer;
use crate::storage_queue::StorageQueues;

/// What an operator sets about actions.
#[derive(Clone, Debug, Default)]
pub struct PerformerSettings {
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
pub struct NetworkPerformer {
    http: HttpPerformer,
    queues: StorageQueues,
    service_bus: ServiceBus,
}

impl NetworkPerformer {
    /// Fails where certificates that are to be trusted cannot be read.
    pub fn new(
        settings: PerformerSettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> io::Result<NetworkPerformer> {
        let PerformerSettings { egress, signer, secret_headers, services } = settings;
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
        let http = HttpPerformer::new(client, clock, entropy, tokens, signer, &secret_headers);
        Ok(NetworkPerformer { http, queues, service_bus })
    }
}

impl Perform for NetworkPerformer {
    fn perform(&self, order: Order) -> Performing<'_> {
        // Each kind by itself: one that takes much memory is not to cost the others as much.
        match &order.action.target {
            Target::Http(_) => Box::pin(self.request(order)),
            Target::StorageQueue(_) => Box::pin(self.put(order)),
            Target::ServiceBusQueue(_) | Target::ServiceBusTopic(_) => Box::pin(self.send(order)),
        }
    }
}

impl NetworkPerformer {
    async fn request(&self, order: Order) -> Report {
        match &order.action.target {
            Target::Http(request) => self.http.perform(&order, request).await,
            _ => misdirected(),
        }
    }

    async fn put(&self, order: Order) -> Report {
        match &order.action.target {
            Target::StorageQueue(message) => self.queues.perform(&order, message).await,
            _ => misdirected(),
        }
    }

    async fn send(&self, order: Order) -> Report {
        match &order.action.target {
            Target::ServiceBusQueue(message) => {
                self.service_bus.perform(&order, EntityKind::Queue, message).await
            }
            Target::ServiceBusTopic(message) => {
                self.service_bus.perform(&order, EntityKind::Topic, message).await
            }
            _ => misdirected(),
        }
    }
}

fn misdirected() -> Report {
    Report::failed("the action is of another kind")
}
