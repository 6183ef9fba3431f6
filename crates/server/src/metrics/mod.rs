//! Metrics of the server, and the `/metrics` page with the metrics of all components.

mod labels;
mod process;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use kalends_metrics::{Counter, Exposition, Gauge, Histogram, Metrics};

use crate::connection::Transport;
use crate::metrics::labels::{CLASSES, METHODS, ROUTES, class_index, method_index, route_index};
use crate::protocol::Protocol;

/// Metrics of one route.
#[derive(Debug, Default)]
struct RouteMetrics {
    handled: [[Counter; CLASSES.len()]; METHODS.len()],
    duration: Histogram,
}

/// Metrics of all routes, in the order of [`ROUTES`].
struct Routes([RouteMetrics; ROUTES.len()]);

impl Default for Routes {
    fn default() -> Routes {
        Routes(std::array::from_fn(|_| RouteMetrics::default()))
    }
}

/// Metrics of the server.
#[derive(Default)]
pub struct ServerMetrics {
    routes: Routes,
    requests_in_flight: Gauge,
    requests_rejected: Counter,
    connections: [Counter; 4],
    connections_open: Gauge,
    connections_rejected: Counter,
    connections_evicted: Counter,
    handshakes_failed: Counter,
    /// Other components on the page.
    others: Vec<Arc<dyn Metrics>>,
    /// Start time of the process.
    started: Option<jiff::Timestamp>,
}

impl ServerMetrics {
    /// Creates the metrics. The page also shows those of `others` and the start time of the process.
    pub fn new(others: Vec<Arc<dyn Metrics>>, started: jiff::Timestamp) -> ServerMetrics {
        ServerMetrics { others, started: Some(started), ..ServerMetrics::default() }
    }

    /// The text of `/metrics`.
    pub(crate) fn page(&self) -> String {
        let mut page = Exposition::default();
        self.write(&mut page);
        self.others.iter().for_each(|other| other.write(&mut page));
        process::write(&mut page, self.started);
        page.finish()
    }

    /// Counts a request as in flight until the returned guard is dropped.
    pub(crate) fn begin_request(&self) -> impl Drop {
        self.requests_in_flight.guard()
    }

    /// Records a handled request. Returns its `route` label.
    pub(crate) fn end_request(
        &self,
        path: &str,
        method: &Method,
        status: StatusCode,
        duration: Duration,
    ) -> &'static str {
        let route = route_index(path);
        if let Some(metrics) = self.routes.0.get(route) {
            metrics.duration.record(duration);
            let classes = metrics.handled.get(method_index(method));
            if let Some(counter) = classes.and_then(|classes| classes.get(class_index(status))) {
                counter.increment();
            }
        }
        ROUTES.get(route).copied().unwrap_or_default()
    }

    /// Counts a request that was rejected because too many were in flight.
    pub(crate) fn request_rejected(&self) {
        self.requests_rejected.increment();
    }

    /// Counts a connection as open until the returned guard is dropped.
    pub(crate) fn connection_opened(&self, protocol: Protocol, transport: Transport) -> impl Drop {
        let [plain1, plain2, tls1, tls2] = &self.connections;
        let counter = match (transport, protocol) {
            (Transport::Plain, Protocol::Http1) => plain1,
            (Transport::Plain, Protocol::Http2) => plain2,
            (Transport::Tls, Protocol::Http1) => tls1,
            (Transport::Tls, Protocol::Http2) => tls2,
        };
        counter.increment();
        self.connections_open.guard()
    }

    /// Counts a connection that was closed at once because its client has too many.
    pub(crate) fn connection_rejected(&self) {
        self.connections_rejected.increment();
    }

    /// Counts an idle connection that was closed to make room for another.
    pub(crate) fn connection_evicted(&self) {
        self.connections_evicted.increment();
    }

    pub(crate) fn handshake_failed(&self) {
        self.handshakes_failed.increment();
    }
}

impl Metrics for ServerMetrics {
    fn write(&self, page: &mut Exposition) {
        let mut requests = page.counter("kalends_http_requests_total", "Handled HTTP requests");
        for (route, metrics) in ROUTES.iter().zip(&self.routes.0) {
            for (method, classes) in METHODS.iter().zip(&metrics.handled) {
                let counted = CLASSES.iter().zip(classes).filter(|(_, counter)| counter.get() > 0);
                for (class, counter) in counted {
                    let labels = [("route", *route), ("method", method), ("status", class)];
                    requests.value(&labels, counter.get());
                }
            }
        }
        let help = "Time from the request head to the response head";
        let mut durations = page.histogram("kalends_http_request_duration_seconds", help);
        for (route, metrics) in ROUTES.iter().zip(&self.routes.0) {
            let is_used = metrics.handled.iter().flatten().any(|counter| counter.get() > 0);
            if is_used {
                durations.durations(&[("route", route)], &metrics.duration);
            }
        }
        page.gauge("kalends_http_requests_under_way", "HTTP requests in flight")
            .value(&[], self.requests_in_flight.get());
        page.counter(
            "kalends_http_busy_total",
            "Requests rejected because too many were in flight",
        )
        .value(&[], self.requests_rejected.get());
        let mut connections = page.counter("kalends_connections_total", "Accepted connections");
        let labels = [("no", "1.1"), ("no", "2"), ("yes", "1.1"), ("yes", "2")];
        for ((tls, version), counter) in labels.iter().zip(&self.connections) {
            connections.value(&[("tls", tls), ("http", version)], counter.get());
        }
        page.gauge("kalends_connections_open", "Open connections")
            .value(&[], self.connections_open.get());
        let help = "Connections closed because their client had reached its limit";
        page.counter("kalends_connections_refused_total", help)
            .value(&[], self.connections_rejected.get());
        let help = "Idle connections closed to make room for others";
        page.counter("kalends_connections_evicted_total", help)
            .value(&[], self.connections_evicted.get());
        page.counter("kalends_handshakes_failed_total", "Failed TLS handshakes")
            .value(&[], self.handshakes_failed.get());
    }
}
