//! Settings of limits.

use clap::ValueEnum;
use kalends_domain::PlanLimits;

/// Limits.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitSettings {
    /// Whether the limits of plans hold, such as 50 jobs in a Standard collection; quotas that
    /// collections set themselves always hold
    #[arg(long, env = "KALENDS_LIMITS_PLANS", value_name = "SWITCH", default_value = "on")]
    limits_plans: Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl LimitSettings {
    pub(crate) fn plans(&self) -> PlanLimits {
        match self.limits_plans {
            Switch::On => PlanLimits::On,
            Switch::Off => PlanLimits::Off,
        }
    }
}
