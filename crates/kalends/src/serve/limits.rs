//! Settings of plan limits, connection limits and open runs.

use std::num::NonZeroU16;

use clap::ValueEnum;
use kalends_domain::{EgressMode, OpenRunsMax, PlanLimits};

/// A quarter of the server's connections. A browser opens six, a client with a connection per thread
/// some dozens.
const CONNECTIONS_PER_CLIENT_MAX: NonZeroU16 = NonZeroU16::MIN.saturating_add(127);

/// Plan limits, connection limits and open runs.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitSettings {
    /// Enforce the limits of plans, such as 50 jobs in a Standard collection. The quotas of a
    /// collection are always enforced
    #[arg(long, env = "KALENDS_LIMITS_PLANS", value_name = "SWITCH", default_value = "on")]
    limits_plans: Switch,

    /// Maximum number of open connections per client address; the server closes further ones. A
    /// reverse proxy in --trusted-proxy has no limit [default: 128; unlimited on a loopback address
    /// without authentication]
    #[arg(long, env = "KALENDS_CONNECTIONS_PER_CLIENT", value_name = "NUMBER")]
    connections_per_client: Option<NonZeroU16>,

    /// Maximum number of open runs of one job: those that run, retry or wait, manual runs included.
    /// Further occurrences are skipped (SkippedQuota), and run requests return 429
    #[arg(long, env = "KALENDS_OPEN_RUNS_PER_JOB", value_name = "NUMBER", default_value_t = OpenRunsMax::default().0, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    open_runs_per_job: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl LimitSettings {
    /// Maximum number of connections per client address; `None` for no limit. A single-user server
    /// has no limit by default.
    pub(crate) fn connections_per_client_max(&self, mode: EgressMode) -> Option<NonZeroU16> {
        let default = match mode {
            EgressMode::SingleUser => None,
            _ => Some(CONNECTIONS_PER_CLIENT_MAX),
        };
        self.connections_per_client.or(default)
    }

    pub(crate) fn open_runs_max(&self) -> OpenRunsMax {
        OpenRunsMax(self.open_runs_per_job)
    }

    pub(crate) fn plans(&self) -> PlanLimits {
        match self.limits_plans {
            Switch::On => PlanLimits::On,
            Switch::Off => PlanLimits::Off,
        }
    }
}
