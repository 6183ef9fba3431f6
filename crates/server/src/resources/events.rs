//! `GET /events`: new history entries, closed occurrences and starts of runs as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode, header};
use hyper::body::Bytes;
use kalends_domain::{
    AccessScope, AttemptStatus, CollectionName, GroupName, JobName, NameError, Permission,
    SubscriptionId,
};
use kalends_recurrence::Instant;
use kalends_store::{EventPosition, OpenRunsQuery, RunFilter};
use kalends_wire::{
    ErrorCode, ErrorDetails, Version, quoted, write_closed_occurrence, write_history_entry,
};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;
use tokio::time::timeout;

use super::runs::write_open;
use super::{HandlerResult, RequestContext};
use crate::access::Caller;
use crate::app::App;
use crate::body::ResponseBody;
use crate::capacity::{CapacityExceeded, RequestSlot};
use crate::events::{Cursor, Event, EventFilter, StreamItem, merge};
use crate::request::invalid;
use crate::resources::explain::state_word;
use crate::response::{ApiError, ApiResponse};
use crate::started_runs::{EXAMINED_MAX, StartedRuns};

/// Interval between two polls of the store.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Polls without an event before a keep-alive comment: proxies close streams that are silent for a
/// minute.
const SILENT_POLLS_MAX: u32 = 30;
/// History entries, and ledger rows, of one poll.
const BATCH: usize = 100;
/// Events that may wait for the client.
const BUFFER: usize = 16;
/// Time after which a client that reads nothing is disconnected. It can resume at its position.
const SEND_TIME_MAX: Duration = Duration::from_secs(30);
/// Last event id of a client that wants all retained events.
const BEGINNING: &str = "0";
/// Reconnect delay of clients.
const RETRY_MILLISECONDS: u32 = 2_000;

pub(super) async fn stream(request: RequestContext) -> HandlerResult {
    let version = request.new_version()?;
    let filter = filter(&request)?;
    let resume = resume_position(&request)?;
    let client = request.source.client.into();
    let subscribed = request.app.events.subscribe(client, &request.caller);
    let (permit, stopped) = subscribed.map_err(too_many_subscribers)?;
    let newest = request.app.store.events(None, 0).await?.newest;
    let (sender, receiver) = mpsc::channel(BUFFER);
    let subscriber = Subscriber {
        context: context(&request.caller),
        app: request.app,
        headers: request.headers,
        slot: request.slot.outside_again(),
        version,
        filter,
        sender,
    };
    tokio::spawn(async move {
        subscriber.run(request.caller, resume, newest, stopped).await;
        drop(permit);
    });
    let response = ApiResponse::stream(StatusCode::OK, ResponseBody::stream(receiver));
    // Disables response buffering in nginx.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    Ok(response.with(header::CONTENT_TYPE, "text/event-stream").with(unbuffered, "no"))
}

fn too_many_subscribers(exceeded: CapacityExceeded) -> ApiError {
    let (code, message) = match exceeded {
        CapacityExceeded::Total => {
            (ErrorCode::ServerBusy, "The server has too many event streams; retry later")
        }
        CapacityExceeded::Share => (
            ErrorCode::TooManyRequests,
            "The caller or its address has too many event streams; close one first",
        ),
    };
    let details = ErrorDetails::one(code, "", message);
    ApiError::rate_limited(details, u64::from(RETRY_MILLISECONDS / 1_000))
}

/// The context of event ids: they are valid for callers with the same scopes, such as a token that
/// replaces another.
fn context(caller: &Caller) -> String {
    format!("events\n{}", caller.scopes())
}

/// `Last-Event-ID`, or `lastEventId` for clients that cannot send headers.
fn resume_position(request: &RequestContext) -> Result<Option<EventPosition>, ErrorDetails> {
    let header = request.headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let Some(text) = header.or(request.query.text("lastEventId")?) else { return Ok(None) };
    if text == BEGINNING {
        return Ok(Some(EventPosition { history: 0, ledger: 0 }));
    }
    let position = request.app.position_key.decrypt(&context(&request.caller), text);
    let position = position.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let message = "must be the id of an event that a caller with the same scopes received, or 0";
    let message = || format!("{message} (found {})", quoted(text));
    let position = position.ok_or_else(|| invalid("Last-Event-ID", message()))?;
    let position = u128::from_be_bytes(position);
    Ok(Some(EventPosition { history: (position >> 64) as u64, ledger: position as u64 }))
}

fn filter(request: &RequestContext) -> Result<EventFilter, ErrorDetails> {
    fn read<T>(
        request: &RequestContext,
        name: &str,
        new: impl Fn(&str) -> Result<T, NameError>,
    ) -> Result<Option<T>, ErrorDetails> {
        let text = request.query.text(name)?;
        let found = quoted(text.unwrap_or_default());
        let invalid = |error| invalid(name, format!("{error} (found {found})"));
        text.map(new).transpose().map_err(invalid)
    }
    Ok(EventFilter {
        subscription: read(request, "subscription", SubscriptionId::new)?,
        group: read(request, "resourceGroup", GroupName::new)?,
        collection: read(request, "collection", CollectionName::new)?,
        job: read(request, "job", JobName::new)?,
    })
}

struct Subscriber {
    app: Arc<App>,
    /// Context of the event ids.
    context: String,
    /// Headers of the request, with its token.
    headers: HeaderMap,
    slot: RequestSlot,
    version: Version,
    filter: EventFilter,
    sender: Sender<Bytes>,
}

/// The client has disconnected or reads nothing, or its token is no longer valid.
struct StreamClosed;

impl Subscriber {
    async fn run(
        self,
        caller: Caller,
        resume: Option<EventPosition>,
        newest: EventPosition,
        mut stopped: watch::Receiver<bool>,
    ) {
        tokio::select! {
            _ = self.send_all(caller, resume, newest) => {}
            () = self.sender.closed() => {}
            // Also completes if the sender of the signal is dropped.
            _ = stopped.wait_for(|&stopped| stopped) => {}
        }
    }

    /// Sends events to a caller for as long as its token is valid.
    async fn send_all(
        &self,
        mut caller: Caller,
        resume: Option<EventPosition>,
        newest: EventPosition,
    ) -> Result<(), StreamClosed> {
        let requested = resume.unwrap_or(newest);
        let mut sent = EventPosition {
            history: requested.history.min(newest.history),
            ledger: requested.ledger.min(newest.ledger),
        };
        if sent != requested {
            // The position is ahead of the store, which was restored from an older backup.
            self.send_gap(sent, requested).await?;
        }
        let (mut history, mut ledger) = (Cursor::new(sent.history), Cursor::new(sent.ledger));
        let open = self.id(sent);
        self.send(format!("retry: {RETRY_MILLISECONDS}\nid: {open}\nevent: open\ndata: {{}}\n\n"))
            .await?;
        let (mut silent_polls, mut started) = (0, StartedRuns::default());
        loop {
            caller = self.authenticate_again(caller).await?;
            let after = EventPosition { history: history.position, ledger: ledger.position };
            // After a failed read the next poll reads the same events.
            let found = self.app.store.events(Some(after), BATCH).await.unwrap_or_default();
            let is_full = found.history.len().max(found.ledger.len()) >= BATCH;
            let now = self.app.now();
            let events =
                merge(history.advance(found.history, now), ledger.advance(found.ledger, now));
            let has_advanced = !events.is_empty();
            for event in events {
                if self.send_event(event, &caller, &mut sent).await? {
                    silent_polls = 0;
                }
            }
            if is_full && has_advanced {
                continue;
            }
            if self.send_started(&mut started, &caller).await? {
                silent_polls = 0;
            }
            silent_polls += 1;
            if silent_polls > SILENT_POLLS_MAX {
                silent_polls = 0;
                // With the position, so that a client that resumes skips what was filtered out.
                self.send(format!(": still here\nid: {}\n\n", self.id(sent))).await?;
            }
            let _ = timeout(POLL_INTERVAL, self.sender.closed()).await;
        }
    }

    /// The caller, whose token may have changed since. Ends the stream if it is no longer valid;
    /// other failures leave the caller as it is.
    async fn authenticate_again(&self, caller: Caller) -> Result<Caller, StreamClosed> {
        let access = &self.app.access;
        match access.authenticate_again(&self.app, &self.headers, &self.slot).await {
            Ok(caller) => Ok(caller),
            Err(error) if error.code().status() != 401 => Ok(caller),
            Err(error) => {
                let data = format!("{{\"code\":\"{}\"}}", error.code().as_str());
                self.send(format!("event: end\ndata: {data}\n\n")).await?;
                Err(StreamClosed)
            }
        }
    }

    /// The event id of a position.
    fn id(&self, position: EventPosition) -> String {
        let bytes = [position.history.to_be_bytes(), position.ledger.to_be_bytes()];
        let key = &self.app.position_key;
        key.encrypt(&self.context, bytes.as_flattened(), &*self.app.entropy)
    }

    /// Sends the starts of runs since the last poll. They have no position: a client that resumes does
    /// not receive those that it has missed. `false` if there are none.
    async fn send_started(
        &self,
        started: &mut StartedRuns,
        caller: &Caller,
    ) -> Result<bool, StreamClosed> {
        let filter = RunFilter {
            scopes: caller.readable_scopes(),
            job: None,
            status: None,
            from: Instant::MIN,
            to: Instant::MAX,
        };
        let (before, scan_max, limit) = (None, EXAMINED_MAX, EXAMINED_MAX);
        let query = OpenRunsQuery { filter, before, scan_max, limit };
        // After a failed read the next poll finds the same starts.
        let Ok(page) = self.app.store.listed_open_runs(query).await else { return Ok(false) };
        let mut is_sent = false;
        for run in started.advance(page, self.app.now()) {
            if self.filter.matches(&run.path) {
                let data = write_open(&self.app, &run);
                self.send(format!("event: started\ndata: {data}\n\n")).await?;
                is_sent = true;
            }
        }
        Ok(is_sent)
    }

    /// Sends an event and updates the position. `false` if the event does not match the filter or
    /// the caller may not read it.
    async fn send_event(
        &self,
        event: Event,
        caller: &Caller,
        sent: &mut EventPosition,
    ) -> Result<bool, StreamClosed> {
        let (path, kind, data) = match &event {
            Event::History(StreamItem::Gap { after, before }) => {
                let at = |history| EventPosition { history, ..*sent };
                return self.send_gap(at(*after), at(*before)).await.map(|()| true);
            }
            Event::Ledger(StreamItem::Gap { after, before }) => {
                let at = |ledger| EventPosition { ledger, ..*sent };
                return self.send_gap(at(*after), at(*before)).await.map(|()| true);
            }
            Event::History(StreamItem::Record((path, record))) => {
                sent.history = record.sequence;
                let kind = match record.entry.status {
                    AttemptStatus::Postponed => "postponed",
                    _ => "attempt",
                };
                let number = self.app.position_key.pseudonym(record.sequence);
                (path, kind, write_history_entry(path, &record.entry, number, self.version))
            }
            Event::Ledger(StreamItem::Record((path, record))) => {
                sent.ledger = record.number;
                let state = state_word(record.job_state);
                (path, "occurrence", write_closed_occurrence(path, &record.record, state))
            }
        };
        let scope = AccessScope::Collection(path.collection.clone());
        if !self.filter.matches(path) || !caller.may(Permission::Read, &scope) {
            return Ok(false);
        }
        let text = format!("id: {}\nevent: {kind}\ndata: {data}\n\n", self.id(*sent));
        self.send(text).await.map(|()| true)
    }

    async fn send_gap(
        &self,
        after: EventPosition,
        before: EventPosition,
    ) -> Result<(), StreamClosed> {
        let data =
            format!("{{\"after\":\"{}\",\"before\":\"{}\"}}", self.id(after), self.id(before));
        self.send(format!("event: gap\ndata: {data}\n\n")).await
    }

    async fn send(&self, text: String) -> Result<(), StreamClosed> {
        match timeout(SEND_TIME_MAX, self.sender.send(Bytes::from(text))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(StreamClosed),
        }
    }
}
