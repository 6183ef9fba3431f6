//! What the server counts of its work, and the page with the figures of all.

mod labels;
mod process;

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use kalends_metrics::{Counter, Exposition, Gauge, Histogram, Metrics};

use crate::door::Security;
use crate::figures::labels::{CLASSES, METHODS, ROUTES, class, method, route};
use crate::preface::Protocol;

/// What is counted of the requests to one kind of path.
#[derive(Debug, Default)]
struct Requests {
    answered: [[Counter; CLASSES.len()]; METHODS.len()],
    took: Histogram,
}

/// What the server counts of its work.
#[derive(Default)]
pub struct ServerFigures {
    requests: [Requests; ROUTES.len()],
    requests_under_way: Gauge,
    busy: Counter,
    connections: [Counter; 4],
    connections_open: Gauge,
    connections_refused: Counter,
    handshakes_failed: Counter,
    /// Who else has something to show.
    others: Vec<Arc<dyn Metrics>>,
    started: Option<jiff::Timestamp>,
}

impl ServerFigures {
    /// None yet. Those of `others` go with them; the process was started then.
    pub fn new(others: Vec<Arc<dyn Metrics>>, started: jiff::Timestamp) -> ServerFigures {
        ServerFigures { others, started: Some(started), ..ServerFigures::default() }
    }

    /// The page with the figures of all.
    pub(crate) fn page(&self) -> String {
        let mut page = Exposition::default();
        self.write(&mut page);
        self.others.iter().for_each(|other| other.write(&mut page));
        process::write(&mut page, self.started);
        page.finish()
    }

    pub(crate) fn request(&self) -> impl Drop {
        self.requests_under_way.guard()
    }

    /// A request was answered. What it was to, in words that are the same for all names.
    pub(crate) fn answered(
        &self,
        path: &str,
        asked: &Method,
        status: StatusCode,
        took: Duration,
    ) -> &'static str {
        let route = route(path);
        let name = ROUTES.get(route).copied().unwrap_or_default();
        if let Some(requests) = self.requests.get(route) {
            requests.took.record(took);
            let of_method = requests.answered.get(method(asked));
            if let Some(counter) = of_method.and_then(|counters| counters.get(class(status))) {
                counter.increment();
            }
        }
        name
    }

    pub(crate) fn refused_as_busy(&self) {
        self.busy.increment();
    }

    /// A connection is served, until what is returned is dropped.
    pub(crate) fn connection(&self, protocol: Protocol, security: Security) -> impl Drop {
        let [plain1, plain2, tls1, tls2] = &self.connections;
        let counter = match (security, protocol) {
            (Security::Plain, Protocol::Http1) => plain1,
            (Security::Plain, Protocol::Http2) => plain2,
            (Security::Tls, Protocol::Http1) => tls1,
            (Security::Tls, Protocol::Http2) => tls2,
        };
        counter.increment();
        self.connections_open.guard()
    }

    /// A connection was closed at once: its client has enough of them.
    pub(crate) fn connection_refused(&self) {
        self.connections_refused.increment();
    }

    pub(crate) fn handshake_failed(&self) {
        self.handshakes_failed.increment();
    }
}

impl Metrics for ServerFigures {
    fn write(&self, page: &mut Exposition) {
        let mut all = page.counter("kalends_http_requests_total", "Requests that were answered");
        for (route, requests) in ROUTES.iter().zip(&self.requests) {
            for (method, classes) in METHODS.iter().zip(&requests.answered) {
                let counted = CLASSES.iter().zip(classes).filter(|(_, counter)| counter.get() > 0);
                for (class, counter) in counted {
                    let labels = [("route", *route), ("method", method), ("status", class)];
                    all.value(&labels, counter.get());
                }
            }
        }
        let help = "How long requests took until their answer was ready";
        let mut took = page.histogram("kalends_http_request_duration_seconds", help);
        for (route, requests) in ROUTES.iter().zip(&self.requests) {
            let is_asked = requests.answered.iter().flatten().any(|counter| counter.get() > 0);
            if is_asked {
                took.durations(&[("route", route)], &requests.took);
            }
        }
        page.gauge("kalends_http_requests_under_way", "Requests under way")
            .value(&[], self.requests_under_way.get());
        page.counter("kalends_http_busy_total", "Requests refused because too many were under way")
            .value(&[], self.busy.get());
        let mut all = page.counter("kalends_connections_total", "Connections that were served");
        let labels = [("no", "1.1"), ("no", "2"), ("yes", "1.1"), ("yes", "2")];
        for ((tls, version), counter) in labels.iter().zip(&self.connections) {
            all.value(&[("tls", tls), ("http", version)], counter.get());
        }
        page.gauge("kalends_connections_open", "Connections that are open")
            .value(&[], self.connections_open.get());
        let help = "Connections closed at once because their client has too many";
        page.counter("kalends_connections_refused_total", help)
            .value(&[], self.connections_refused.get());
        page.counter("kalends_handshakes_failed_total", "Handshakes of TLS that failed")
            .value(&[], self.handshakes_failed.get());
    }
}
