//! `GET /events`: what comes into the history of jobs, as server-sent events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use hyper::body::Frame;
use kalends_domain::{
    AttemptStatus, CollectionName, GroupName, JobName, NameError, Permission, Place, SubscriptionId,
};
use kalends_wire::{Code, Errors, Version, write_history_entry};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Asked, Done};
use crate::access::Caller;
use crate::answer::Answer;
use crate::app::App;
use crate::events::{Cursor, Scope, Told};
use crate::request::invalid;

/// Between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Looks without anything to tell before a sign of life: proxies cut what is silent for a minute.
const LOOKS_SILENT: u32 = 30;
/// Entries read at once.
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
        return Err(Errors::one(Code::ServerBusy, "", message).into());
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

/// `Last-Event-ID`, or `lastEventId` for who cannot send headers.
fn position(asked: &Asked) -> Result<Option<u64>, Errors> {
    let header = asked.headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let Some(text) = header.or(asked.query.text("lastEventId")?) else { return Ok(None) };
    let number = text.parse().ok().filter(|&number: &u64| number < u64::MAX);
    let message = "expected the id of an event as it was sent";
    number.map(Some).ok_or_else(|| invalid("Last-Event-ID", message))
}

fn scope(asked: &Asked) -> Result<Scope, Errors> {
    fn read<T>(
        asked: &Asked,
        name: &str,
        new: impl Fn(&str) -> Result<T, NameError>,
    ) -> Result<Option<T>, Errors> {
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
    async fn follow(self, after: Option<u64>, newest: u64, mut stopped: watch::Receiver<bool>) {
        tokio::select! {
            _ = self.tell_all(after, newest) => {}
            () = self.sender.closed() => {}
            // A server that is gone has stopped.
            _ = stopped.wait_for(|&stopped| stopped) => {}
        }
    }

    async fn tell_all(&self, after: Option<u64>, newest: u64) -> Result<(), Over> {
        // Of a store that was put back to an earlier state.
        let after = match after {
            Some(after) if after > newest => {
                self.tell_gap(newest, after).await?;
                newest
            }
            after => after.unwrap_or(newest),
        };
        let mut cursor = Cursor::new(after);
        self.send(format!("retry: {RETRY_MILLISECONDS}\nid: {after}\nevent: open\ndata: {{}}\n\n"))
            .await?;
        let mut silent = 0;
        loop {
            // What cannot be read now can be read later.
            let events = self.app.store.events(Some(cursor.at), BATCH).await.unwrap_or_default();
            let is_full = events.entries.len() >= BATCH;
            let told = cursor.take(events.entries, self.app.now());
            let went_on = !told.is_empty();
            for told in told {
                if self.tell(told).await? {
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
                self.send(format!(": still here\nid: {}\n\n", cursor.at)).await?;
            }
            let _ = timeout(LOOK_EVERY, self.sender.closed()).await;
        }
    }

    /// `false` where it is none of this follower's.
    async fn tell(&self, told: Told) -> Result<bool, Over> {
        let (path, record) = match told {
            Told::Gap { after, before } => {
                return self.tell_gap(after, before).await.map(|()| true);
            }
            Told::Entry(entry) => *entry,
        };
        let place = Place::Collection(path.collection.clone());
        if !self.scope.holds(&path) || !self.caller.may(Permission::Read, &place) {
            return Ok(false);
        }
        let kind = match record.entry.status {
            AttemptStatus::Postponed => "postponed",
            _ => "attempt",
        };
        let number = record.sequence;
        let data = write_history_entry(&path, &record.entry, number, self.version);
        self.send(format!("id: {number}\nevent: {kind}\ndata: {data}\n\n")).await.map(|()| true)
    }

    async fn tell_gap(&self, after: u64, before: u64) -> Result<(), Over> {
        let data = format!("{{\"after\":\"{after}\",\"before\":\"{before}\"}}");
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
