//! `kalends status`: whether the server works.

use http::Method;
use kalends_environment::Clock;
use kalends_wire::Json;

use super::pause::describe;
use crate::api::Call;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::json::{JsonMembers as _, object};
use crate::output::{Style, printable};
use crate::session::{Session, SessionArguments};

/// Show whether the server is ready
///
/// The exit status is 1 if the server is not ready, and 5 if it cannot be reached.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    session: SessionArguments,
}

pub(super) fn run(arguments: &Arguments, clock: &dyn Clock) -> Result<ExitStatus, CliError> {
    let session = Session::new(&arguments.session, clock)?;
    let (api, output) = (&session.api, &session.output);
    let (status, readiness) = api.text("/readyz")?;
    let version = api.get("/openapi.json")?.body.text("info.version").to_owned();
    // Also checks the token.
    let collections =
        api.list(Call::new(Method::GET, api.collections()), usize::MAX, |_| ())?.len();
    let pause = api.get("/api/pause")?.body;
    let is_ready = status == 200;
    let server = api.server().to_owned();
    let value = object([
        ("server", server.clone().into()),
        ("ready", Json::Bool(is_ready)),
        ("readiness", readiness.clone().into()),
        ("apiVersion", version.clone().into()),
        ("collections", (collections as u64).into()),
        ("pause", pause.clone()),
    ]);
    output.value(&value, &server, |to| {
        let style = if is_ready { Style::Good } else { Style::Bad };
        writeln!(to, "server       {server}")?;
        writeln!(to, "readiness    {}", output.styled(&readiness, style))?;
        writeln!(to, "API version  {version}")?;
        writeln!(to, "collections  {collections}")?;
        if let Some(pause) = describe(&pause, output) {
            writeln!(to, "all jobs     {}", printable(&pause))?;
        }
        Ok(())
    })?;
    Ok(if is_ready { ExitStatus::Success } else { ExitStatus::Failure })
}
