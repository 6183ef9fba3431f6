//! `GET /api/node`: the state of the node that serves the request.
//!
//! Every caller sees facts that explain how its jobs run: scheduler, retention, limits. Store, load and
//! the allowed destinations describe the installation, so they need the same role as `/metrics`.

use http::StatusCode;
use kalends_domain::{AccessScope, Permission, PlanLimits};
use kalends_recurrence::Zone;
use kalends_wire::{
    LimitsStatus, LoadStatus, NodeStatus, RetentionStatus, StoreStatus, write_node,
};

use super::{HandlerResult, RequestContext};
use crate::response::ApiResponse;

pub(super) async fn describe(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    let app = &request.app;
    let (node, settings) = (&app.node, &app.settings);
    let sees_everything = request.caller.may(Permission::Read, &AccessScope::Everything);
    let health = app.health.status().await;
    let bytes = match sees_everything {
        true => app.health.store_bytes().await,
        false => None,
    };
    let (load, attempts) = ((node.load)(), node.attempts);
    let status = NodeStatus {
        node: &node.name,
        version: node.version,
        zone_data: Zone::data_version(),
        started: node.started,
        store: sees_everything.then(|| StoreStatus {
            kind: node.store.as_str(),
            bytes,
            problem: health.store_problem,
        }),
        scheduler: health.scheduler.as_str(),
        load: sees_everything.then_some(LoadStatus {
            running: load.running,
            waiting: load.waiting,
            lateness: health.lateness,
        }),
        retention: RetentionStatus {
            history: node.retention.history_age,
            entries_per_job: node.retention.history_count,
            finished_jobs: node.retention.finished_jobs,
        },
        egress: settings.egress.mode,
        egress_allow: sees_everything
            .then(|| settings.egress.allow.iter().map(ToString::to_string).collect()),
        limits: LimitsStatus {
            attempts: attempts.total as u64,
            attempts_per_host: attempts.per_host as u64,
            attempts_per_collection: attempts.per_collection as u64,
            attempt_timeout: attempts.timeout,
            open_runs_per_job: settings.open_runs_max.0,
            job_bytes: settings.limits.job_bytes_max as u64,
            are_plans_enforced: settings.plans == PlanLimits::On,
        },
        echo: settings.echo.map(|address| format!("http://{address}")),
    };
    Ok(ApiResponse::json(StatusCode::OK, &write_node(&status)))
}
