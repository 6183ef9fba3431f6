//! Carries out every kind of action.

use std::io;
use std::sync::Arc;

use kalends_domain::{Outcome, Target};
use kalends_environment::Entropy;

use crate::egress::Egress;
use crate::http::HttpPerformer;
use crate::perform::{Order, Perform, Performing, Report};

/// Carries out actions over the network.
pub struct NetworkPerformer {
    http: HttpPerformer,
}

impl NetworkPerformer {
    /// Trusts what the system trusts.
    pub fn new(entropy: Arc<dyn Entropy>) -> io::Result<NetworkPerformer> {
        Ok(NetworkPerformer { http: HttpPerformer::new(Egress::new()?, entropy) })
    }
}

impl Perform for NetworkPerformer {
    fn perform(&self, order: Order) -> Performing<'_> {
        Box::pin(async move {
            let not_yet = |kind: &str| Report {
                outcome: Outcome::Failed { retry_after: None },
                message: format!("{kind} Action - messages of this kind are not sent yet"),
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
