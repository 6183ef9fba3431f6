//! The event stream of the server: history entries and finished occurrences as they happen.

use std::time::Duration;

use http::{Method, header};
use kalends_actions::ResponseBody;
use kalends_environment::{Clock as _, SystemClock};
use kalends_wire::Json;

use super::{Api, Call, refusal};
use crate::error::CliError;

/// Longest line of the stream in bytes; an event has one history entry.
const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Time without a byte after which the connection counts as broken. The server sends a comment at least
/// every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// Pause before the stream is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Attempts to open the stream again after it broke.
const RECONNECTS_MAX: u32 = 30;
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// One event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    /// `open`, `attempt`, `postponed`, `occurrence`, `gap` or `end`.
    pub(crate) kind: String,
    /// The data; null if there is none.
    pub(crate) data: Option<Json<'static>>,
}

/// Which events to receive.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    pub(crate) collection: Option<String>,
    pub(crate) job: Option<String>,
}

/// An open stream, which is opened again where it ended if the connection breaks.
pub(crate) struct EventStream<'a> {
    api: &'a Api,
    filter: EventFilter,
    body: ResponseBody,
    buffer: Vec<u8>,
    last_id: Option<String>,
    /// The uptime at which waiting ends, and the message of the error then.
    deadline: Option<(Duration, String)>,
}

impl Api {
    /// Opens the event stream. Returns when it is open: later events are not missed.
    pub(crate) fn events(&self, filter: EventFilter) -> Result<EventStream<'_>, CliError> {
        let body = self.open_events(&filter, None)?;
        let mut stream = EventStream {
            api: self,
            filter,
            body,
            buffer: Vec::new(),
            last_id: None,
            deadline: None,
        };
        let first = stream.next()?;
        match first.kind.as_str() {
            "open" => Ok(stream),
            _ => Err(self.unexpected("the event stream did not open")),
        }
    }

    fn open_events(
        &self,
        filter: &EventFilter,
        last_id: Option<&str>,
    ) -> Result<ResponseBody, CliError> {
        let mut call = Call::new(Method::GET, "/events")
            .query_some("collection", filter.collection.as_deref())
            .query_some("job", filter.job.as_deref());
        let last_id = last_id.and_then(|id| Some(("last-event-id".parse().ok()?, id.to_owned())));
        call.headers.extend(last_id);
        let mut request = self.request(&call)?;
        let accept = header::HeaderValue::from_static("text/event-stream");
        request.headers_mut().insert(header::ACCEPT, accept);
        let response = self.runtime.block_on(self.agent.stream(request));
        let response = response.map_err(|source| self.unreachable(source))?;
        let status = response.status().as_u16();
        let body = response.into_body();
        if status == 200 {
            return Ok(body);
        }
        let body = self.runtime.block_on(body.collect(ERROR_BYTES_MAX)).unwrap_or_default();
        Err(CliError::Refused(refusal(status, &body, None)))
    }
}

impl EventStream<'_> {
    /// Limits the time of waiting; then `next` fails with a message.
    pub(crate) fn end_after(&mut self, duration: Duration, message: String) {
        self.deadline = Some((SystemClock.uptime().saturating_add(duration), message));
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self) -> Result<Event, CliError> {
        let mut event = Event::default();
        let mut id = None;
        let mut data = String::new();
        loop {
            let Some(line) = self.line()? else {
                (event, id, data) = (Event::default(), None, String::new());
                continue;
            };
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                // A blank line ends an event; one without a type is a keep-alive comment.
                "" if line.is_empty() && !event.kind.is_empty() => break,
                "event" => event.kind = value.to_owned(),
                "id" => id = Some(value.to_owned()),
                "data" => data.push_str(value),
                _ => {}
            }
        }
        self.last_id = id.or(self.last_id.take());
        let json = serde_json::from_str::<Json<'_>>(&data).map(Json::into_owned);
        event.data = json.ok();
        Ok(event)
    }

    /// The next line; `None` after the stream ended and was opened again.
    fn line(&mut self) -> Result<Option<String>, CliError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.buffer.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(self.api.unexpected("an event is too long"));
            }
            let patience = self.time_left()?.min(SILENCE_MAX);
            let body = &mut self.body;
            let chunk = async { tokio::time::timeout(patience, body.chunk()).await };
            match self.api.runtime.block_on(chunk) {
                Ok(Ok(Some(bytes))) => self.buffer.extend_from_slice(&bytes),
                Ok(Ok(None) | Err(_)) | Err(_) => {
                    self.time_left()?;
                    self.reopen()?;
                    return Ok(None);
                }
            }
        }
    }

    /// The time until the deadline, or its error.
    fn time_left(&self) -> Result<Duration, CliError> {
        let Some((deadline, message)) = &self.deadline else { return Ok(Duration::MAX) };
        match deadline.saturating_sub(SystemClock.uptime()) {
            Duration::ZERO => Err(CliError::Failure(message.clone())),
            left => Ok(left),
        }
    }

    fn reopen(&mut self) -> Result<(), CliError> {
        self.buffer.clear();
        let mut reconnects = 0;
        loop {
            reconnects += 1;
            match self.api.open_events(&self.filter, self.last_id.as_deref()) {
                Ok(body) => {
                    self.body = body;
                    return Ok(());
                }
                Err(error) if reconnects < RECONNECTS_MAX && is_temporary(&error) => {
                    self.time_left()?;
                    self.api.runtime.block_on(SystemClock.sleep(RECONNECT_PAUSE));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a server that restarts may accept the next attempt.
fn is_temporary(error: &CliError) -> bool {
    match error {
        CliError::Unreachable { .. } => true,
        CliError::Refused(refusal) => matches!(refusal.status, 429 | 502..=504),
        _ => false,
    }
}
