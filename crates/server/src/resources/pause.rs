//! `/api/pause` and `/api/resume`: the pause of all jobs.

use http::{Method, StatusCode};
use kalends_domain::{NewNote, Pause, PauseRecord};
use kalends_store::{PauseContext, PauseWrite};
use kalends_wire::{ErrorCode, ErrorDetails, PauseRequest, write_pause};

use super::{HandlerResult, RequestContext};
use crate::request::read_json;
use crate::response::{ApiError, ApiResponse};

pub(super) async fn pause(request: RequestContext) -> HandlerResult {
    request.new_version()?;
    match request.method {
        Method::POST => begin(request).await,
        _ => Ok(response(request.app.store.pause().await?.as_ref())),
    }
}

/// Pauses all jobs. A pause that holds already keeps its start.
async fn begin(mut request: RequestContext) -> HandlerResult {
    let body = read_json(&mut request).await?;
    let PauseRequest { reason, until } = PauseRequest::read(&body)?;
    // The reason is a note as well: that of the next pause replaces it here, not there.
    let note = NewNote { author: request.caller.note_author(), text: reason.clone() };
    let (reason, by) = (reason.as_str().to_owned(), request.caller.id.to_string());
    edit(request, Some(note), move |context| {
        let now = context.now;
        if let Some(until) = until.filter(|&until| until <= now) {
            let message = format!("must lie in the future, after {now} (found {until})");
            return Err(ErrorDetails::one(ErrorCode::InvalidDateTime, "until", message).into());
        }
        let since = context.active.map_or(now, |active| active.pause.since);
        let pause = Pause::new(since, until);
        Ok(PauseWrite::Put(PauseRecord { pause, reason: reason.clone(), by: by.clone() }))
    })
    .await
}

/// Ends the pause; without one, nothing changes.
pub(super) async fn resume(request: RequestContext) -> HandlerResult {
    let version = request.new_version()?;
    let note = request.note(version)?;
    edit(request, note, |context| {
        Ok(context.active.map_or(PauseWrite::Keep, |active| {
            let pause = active.pause.resumed(context.now);
            PauseWrite::Put(PauseRecord { pause, ..active.clone() })
        }))
    })
    .await
}

async fn edit(
    request: RequestContext,
    note: Option<NewNote>,
    mut decide: impl FnMut(PauseContext<'_>) -> Result<PauseWrite, ApiError> + Send + 'static,
) -> HandlerResult {
    let decide = Box::new(move |context: PauseContext<'_>| Ok(decide(context)?));
    let active = request.app.store.edit_pause_with_note(decide, note).await?;
    (request.app.on_edit)();
    request.app.overview.note_change();
    Ok(response(active.as_ref()))
}

fn response(pause: Option<&PauseRecord>) -> ApiResponse {
    ApiResponse::json(StatusCode::OK, &write_pause(pause))
}
