//! Listings of Google Cloud Scheduler: `gcloud scheduler jobs list --format=json`, or the REST API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kalends_recurrence::Instant;
use kalends_wire::Json;

use super::names::DEFAULT_COLLECTION;
use super::unix_cron::{self, ConvertedSchedule, Dialect};
use super::{Candidate, Import, ImportOptions, RUNS_SHOWN, call};
use crate::definitions::{Located, Value};
use crate::json::{object, set};

/// Attempt deadline of a job without one, in seconds.
const DEADLINE_DEFAULT: f64 = 180.0;
/// Longest timeout of an attempt in Kalends, in seconds.
const TIMEOUT_MAX: f64 = 1_800.0;
/// Shortest retry interval in Kalends, in seconds.
const RETRY_INTERVAL_MIN: f64 = 15.0;
/// Retries of a job in Kalends, at most.
const RETRIES_MAX: i64 = 20;

/// Converts the jobs of a document.
pub(crate) fn import(file: &str, document: &Located, options: &ImportOptions, import: &mut Import) {
    let jobs = document.get("jobs").unwrap_or(document);
    match &jobs.value {
        Value::List(jobs) => jobs.iter().for_each(|listed| job(file, listed, options, import)),
        _ => job(file, jobs, options, import),
    }
}

fn job(file: &str, listed: &Located, options: &ImportOptions, import: &mut Import) {
    let source = format!("{file}:{}", listed.line);
    let full_name = listed.text_of("name").unwrap_or("job");
    let name = full_name.rsplit('/').next().unwrap_or(full_name);
    let Some(schedule) = listed.text_of("schedule") else {
        return import.refuse(&source, name, "schedule is missing");
    };
    let converted = match convert(schedule.trim(), listed, options.now) {
        Ok(converted) => converted,
        Err(reason) => return import.refuse(&source, name, reason),
    };
    let mut notes = converted.notes;
    let mut action = match action(name, listed, options, &mut notes) {
        Ok(action) => action,
        Err(reason) => return import.refuse(&source, name, reason),
    };
    set(&mut action, "retryPolicy", retry_policy(listed.get("retryConfig"), &mut notes));
    let deadline = listed.text_of("attemptDeadline").and_then(seconds);
    let deadline = deadline.unwrap_or(DEADLINE_DEFAULT);
    if deadline > TIMEOUT_MAX {
        notes.push(format!("attemptDeadline {deadline}s is limited to 1800 seconds"));
    }
    let mut properties = object([
        ("action", action),
        ("recurrence", converted.recurrence),
        ("timeout", duration(deadline.min(TIMEOUT_MAX)).into()),
    ]);
    if let Some(start) = converted.start {
        set(&mut properties, "startTime", start.to_string().into());
    }
    if let Some(description) = listed.text_of("description").filter(|text| !text.is_empty()) {
        set(&mut properties, "description", description.to_owned().into());
    }
    let state = listed.text_of("state").unwrap_or("ENABLED");
    if !state.eq_ignore_ascii_case("ENABLED") {
        set(&mut properties, "state", "Disabled".into());
    }
    let candidate = Candidate {
        collection: DEFAULT_COLLECTION.to_owned(),
        name: name.to_owned(),
        source,
        properties,
        source_runs: converted.source_runs,
        notes,
    };
    import.add(candidate, options);
}

fn convert(schedule: &str, listed: &Located, now: Instant) -> Result<ConvertedSchedule, String> {
    let zone = listed.text_of("timeZone").unwrap_or("Etc/UTC");
    match schedule.strip_prefix("every ") {
        Some(words) => every(words, zone, listed, now),
        None => unix_cron::convert(schedule, zone, Dialect::CloudScheduler, now),
    }
}

/// The syntax of App Engine: `every 5 minutes`, `every day 02:30`, `every mon,fri 09:00`.
fn every(
    words: &str,
    zone: &str,
    listed: &Located,
    now: Instant,
) -> Result<ConvertedSchedule, String> {
    let refused = || format!("the schedule \"every {words}\" has no equivalent");
    let parts: Vec<_> = words.split_ascii_whitespace().collect();
    let [first, second] = parts[..] else { return Err(refused()) };
    if let Ok(number) = first.parse::<i64>() {
        let (frequency, size) = match second {
            "minutes" | "mins" => ("Minute", 60),
            "hours" => ("Hour", 3_600),
            _ => return Err(refused()),
        };
        if !(1..=1_000).contains(&number) {
            return Err(refused());
        }
        let next = listed.text_of("scheduleTime").and_then(|time| time.parse::<Instant>().ok());
        let next = next.filter(|next| *next > now);
        let mut notes = vec![
            "The interval counts from the scheduled time, not from the end of the run before"
                .to_owned(),
        ];
        if next.is_none() {
            notes.push(
                "The listing has no coming scheduleTime: the interval counts from now".to_owned(),
            );
        }
        let start = next.unwrap_or_else(|| now.whole_second());
        let skipped = i64::from(next.is_none());
        let time = |n: i64| Instant::from_unix_seconds(start.unix_seconds() + n * number * size);
        let source_runs = (skipped..).map_while(time).take(RUNS_SHOWN).collect();
        let recurrence = object([("frequency", frequency.into()), ("interval", number.into())]);
        return Ok(ConvertedSchedule { start: time(skipped), recurrence, source_runs, notes });
    }
    let (hour, minute) = second.split_once(':').ok_or_else(refused)?;
    let days = match first {
        "day" => "*".to_owned(),
        // Names of weekdays may be written in full.
        days => {
            let short = |day: &str| day.get(..3).map(str::to_uppercase);
            let days: Option<Vec<_>> = days.split(',').map(short).collect();
            days.ok_or_else(refused)?.join(",")
        }
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| refused());
    let cron = format!("{} {} * * {days}", number(minute)?, number(hour)?);
    unix_cron::convert(&cron, zone, Dialect::CloudScheduler, now)
}

fn action(
    name: &str,
    listed: &Located,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> Result<Json<'static>, String> {
    let from_template = |command: &str, data: Option<&Located>| {
        let template = options.url_template.as_ref().ok_or(
            "the job publishes to a target in the cloud; give the URL of its replacement with --url-template",
        )?;
        Ok(call(&template.url(name, command), body(data)?))
    };
    if let Some(topic) = listed.get("pubsubTarget") {
        if topic.get("attributes").is_some() {
            notes.push("Attributes of the Pub/Sub message are not carried over".to_owned());
        }
        return from_template(topic.text_of("topicName").unwrap_or_default(), topic.get("data"));
    }
    if let Some(engine) = listed.get("appEngineHttpTarget") {
        return from_template(engine.text_of("relativeUri").unwrap_or("/"), engine.get("body"));
    }
    let target = listed.get("httpTarget").ok_or("the job has no target")?;
    let uri = target.text_of("uri").ok_or("httpTarget.uri is missing")?;
    let mut action = call(uri, body(target.get("body"))?);
    let method = target.text_of("httpMethod").unwrap_or("POST");
    if let Some(request) = crate::json::member_mut(&mut action, "request") {
        set(request, "method", method.to_owned().into());
        let headers = headers(target.get("headers"));
        crate::json::remove(request, "headers");
        if !headers.is_empty() {
            set(request, "headers", Json::Object(headers));
        }
    }
    for token in ["oidcToken", "oauthToken"] {
        if target.get(token).is_some() {
            notes.push(format!("{token} is not carried over; add authentication to the action"));
        }
    }
    Ok(action)
}

fn headers(headers: Option<&Located>) -> Vec<(std::borrow::Cow<'static, str>, Json<'static>)> {
    let all = headers.map(Located::members).unwrap_or_default();
    // Cloud Scheduler sets these itself.
    let own = all.iter().filter(|header| {
        let name = header.name.to_ascii_lowercase();
        let is_agent =
            name == "user-agent" && header.value.text() == Some("Google-Cloud-Scheduler");
        !is_agent && !["host", "content-length"].contains(&name.as_str())
    });
    own.map(|header| (header.name.clone().into(), header.value.to_json())).collect()
}

/// The text of a body in base64.
fn body(data: Option<&Located>) -> Result<Option<String>, String> {
    let Some(text) = data.and_then(Located::text) else { return Ok(None) };
    let bytes = BASE64.decode(text).map_err(|_| "the body is not valid base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "the body is binary; Kalends sends text")?;
    Ok(Some(text))
}

fn retry_policy(config: Option<&Located>, notes: &mut Vec<String>) -> Json<'static> {
    let number = |name| config.and_then(|config| config.get(name)).and_then(Located::integer);
    let time = |name, default| {
        let text = config.and_then(|config| config.text_of(name));
        text.and_then(seconds).unwrap_or(default)
    };
    let (retries, age) = (number("retryCount").unwrap_or(0), time("maxRetryDuration", 0.0));
    if retries == 0 && age == 0.0 {
        return object([("retryType", "None".into())]);
    }
    let min = time("minBackoffDuration", 5.0);
    if min < RETRY_INTERVAL_MIN {
        notes.push(format!("minBackoffDuration {min}s is raised to 15 seconds"));
    }
    if number("maxDoublings").is_some() {
        notes.push(
            "maxDoublings has no equivalent: the interval doubles up to maxInterval".to_owned(),
        );
    }
    let max = time("maxBackoffDuration", 3_600.0).max(RETRY_INTERVAL_MIN);
    let retries = if retries == 0 { RETRIES_MAX } else { retries.min(RETRIES_MAX) };
    let mut policy = object([
        ("retryType", "Exponential".into()),
        ("retryInterval", duration(min.max(RETRY_INTERVAL_MIN)).into()),
        ("maxInterval", duration(max).into()),
        ("retryCount", retries.into()),
    ]);
    if age > 0.0 {
        set(&mut policy, "maxAge", duration(age).into());
    }
    policy
}

/// The seconds of a duration such as `180s` or `3.5s`.
fn seconds(text: &str) -> Option<f64> {
    text.strip_suffix('s')?
        .parse()
        .ok()
        .filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)
}

fn duration(seconds: f64) -> String {
    format!("PT{seconds}S")
}
