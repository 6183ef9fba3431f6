//! `kalends next --jsonl`: one request per line in, one response per line out.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use kalends_recurrence::{Instant, Rule, Settings};
use kalends_wire::{ErrorCode, ErrorDetails, NextRequest};

/// Longest line in bytes. A definition has at most 16 KiB; longer lines are rejected unread.
const LINE_BYTES_MAX: u64 = 64 * 1024;
const BUFFER_BYTES: usize = 256 * 1024;

pub(super) fn run(
    input: impl Read,
    output: impl Write,
    now: Instant,
    settings: &Settings,
) -> anyhow::Result<()> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, output);
    let mut line = Vec::new();
    loop {
        // Flush before blocking: the client may wait for a response before it sends the next line.
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.clear();
        if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            output.flush()?;
            return Ok(());
        }
        if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            skip_line(&mut input)?;
            let mut errors = ErrorDetails::default();
            let message = format!("the line is longer than {LINE_BYTES_MAX} bytes");
            errors.add(ErrorCode::InvalidRequestContent, "", message);
            write_error(&errors, &mut output)?;
        } else if !line.trim_ascii().is_empty() {
            respond(&line, now, settings, &mut output)?;
        }
    }
}

fn respond(
    line: &[u8],
    now: Instant,
    settings: &Settings,
    output: &mut impl Write,
) -> io::Result<()> {
    let request = match NextRequest::read(line, now) {
        Ok(request) => request,
        Err(errors) => return write_error(&errors, output),
    };
    let rule = match Rule::new(request.definition, settings) {
        Ok(rule) => rule,
        Err(problems) => {
            let errors = problems.0.into_iter().map(Into::into).collect();
            return write_error(&errors, output);
        }
    };
    match request.after {
        Some(after) => write_occurrences(rule.occurrences_after(after).take(request.limit), output),
        None => write_occurrences(rule.occurrences().take(request.limit), output),
    }
}

fn write_occurrences(
    occurrences: impl Iterator<Item = Instant>,
    output: &mut impl Write,
) -> io::Result<()> {
    output.write_all(b"{\"occurrences\":[")?;
    for (number, at) in occurrences.enumerate() {
        let separator = if number == 0 { "" } else { "," };
        write!(output, "{separator}\"{at}\"")?;
    }
    output.write_all(b"]}\n")
}

fn write_error(errors: &ErrorDetails, output: &mut impl Write) -> io::Result<()> {
    let error = serde_json::json!({
        "error": { "code": errors.code().as_str(), "message": errors.to_string() }
    });
    writeln!(output, "{error}")
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let (used, done) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(used);
        if done {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &[&str]) {
        let now = "2026-11-15T00:00:00Z".parse().unwrap();
        let mut output = Vec::new();
        run(input.as_bytes(), &mut output, now, &Settings::default()).unwrap();
        let output = String::from_utf8(output).unwrap();
        assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_line_gets_one_response_and_an_invalid_one_does_not_end_the_stream() {
        check(
            concat!(
                r#"{"startTime":"2026-03-02T09:00:00Z","createdAt":"2026-03-01T00:00:00Z","recurrence":{"frequency":"day","count":2}}"#,
                "\n",
                r#"{"recurrence":{"frequency":"day","schedule":{"hours":[24]}}}"#,
                "\n\n",
                r#"{"startTime":"2026-11-20T00:00:00.1234500Z"}"#,
            ),
            &[
                r#"{"occurrences":["2026-03-02T09:00:00Z","2026-03-03T09:00:00Z"]}"#,
                r#"{"error":{"code":"InvalidSchedule","message":"recurrence.schedule.hours[0] must be between 0 and 23 (found 24); write 0 for midnight"}}"#,
                r#"{"occurrences":["2026-11-20T00:00:00.12345Z"]}"#,
            ],
        );
    }

    #[test]
    fn after_is_exclusive_and_limit_is_respected() {
        let definition = r#""startTime":"2026-03-02T09:00:00Z","createdAt":"2026-03-01T00:00:00Z","recurrence":{"frequency":"Hour"}"#;
        check(
            &format!(
                "{{{definition},\"after\":\"2026-03-02T10:00:00Z\",\"limit\":1}}\n{{{definition},\"limit\":0}}\n"
            ),
            &[r#"{"occurrences":["2026-03-02T11:00:00Z"]}"#, r#"{"occurrences":[]}"#],
        );
    }

    #[test]
    fn a_rule_that_has_ended_has_no_occurrences() {
        check(
            r#"{"startTime":"2026-03-02T09:00:00Z","createdAt":"2026-03-03T00:00:00Z","recurrence":{"frequency":"day","endTime":"2026-03-03"}}"#,
            &[r#"{"occurrences":[]}"#],
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_rejected_and_skipped() {
        let long = format!("{{\"x\":\"{}\"}}\n{{}}\n", "y".repeat(200_000));
        check(
            &long,
            &[
                r#"{"error":{"code":"InvalidRequestContent","message":"the line is longer than 65536 bytes"}}"#,
                r#"{"occurrences":["2026-11-15T00:00:00Z"]}"#,
            ],
        );
    }
}
