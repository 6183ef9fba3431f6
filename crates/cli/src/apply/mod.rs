//! Making the jobs of a server equal to definitions: the plan, its display, and its execution.

mod execute;
mod member_diff;
mod plan;
mod preview;
mod show;

pub(crate) use execute::execute;
pub(crate) use plan::{ChangeKind, Plan, PlanError, Prune, plan};
pub(crate) use preview::preview_effects;
pub(crate) use show::{show, summary, to_json};
