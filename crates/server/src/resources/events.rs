//! `GET /events`: what comes into the history and the ledger of jobs, as server-sent events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use hyper::body::Frame;
use kalends_domain::{
    AccessScope, AttemptStatus, CollectionName, GroupName, JobName, NameError, Permission,
    SubscriptionId,
};
use kalends_store::EventPosition;
use kalends_wire::{
    ErrorCode, ErrorDetails, Version, write_closed_occurrence, write_history_entry,
};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Asked, Done};
use crate::access::Caller;
use crate::answer::Answer;
use crate::app::App;
use crate::events::{Cursor, Event, Scope, Told, merge};
use crate::request::invalid;
use crate::resources::explain::state_word;

/// Between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Looks without anything to tell before a sign of life: proxies cut what is silent for a minute.
const LOOKS_SILENT: u32 = 30;
/// Entries, and rows of the ledger, read at once.
const BATCH: usize = 100;
/// Events that may wait for the client to take them.
const BUFFER: usize = 16;
/// A client that takes nothing for so long is cut off; it can go on where it was.
const TAKE_WITHIN: Duration = Duration::from_secs(30);
/// Clients try again so soon.
const RETRY_MILLISECONDS: u32 = 2_000;

pub(super) async fn stream(asked: Asked) -> Done {
    let version = asked.new_version()?;
    let scope = scope(&asked)?;
    let after = position(&asked)?;
    let Some((place, stopped)) = asked.app.events.join() else {
        let message = "too many follow events; try again later";
        return Err(ErrorDetails::one(ErrorCode::ServerBusy, "", message).into());
    };
    let newest = asked.app.store.events(None, 0).await?.newest;
    let (sender, receiver) = mpsc::channel(BUFFER);
    let follower = Follower { app: asked.app, caller: asked.caller, version, scope, sender };
    tokio::spawn(async move {
        follower.follow(after, newest, stopped).await;
        drop(place);
    });
    let answer = Answer::stream(StatusCode::OK, Body::new(Frames(receiver)));
    // Whole buffers are what proxies wait for unless told otherwise.
    let unbuffered = axum::http::HeaderName::from_static("x-accel-buffering");
    Ok(answer.with(header::CONTENT_TYPE, "text/event-stream").with(unbuffered, "no"))
}

/// Where a client goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Resumed {
    entry: u64,
    /// Absent where the client knows of history only: then what comes from now on.
    closing: Option<u64>,
}

impl Resumed {
    fn read(text: &str) -> Option<Resumed> {
        let number = |text: &str| text.parse().ok().filter(|&number: &u64| number < u64::MAX);
        match text.split_once('-') {
            None => Some(Resumed { entry: number(text)?, closing: None }),
            Some((entry, closing)) => {
                Some(Resumed { entry: number(entry)?, closing: Some(number(closing)?) })
            }
        }
    }
}

/// A position as clients see it.
fn id(position: EventPosition) -> String {
    format!("{}-{}", position.history, position.ledger)
}

/// `Last-Event-ID`, or `lastEventId` for who cannot send headers.
fn position(asked: &Asked) -> Result<Option<Resumed>, ErrorDetails> {
    let header = asked.headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let Some(text) = header.or(asked.query.text("lastEventId")?) else { return Ok(None) };
    let message = "expected the id of an event as it was sent";
    Resumed::read(text).map(Some).ok_or_else(|| invalid("Last-Event-ID", message))
}

fn scope(asked: &Asked) -> Result<Scope, ErrorDetails> {
    fn read<T>(
        asked: &Asked,
        name: &str,
        new: impl Fn(&str) -> Result<T, NameError>,
    ) -> Result<Option<T>, ErrorDetails> {
        let text = asked.query.text(name)?;
        text.map(new).transpose().map_err(|error| invalid(name, error.to_string()))
    }
    Ok(Scope {
        subscription: read(asked, "subscription", SubscriptionId::new)?,
        group: read(asked, "resourceGroup", GroupName::new)?,
        collection: read(asked, "collection", CollectionName::new)?,
        job: read(asked, "job", JobName::new)?,
    })
}

struct Follower {
    app: Arc<App>,
    /// Who follows is told what he may read.
    caller: Caller,
    version: Version,
    scope: Scope,
    sender: Sender<Bytes>,
}

/// The client has gone, takes nothing, or the server stops.
struct Over;

impl Follower {
    async fn follow(
        self,
        after: Option<Resumed>,
        newest: EventPosition,
        mut stopped: watch::Receiver<bool>,
    ) {
        tokio::select! {
            _ = self.tell_all(after, newest) => {}
            () = self.sender.closed() => {}
            // A server that is gone has stopped.
            _ = stopped.wait_for(|&stopped| stopped) => {}
        }
    }

    async fn tell_all(&self, after: Option<Resumed>, newest: EventPosition) -> Result<(), Over> {
        let asked = EventPosition {
            history: after.map_or(newest.history, |after| after.entry),
            ledger: after.and_then(|after| after.closing).unwrap_or(newest.ledger),
        };
        let mut told = EventPosition {
            history: asked.history.min(newest.history),
            ledger: asked.ledger.min(newest.ledger),
        };
        if told != asked {
            // Of a store that was put back to an earlier state.
            self.tell_gap(told, asked).await?;
        }
        let (mut entries, mut closings) = (Cursor::new(told.history), Cursor::new(told.ledger));
        let open = id(told);
        self.send(format!("retry: {RETRY_MILLISECONDS}\nid: {open}\nevent: open\ndata: {{}}\n\n"))
            .await?;
        let mut silent = 0;
        loop {
            let after = EventPosition { history: entries.at, ledger: closings.at };
            // What cannot be read now can be read later.
            let found = self.app.store.events(Some(after), BATCH).await.unwrap_or_default();
            let is_full = found.history.len().max(found.ledger.len()) >= BATCH;
            let now = self.app.now();
            let events = merge(entries.take(found.history, now), closings.take(found.ledger, now));
            let went_on = !events.is_empty();
            for event in events {
                if self.tell(event, &mut told).await? {
                    silent = 0;
                }
            }
            if is_full && went_on {
                continue;
            }
            silent += 1;
            if silent > LOOKS_SILENT {
                silent = 0;
                // The position goes with it, so that what was passed over is not read again.
                self.send(format!(": still here\nid: {}\n\n", id(told))).await?;
            }
            let _ = timeout(LOOK_EVERY, self.sender.closed()).await;
        }
    }

    /// `false` where it is none of this follower's. `told` is where it is then, either way.
    async fn tell(&self, event: Event, told: &mut EventPosition) -> Result<bool, Over> {
        let (path, kind, data) = match &event {
            Event::Entry(Told::Gap { after, before }) => {
                let at = |history| EventPosition { history, ..*told };
                return self.tell_gap(at(*after), at(*before)).await.map(|()| true);
            }
            Event::Closing(Told::Gap { after, before }) => {
                let at = |ledger| EventPosition { ledger, ..*told };
                return self.tell_gap(at(*after), at(*before)).await.map(|()| true);
            }
            Event::Entry(Told::One((path, record))) => {
                told.history = record.sequence;
                let kind = match record.entry.status {
                    AttemptStatus::Postponed => "postponed",
                    _ => "attempt",
                };
                let number = record.sequence;
                (path, kind, write_history_entry(path, &record.entry, number, self.version))
            }
            Event::Closing(Told::One((path, record))) => {
                told.ledger = record.number;
                (
                    path,
                    "occurrence",
                    write_closed_occurrence(path, &record.record, state_word(record.job_state)),
                )
            }
        };
        let place = AccessScope::Collection(path.collection.clone());
        if !self.scope.holds(path) || !self.caller.may(Permission::Read, &place) {
            return Ok(false);
        }
        let text = format!("id: {}\nevent: {kind}\ndata: {data}\n\n", id(*told));
        self.send(text).await.map(|()| true)
    }

    async fn tell_gap(&self, after: EventPosition, before: EventPosition) -> Result<(), Over> {
        let data = format!("{{\"after\":\"{}\",\"before\":\"{}\"}}", id(after), id(before));
        self.send(format!("event: gap\ndata: {data}\n\n")).await
    }

    async fn send(&self, text: String) -> Result<(), Over> {
        match timeout(TAKE_WITHIN, self.sender.send(Bytes::from(text))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Over),
        }
    }
}

/// The body of the answer: it ends with who sends.
struct Frames(Receiver<Bytes>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
