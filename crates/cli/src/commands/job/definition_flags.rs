//! Job definitions from flags: the common HTTP job without JSON.

use std::path::PathBuf;
use std::time::Duration;

use kalends_recurrence::{Instant, Rule, Settings};
use kalends_wire::{
    Json, Version, parse_duration, parse_short_duration, write_duration, write_recurrence,
};

use crate::commands::collection::parse_tags;
use crate::error::CliError;
use crate::json::{object, or_null, set};
use crate::schedule_flags::ScheduleFlags;

/// Largest file of a request body in bytes; a whole job has at most 16 KiB.
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// Action, schedule and policies of a job
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DefinitionFlags {
    /// Send a GET request to this URL
    #[arg(long, value_name = "URL", group = "Request", help_heading = "Action")]
    get: Option<String>,

    /// Send a POST request to this URL
    #[arg(long, value_name = "URL", group = "Request", help_heading = "Action")]
    post: Option<String>,

    /// Send a PUT request to this URL
    #[arg(long, value_name = "URL", group = "Request", help_heading = "Action")]
    put: Option<String>,

    /// Send a DELETE request to this URL
    #[arg(long, value_name = "URL", group = "Request", help_heading = "Action")]
    delete: Option<String>,

    /// Header of the request; may be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME:VALUE", help_heading = "Action")]
    headers: Vec<String>,

    /// Body of the request, or @FILE
    #[arg(long, value_name = "TEXT", help_heading = "Action")]
    body: Option<String>,

    /// User name of HTTP basic authentication; needs --password-file
    #[arg(long, value_name = "USER", requires = "password_file", help_heading = "Action")]
    basic: Option<String>,

    /// File with the password of --basic; - for standard input
    #[arg(long, value_name = "FILE", requires = "basic", help_heading = "Action")]
    password_file: Option<PathBuf>,

    /// Retries after a failed attempt, such as 4x30s, or none [default of the server: 4x30s]
    #[arg(long, value_name = "COUNTxINTERVAL", help_heading = "Action")]
    retry: Option<String>,

    /// Send a POST request to this URL after the last retry failed
    #[arg(long, value_name = "URL", help_heading = "Action")]
    on_failure: Option<String>,

    /// Time limit of one attempt, such as 5m [default of the server: 60s]
    #[arg(long, value_name = "DURATION", help_heading = "Action")]
    timeout: Option<String>,

    #[command(flatten, next_help_heading = "Schedule")]
    pub(super) schedule: ScheduleFlags,

    /// First run after this time, such as 10m or 2h
    #[arg(
        long = "in",
        value_name = "DURATION",
        conflicts_with = "start",
        help_heading = "Schedule"
    )]
    pub(super) start_in: Option<String>,

    /// Occurrences that come due during an earlier run: skip, queue-one or allow
    #[arg(long, value_name = "POLICY", help_heading = "Policies")]
    overlap: Option<String>,

    /// Spread starts over this time, so that jobs with the same schedule start apart
    #[arg(long, value_name = "DURATION", help_heading = "Policies")]
    jitter: Option<String>,

    /// Description
    #[arg(long, value_name = "TEXT", help_heading = "Policies")]
    description: Option<String>,

    /// Tag, such as team=billing; may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", help_heading = "Policies")]
    tags: Vec<String>,
}

impl DefinitionFlags {
    /// Whether any flag is given that changes a definition.
    pub(super) fn is_given(&self) -> Result<bool, CliError> {
        let is_empty = self.patch(Instant::MIN)? == object([]);
        Ok(!is_empty || self.schedule.is_given())
    }

    /// Whether a URL is given.
    pub(super) fn has_request(&self) -> bool {
        self.request_line().is_some()
    }

    fn request_line(&self) -> Option<(&'static str, &String)> {
        let methods = [
            ("GET", &self.get),
            ("POST", &self.post),
            ("PUT", &self.put),
            ("DELETE", &self.delete),
        ];
        methods.into_iter().find_map(|(method, url)| Some((method, url.as_ref()?)))
    }

    /// The members of the job that the flags set, as a patch of `properties`.
    pub(super) fn patch(&self, now: Instant) -> Result<Json<'static>, CliError> {
        let overlap = self.overlap.as_deref().map(overlap).transpose()?;
        Ok(object([
            ("description", or_null(self.description.clone())),
            ("startTime", or_null(self.start(now)?)),
            ("action", self.action()?),
            ("recurrence", self.recurrence(now)?),
            ("overlap", or_null(overlap)),
            ("jitter", duration_member("--jitter", &self.jitter)?),
            ("timeout", duration_member("--timeout", &self.timeout)?),
            ("tags", parse_tags(&self.tags)?),
        ]))
    }

    /// The start time of `--start` or `--in`.
    pub(super) fn start(&self, now: Instant) -> Result<Option<Instant>, CliError> {
        match &self.start_in {
            Some(text) => Ok(Some(now.saturating_add(duration("--in", text)?))),
            None => self.schedule.start(),
        }
    }

    fn action(&self) -> Result<Json<'static>, CliError> {
        let request = self.request_line();
        let kind = request.map(|(_, url)| action_type(url));
        let error_action = self.on_failure.as_ref().map(|url| {
            let request = object([("uri", url.clone().into()), ("method", "POST".into())]);
            object([("type", action_type(url).into()), ("request", request)])
        });
        let action = object([
            ("type", or_null(kind)),
            ("request", self.request()?),
            ("retryPolicy", or_null(self.retry.as_deref().map(retry_policy).transpose()?)),
            ("errorAction", or_null(error_action)),
        ]);
        Ok(if action == object([]) { Json::Null } else { action })
    }

    fn request(&self) -> Result<Json<'static>, CliError> {
        let line = self.request_line();
        let mut headers = Vec::new();
        for text in &self.headers {
            let (name, value) = text.split_once(':').ok_or_else(|| {
                CliError::usage("--header must be NAME:VALUE, such as Accept:text/plain")
            })?;
            headers.push((name.trim().to_owned().into(), value.trim().to_owned().into()));
        }
        let headers = if headers.is_empty() { Json::Null } else { Json::Object(headers) };
        let body = match &self.body {
            Some(text) => match text.strip_prefix('@') {
                Some(path) => Some(super::input::read_text(path.as_ref(), BODY_BYTES_MAX)?),
                None => Some(text.clone()),
            },
            None => None,
        };
        let authentication = match (&self.basic, &self.password_file) {
            (Some(user), Some(path)) => {
                let password = super::input::read_text(path, BODY_BYTES_MAX)?;
                let password = password.trim_end_matches(['\r', '\n']).to_owned();
                object([
                    ("type", "Basic".into()),
                    ("username", user.clone().into()),
                    ("password", password.into()),
                ])
            }
            _ => Json::Null,
        };
        let request = object([
            ("uri", or_null(line.map(|(_, url)| url.clone()))),
            ("method", or_null(line.map(|(method, _)| method))),
            ("headers", headers),
            ("body", or_null(body)),
            ("authentication", authentication),
        ]);
        Ok(if request == object([]) { Json::Null } else { request })
    }

    /// The recurrence. Without a pattern, only the members that are given.
    fn recurrence(&self, now: Instant) -> Result<Json<'static>, CliError> {
        let schedule = &self.schedule;
        if !schedule.has_pattern() {
            let zone = schedule.zone()?.map(|zone| zone.name());
            let members = object([
                ("timeZone", or_null(zone)),
                ("count", or_null(schedule.count())),
                ("endTime", or_null(schedule.end()?)),
            ]);
            return Ok(if members == object([]) { Json::Null } else { members });
        }
        let definition = schedule.definition(now, &Settings::default())?;
        let recurrence = definition.recurrence.as_ref();
        let written =
            recurrence.and_then(|recurrence| write_recurrence(recurrence, Version::V2026_11_01));
        Ok(written.unwrap_or(Json::Null))
    }
}

/// Sets the start time of a definition so that saving it starts no run, and checks that it has one.
///
/// Without a start time a job runs when it is created, and a cron expression does not. The first run is
/// the first occurrence after now.
pub(super) fn prevent_immediate_run(
    properties: &mut Json<'static>,
    now: Instant,
) -> Result<(), CliError> {
    use crate::json::JsonMembers as _;
    if properties.text("state").eq_ignore_ascii_case("Disabled") {
        return Ok(());
    }
    let start = properties.text("startTime");
    if properties.at("recurrence").is_none() {
        let start = kalends_wire::read_definition(properties, now).ok().and_then(|read| read.start);
        return match start {
            Some(start) if start > now => Ok(()),
            Some(_) => Err(CliError::usage(
                "the start time has passed, so the job would run at once; give a later --start or --in, \
                 or --now if that is what you want",
            )),
            // The server reports a start time that cannot be read.
            None if properties.at("startTime").is_some() => Ok(()),
            None => Err(CliError::usage(
                "the job has no schedule; give --cron or --every, --start or --in for a single run, or \
                 --now to run it at once",
            )),
        };
    }
    if !start.is_empty() || !properties.text("recurrence.cron").is_empty() {
        return Ok(());
    }
    // The server reports a recurrence that is invalid.
    let Ok(definition) = kalends_wire::read_definition(properties, now) else { return Ok(()) };
    let definition = kalends_recurrence::Definition { start: Some(now), ..definition };
    let Ok(rule) = Rule::new(definition, &Settings::default()) else { return Ok(()) };
    if let Some(first) = rule.next_after(now) {
        set(properties, "startTime", first.into());
    }
    Ok(())
}

/// The type of an action with this URL: `Https` refuses to be redirected to plain HTTP.
fn action_type(url: &str) -> &'static str {
    let is_https = url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    if is_https { "Https" } else { "Http" }
}

/// Parses `4x30s` or `none`.
fn retry_policy(text: &str) -> Result<Json<'static>, CliError> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(object([("retryType", "None".into())]));
    }
    let parsed = text.split_once(['x', 'X']).and_then(|(count, interval)| {
        Some((count.trim().parse::<u32>().ok()?, duration("--retry", interval.trim()).ok()?))
    });
    let (count, interval) = parsed.ok_or_else(|| {
        CliError::usage(format!(
            "--retry must be COUNTxINTERVAL, such as 4x30s, or none (found {text:?})"
        ))
    })?;
    Ok(object([
        ("retryType", "Fixed".into()),
        ("retryCount", count.into()),
        ("retryInterval", write_duration(interval).into()),
    ]))
}

fn overlap(text: &str) -> Result<&'static str, CliError> {
    match text.to_ascii_lowercase().as_str() {
        "skip" => Ok("Skip"),
        "queue-one" | "queueone" => Ok("QueueOne"),
        "allow" => Ok("Allow"),
        _ => Err(CliError::usage(format!(
            "--overlap must be skip, queue-one or allow (found {text:?})"
        ))),
    }
}

fn duration_member(flag: &str, text: &Option<String>) -> Result<Json<'static>, CliError> {
    let duration = text.as_deref().map(|text| duration(flag, text)).transpose()?;
    Ok(or_null(duration.map(write_duration)))
}

/// Parses `90s`, `10m`, `2h`, or ISO 8601.
pub(crate) fn duration(flag: &str, text: &str) -> Result<Duration, CliError> {
    parse_short_duration(text).or_else(|| parse_duration(text)).ok_or_else(|| {
        CliError::usage(format!(
            "{flag} must be a duration, such as 30s, 10m, 2h or PT1H30M (found {text:?})"
        ))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::json::JsonMembers as _;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: DefinitionFlags,
    }

    fn now() -> Instant {
        "2026-11-16T10:00:30Z".parse().unwrap()
    }

    fn patch(line: &str) -> Result<Json<'static>, CliError> {
        let words = ["job"].into_iter().chain(line.split(' '));
        Line::try_parse_from(words).unwrap().flags.patch(now())
    }

    fn check(line: &str, expected: &str) {
        assert_eq!(patch(line).unwrap().to_string(), expected, "{line}");
    }

    #[test]
    fn flags_are_members_of_the_definition() {
        check(
            "--post https://x.example/a --retry 4x30s --on-failure http://y.example --header A:b:c",
            r#"{"action":{"type":"Https","request":{"uri":"https://x.example/a","method":"POST","headers":{"A":"b:c"}},"retryPolicy":{"retryType":"Fixed","retryCount":4,"retryInterval":"PT30S"},"errorAction":{"type":"Http","request":{"uri":"http://y.example","method":"POST"}}}}"#,
        );
        check(
            "--every 2w --on fri --at 05:15 --zone Europe/Berlin --overlap queue-one --jitter 5m --timeout PT2M",
            r#"{"recurrence":{"frequency":"Week","interval":2,"timeZone":"Europe/Berlin","schedule":{"minutes":[15],"hours":[5],"weekDays":["Friday"]}},"overlap":"QueueOne","jitter":"PT5M","timeout":"PT2M"}"#,
        );
        check("--in 10m --tag a=b=c", r#"{"startTime":"2026-11-16T10:10:30Z","tags":{"a":"b=c"}}"#);
        check("--retry none", r#"{"action":{"retryPolicy":{"retryType":"None"}}}"#);
        check("--count 3", r#"{"recurrence":{"count":3}}"#);
        check(
            "--start 2026-12-01T02:30 --zone Europe/Berlin",
            r#"{"startTime":"2026-12-01T01:30:00Z","recurrence":{"timeZone":"Europe/Berlin"}}"#,
        );
    }

    #[test]
    fn invalid_flags_are_explained() {
        for (line, phrase) in [
            ("--retry 4", "--retry must be COUNTxINTERVAL, such as 4x30s, or none (found \"4\")"),
            ("--retry 4x", "--retry must be"),
            ("--overlap maybe", "skip, queue-one or allow"),
            ("--jitter soon", "--jitter must be a duration"),
            ("--header Accept", "--header must be NAME:VALUE"),
            ("--tag a", "--tag must be NAME=VALUE"),
        ] {
            let error = patch(line).unwrap_err().to_string();
            assert!(error.contains(phrase), "{line}: {error}");
        }
    }

    fn start_of(json: &str) -> Result<String, CliError> {
        let mut properties = serde_json::from_str::<Json<'_>>(json).unwrap().into_owned();
        prevent_immediate_run(&mut properties, now())?;
        Ok(properties.text("startTime").to_owned())
    }

    #[test]
    fn a_recurring_job_starts_with_its_next_occurrence() {
        for (json, start) in [
            (r#"{"recurrence":{"frequency":"Minute","interval":15}}"#, "2026-11-16T10:15:30Z"),
            (
                r#"{"recurrence":{"frequency":"Day","schedule":{"hours":[2],"minutes":[30]}}}"#,
                "2026-11-17T02:30:00Z",
            ),
            (r#"{"recurrence":{"cron":"30 2 * * *"}}"#, ""),
            (r#"{"startTime":"2020-01-01","recurrence":{"frequency":"Day"}}"#, "2020-01-01"),
            (r#"{"state":"Disabled"}"#, ""),
            (r#"{"startTime":"2026-12-01"}"#, "2026-12-01"),
        ] {
            assert_eq!(start_of(json).unwrap(), start, "{json}");
        }
    }

    #[test]
    fn a_single_run_needs_a_start_time_in_the_future() {
        for json in
            ["{}", r#"{"startTime":"2026-11-16T10:00:30Z"}"#, r#"{"startTime":"2020-01-01"}"#]
        {
            let error = start_of(json).unwrap_err().to_string();
            assert!(error.contains("--now"), "{json}: {error}");
        }
    }
}
