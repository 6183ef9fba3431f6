//! Carries out every kind of action.

use std::io;
use std::sync::Arc;

use kalends_domain::Target;
use kalends_environment::{Clock, Entropy};

use crate::egress::Egress;
use crate::endpoints::Services;
use crate::http::HttpPerformer;
use crate::oauth::Tokens;
use crate::perform::{Order, Perform, Performing};
use crate::service_bus::{EntityKind, ServiceBus};
use crate::storage_queue::StorageQueues;

/// Carries out actions over the network.
pub struct NetworkPerformer {
    http: HttpPerformer,
    queues: StorageQueues,
    service_bus: ServiceBus,
}

impl NetworkPerformer {
    /// Trusts what the system trusts, and finds services where it is told.
    pub fn new(
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        services: Services,
    ) -> io::Result<NetworkPerformer> {
        let egress = Egress::new()?;
        let tokens = Tokens::new(egress.clone(), Arc::clone(&clock), services.login.clone());
        Ok(NetworkPerformer {
            http: HttpPerformer::new(egress.clone(), Arc::clone(&entropy), Arc::new(tokens)),
            queues: StorageQueues {
                egress: egress.clone(),
                clock: Arc::clone(&clock),
                entropy: Arc::clone(&entropy),
                endpoint: services.queues.clone(),
                format: services.queue_format,
            },
            service_bus: ServiceBus::new(egress, clock, entropy, &services),
        })
    }
}

impl Perform for NetworkPerformer {
    fn perform(&self, order: Order) -> Performing<'_> {
        Box::pin(async move {
            match &order.action.target {
                Target::Http(request) => self.http.perform(&order, request).await,
                Target::StorageQueue(message) => self.queues.perform(&order, message).await,
                Target::ServiceBusQueue(message) => {
                    self.service_bus.perform(&order, EntityKind::Queue, message).await
                }
                Target::ServiceBusTopic(message) => {
                    self.service_bus.perform(&order, EntityKind::Topic, message).await
                }
            }
        })
    }
}
