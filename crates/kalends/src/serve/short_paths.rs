//! Subscription and resource group of short paths.

use kalends_domain::{GroupName, GroupPath, NameError, SubscriptionId};

/// Subscription and resource group of `/api/collections/…`.
#[derive(clap::Args)]
#[command(next_help_heading = "Short paths")]
pub(crate) struct ShortPathSettings {
    /// Subscription of the paths below /api
    #[arg(long, env = "KALENDS_API_SUBSCRIPTION", value_name = "GUID", default_value_t = GroupPath::default().subscription, value_parser = subscription)]
    api_subscription: SubscriptionId,

    /// Resource group of the paths below /api
    #[arg(long, env = "KALENDS_API_GROUP", value_name = "NAME", default_value_t = GroupPath::default().group, value_parser = group)]
    api_group: GroupName,
}

fn subscription(text: &str) -> Result<SubscriptionId, NameError> {
    SubscriptionId::new(text)
}

fn group(text: &str) -> Result<GroupName, NameError> {
    GroupName::new(text)
}

impl ShortPathSettings {
    pub(crate) fn group(&self) -> GroupPath {
        GroupPath { subscription: self.api_subscription.clone(), group: self.api_group.clone() }
    }
}
