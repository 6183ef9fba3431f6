//! Carries out every kind of action.

use std::io;
use std::sync::Arc;

use kalends_domain::Target;
use kalends_environment::{Clock, Entropy};

use crate::client::Client;
use crate::egress::{Egress, EgressSettings};
use crate::http::HttpPerformer;
use crate::perform::{Order, Perform, Performing, Report};
use crate::signing::Signer;

/// What an operator sets about actions.
#[derive(Clone, Debug, Default)]
pub struct PerformerSettings {
    /// The door to the network.
    pub egress: EgressSettings,
    /// Signs requests of jobs that want it; without it none are signed.
    pub signer: Option<Signer>,
    /// Names of headers that are secret beside those that always are.
    pub secret_headers: Vec<String>,
}

/// Carries out actions over the network.
pub struct NetworkPerformer {
    http: HttpPerformer,
}

impl NetworkPerformer {
    /// Fails where certificates that are to be trusted cannot be read.
    pub fn new(
        settings: PerformerSettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> io::Result<NetworkPerformer> {
        let PerformerSettings { egress, signer, secret_headers } = settings;
        let connections_max = egress.connections_per_target_max;
        let egress = Egress::new(egress, entropy.clone())?;
        let client = Arc::new(Client::new(egress, connections_max));
        let http = HttpPerformer::new(client, clock, entropy, signer, &secret_headers);
        Ok(NetworkPerformer { http })
    }
}

impl Perform for NetworkPerformer {
    fn perform(&self, order: Order) -> Performing<'_> {
        Box::pin(async move {
            let not_yet = |kind: &str| {
                Report::failed(format!("{kind} Action - messages of this kind are not sent yet"))
            };
            match &order.action.target {
                Target::Http(request) => self.http.perform(&order, request).await,
                Target::StorageQueue(_) => not_yet("StorageQueue"),
                Target::ServiceBusQueue(_) => not_yet("ServiceBusQueue"),
                Target::ServiceBusTopic(_) => not_yet("ServiceBusTopic"),
            }
        })
    }
}
