//! Settings of limits.

use std::num::NonZeroU16;

use clap::ValueEnum;
use kalends_domain::{EgressMode, PlanLimits};

/// A quarter of all connections that there may be. A browser has six, a client that keeps one for
/// each of its threads some dozens.
const CONNECTIONS_PER_CLIENT_MAX: NonZeroU16 = NonZeroU16::MIN.saturating_add(127);

/// Limits.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitSettings {
    /// Whether the limits of plans hold, such as 50 jobs in a Standard collection; quotas that
    /// collections set themselves always hold
    #[arg(long, env = "KALENDS_LIMITS_PLANS", value_name = "SWITCH", default_value = "on")]
    limits_plans: Switch,

    /// Connections that one client address may have open at the same time; more are closed at once.
    /// Behind a proxy all have its address: then as many as it needs, up to 512 [default: 128; no
    /// limit on a loopback address without authentication]
    #[arg(long, env = "KALENDS_CONNECTIONS_PER_CLIENT", value_name = "NUMBER")]
    connections_per_client: Option<NonZeroU16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl LimitSettings {
    /// Who alone uses a machine may use all of it.
    pub(crate) fn connections_per_client_max(&self, mode: EgressMode) -> Option<NonZeroU16> {
        let unsaid = match mode {
            EgressMode::SingleUser => None,
            _ => Some(CONNECTIONS_PER_CLIENT_MAX),
        };
        self.connections_per_client.or(unsaid)
    }

    pub(crate) fn plans(&self) -> PlanLimits {
        match self.limits_plans {
            Switch::On => PlanLimits::On,
            Switch::Off => PlanLimits::Off,
        }
    }
}
