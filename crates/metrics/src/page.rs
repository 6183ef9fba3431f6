//! The page of figures, in the text format of Prometheus.

use std::fmt::Write as _;

use crate::histogram::{Histogram, SECONDS_MAX};

/// A page being written.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

/// The values of one name.
pub struct Series<'a> {
    page: &'a mut Page,
    name: &'a str,
}

/// What tells values of one name apart.
pub type Labels<'a> = [(&'a str, &'a str)];

impl Page {
    /// Values that only grow. Their name ends in `_total`.
    pub fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Series<'a> {
        self.series(name, help, "counter")
    }

    /// Values that go up and down.
    pub fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Series<'a> {
        self.series(name, help, "gauge")
    }

    /// How long things took. Their name ends in `_seconds`.
    pub fn histogram<'a>(&'a mut self, name: &'a str, help: &str) -> Series<'a> {
        self.series(name, help, "histogram")
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }

    fn series<'a>(&'a mut self, name: &'a str, help: &str, kind: &str) -> Series<'a> {
        // Writing to a text does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Series { page: self, name }
    }

    fn line(&mut self, name: &str, end: &str, labels: &Labels<'_>, value: impl std::fmt::Display) {
        let _ = write!(self.text, "{name}{end}");
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

impl Series<'_> {
    /// A value.
    pub fn value(&mut self, labels: &Labels<'_>, value: impl std::fmt::Display) -> &mut Self {
        self.page.line(self.name, "", labels, value);
        self
    }

    /// How long things took.
    pub fn times(&mut self, labels: &Labels<'_>, times: &Histogram) -> &mut Self {
        let (counts, all) = times.counts();
        let ends = SECONDS_MAX.iter().map(f64::to_string).zip(counts);
        for (max, count) in ends.chain([("+Inf".to_owned(), all)]) {
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*max)]).collect();
            self.page.line(self.name, "_bucket", &labels, count);
        }
        self.page.line(self.name, "_sum", labels, times.seconds());
        self.page.line(self.name, "_count", labels, all);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn values_have_help_type_and_escaped_labels() {
        let mut page = Page::default();
        page.counter("a_total", "Things")
            .value(&[], 1)
            .value(&[("x", "a\"b\\c\nd"), ("y", "é")], 2);
        page.gauge("b", "More").value(&[], 0.5);
        let expected = "# HELP a_total Things\n# TYPE a_total counter\na_total 1\na_total{x=\"a\\\"b\\\\c\\nd\",y=\"é\"} 2\n# HELP b More\n# TYPE b gauge\nb 0.5\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn buckets_hold_all_that_are_smaller_too() {
        let times = Histogram::default();
        for milliseconds in [0, 1, 3, 20_000] {
            times.record(Duration::from_millis(milliseconds));
        }
        let mut page = Page::default();
        page.histogram("t_seconds", "Times").times(&[("x", "y")], &times);
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
