//! The Prometheus text exposition format.

use std::fmt::Write as _;

use crate::histogram::{BUCKET_BOUNDS_SECONDS, Histogram};

/// The body of a `/metrics` response while it is written.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

/// All samples of one metric name. They differ in their labels.
pub struct MetricFamily<'a> {
    page: &'a mut Exposition,
    name: &'a str,
}

/// Label names and values of one sample.
pub type Labels<'a> = [(&'a str, &'a str)];

impl Exposition {
    /// Starts a family of counters. By convention the name ends in `_total`.
    pub fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> MetricFamily<'a> {
        self.family(name, help, "counter")
    }

    /// Starts a family of gauges.
    pub fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> MetricFamily<'a> {
        self.family(name, help, "gauge")
    }

    /// Starts a family of histograms. By convention the name ends in `_seconds`.
    pub fn histogram<'a>(&'a mut self, name: &'a str, help: &str) -> MetricFamily<'a> {
        self.family(name, help, "histogram")
    }

    /// Returns the finished text.
    pub fn finish(self) -> String {
        self.text
    }

    fn family<'a>(&'a mut self, name: &'a str, help: &str, kind: &str) -> MetricFamily<'a> {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        MetricFamily { page: self, name }
    }

    fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &Labels<'_>,
        value: impl std::fmt::Display,
    ) {
        let _ = write!(self.text, "{name}{suffix}");
        for (number, (label, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"");
            for char in value.chars() {
                match char {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    char => self.text.push(char),
                }
            }
            self.text.push('"');
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }
}

impl MetricFamily<'_> {
    /// Adds one sample.
    pub fn value(&mut self, labels: &Labels<'_>, value: impl std::fmt::Display) -> &mut Self {
        self.page.sample(self.name, "", labels, value);
        self
    }

    /// Adds the buckets, sum and count of a histogram.
    pub fn durations(&mut self, labels: &Labels<'_>, histogram: &Histogram) -> &mut Self {
        let (counts, total) = histogram.cumulative_counts();
        let buckets = BUCKET_BOUNDS_SECONDS.iter().map(f64::to_string).zip(counts);
        for (bound, count) in buckets.chain([("+Inf".to_owned(), total)]) {
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
            self.page.sample(self.name, "_bucket", &labels, count);
        }
        self.page.sample(self.name, "_sum", labels, histogram.sum_seconds());
        self.page.sample(self.name, "_count", labels, total);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn samples_have_help_type_and_escaped_labels() {
        let mut page = Exposition::default();
        page.counter("a_total", "Things")
            .value(&[], 1)
            .value(&[("x", "a\"b\\c\nd"), ("y", "é")], 2);
        page.gauge("b", "More").value(&[], 0.5);
        let expected = "# HELP a_total Things\n# TYPE a_total counter\na_total 1\na_total{x=\"a\\\"b\\\\c\\nd\",y=\"é\"} 2\n# HELP b More\n# TYPE b gauge\nb 0.5\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn buckets_are_cumulative() {
        let histogram = Histogram::default();
        for milliseconds in [0, 1, 3, 20_000] {
            histogram.record(Duration::from_millis(milliseconds));
        }
        let mut page = Exposition::default();
        page.histogram("t_seconds", "Times").durations(&[("x", "y")], &histogram);
        let text = page.finish();
        for line in [
            "t_seconds_bucket{x=\"y\",le=\"0.0001\"} 1",
            "t_seconds_bucket{x=\"y\",le=\"0.001\"} 2",
            "t_seconds_bucket{x=\"y\",le=\"0.0025\"} 2",
            "t_seconds_bucket{x=\"y\",le=\"0.005\"} 3",
            "t_seconds_bucket{x=\"y\",le=\"10\"} 3",
            "t_seconds_bucket{x=\"y\",le=\"+Inf\"} 4",
            "t_seconds_sum{x=\"y\"} 20.004",
            "t_seconds_count{x=\"y\"} 4",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
    }
}
