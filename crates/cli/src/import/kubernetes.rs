//! Kubernetes CronJobs.

use super::names::DEFAULT_COLLECTION;
use super::unix_cron::{self, ConvertedSchedule, Dialect};
use super::{Candidate, Import, ImportOptions, RUNS_SHOWN, call};
use crate::definitions::Located;
use crate::json::{object, set};
use kalends_recurrence::Instant;

/// Retries of a Job without `backoffLimit`.
const BACKOFF_LIMIT_DEFAULT: i64 = 6;
/// Retries of a job in Kalends, at most.
const RETRIES_MAX: i64 = 20;
/// Longest timeout of an attempt in Kalends, in seconds.
const TIMEOUT_MAX: i64 = 1_800;

/// Converts the CronJobs of a document, and of the items of a list.
pub(crate) fn import(file: &str, document: &Located, options: &ImportOptions, import: &mut Import) {
    match document.text_of("kind") {
        Some("CronJob") => cron_job(file, document, options, import),
        Some(kind) if kind.ends_with("List") => {
            for item in document.get("items").map(Located::entries).unwrap_or_default() {
                self::import(file, item, options, import);
            }
        }
        kind => {
            let name = document.at(&["metadata", "name"]).and_then(Located::text);
            let kind = kind.unwrap_or("a document without kind");
            let source = format!("{file}:{}", document.line);
            import.refuse(&source, name.unwrap_or("-"), format!("{kind} is not a CronJob"));
        }
    }
}

fn cron_job(file: &str, document: &Located, options: &ImportOptions, import: &mut Import) {
    let source = format!("{file}:{}", document.line);
    let text = |path: &[&str]| document.at(path).and_then(Located::text);
    let integer = |path: &[&str]| document.at(path).and_then(Located::integer);
    let name = text(&["metadata", "name"]).unwrap_or("cronjob");
    let Some(schedule) = text(&["spec", "schedule"]) else {
        return import.refuse(&source, name, "spec.schedule is missing");
    };
    let converted = match convert(schedule, document, options.now) {
        Ok(converted) => converted,
        Err(reason) => return import.refuse(&source, name, reason),
    };
    let Some(template) = &options.url_template else {
        let reason = "the CronJob runs containers; give the URL that runs them with --url-template";
        return import.refuse(&source, name, reason);
    };
    let mut notes = converted.notes;
    let pod = ["spec", "jobTemplate", "spec", "template", "spec"];
    let containers = document.at(&pod).and_then(|pod| pod.get("containers"));
    let containers = containers.map(Located::entries).unwrap_or_default();
    if containers.len() > 1 {
        notes.push("The CronJob has several containers; {command} is that of the first".to_owned());
    }
    let command = containers.first().map(command_of).unwrap_or_default();
    let mut action = call(&template.url(name, &command), None);
    set(&mut action, "retryPolicy", retry_policy(document, &mut notes));
    let mut properties = object([("action", action), ("recurrence", converted.recurrence)]);
    if let Some(start) = converted.start {
        set(&mut properties, "startTime", start.to_string().into());
    }
    let overlap = match text(&["spec", "concurrencyPolicy"]) {
        None | Some("Allow") => "Allow",
        Some("Forbid") => "Skip",
        Some(other) => {
            notes.push(format!("concurrencyPolicy {other} has no equivalent: overlap is Skip"));
            "Skip"
        }
    };
    set(&mut properties, "overlap", overlap.into());
    if let Some(seconds) = integer(&["spec", "startingDeadlineSeconds"]).filter(|s| *s > 0) {
        let within = format!("PT{seconds}S");
        let missed = object([("policy", "Last".into()), ("within", within.into())]);
        set(&mut properties, "missedRuns", missed);
    }
    let deadline = ["spec", "jobTemplate", "spec", "activeDeadlineSeconds"];
    if let Some(seconds) = integer(&deadline).filter(|seconds| *seconds > 0) {
        set(&mut properties, "timeout", format!("PT{}S", seconds.min(TIMEOUT_MAX)).into());
        notes.push(format!(
            "activeDeadlineSeconds {seconds} limits a whole Job; timeout limits one attempt, to 1800 seconds"
        ));
    }
    if document.at(&["spec", "suspend"]).and_then(Located::boolean) == Some(true) {
        set(&mut properties, "state", "Disabled".into());
    }
    for limit in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        if integer(&["spec", limit]).is_some() {
            notes
                .push(format!("{limit} is not carried over; retention is a setting of the server"));
        }
    }
    let candidate = Candidate {
        collection: text(&["metadata", "namespace"]).unwrap_or(DEFAULT_COLLECTION).to_owned(),
        name: name.to_owned(),
        source,
        properties,
        source_runs: converted.source_runs,
        notes,
    };
    import.add(candidate, options);
}

fn convert(schedule: &str, document: &Located, now: Instant) -> Result<ConvertedSchedule, String> {
    let schedule = schedule.trim();
    let mut notes = Vec::new();
    let (prefix_zone, schedule) = match schedule.split_once(' ') {
        Some((first, rest)) if first.starts_with("TZ=") || first.starts_with("CRON_TZ=") => {
            (first.split_once('=').map(|(_, zone)| zone), rest.trim())
        }
        _ => (None, schedule),
    };
    let zone = document.at(&["spec", "timeZone"]).and_then(Located::text).or(prefix_zone);
    if zone.is_none() {
        notes.push(
            "The CronJob names no time zone: Kubernetes uses that of its controller; UTC is assumed"
                .to_owned(),
        );
    }
    if let Some(duration) = schedule.strip_prefix("@every ") {
        return every(duration.trim(), document, now);
    }
    let mut converted =
        unix_cron::convert(schedule, zone.unwrap_or("UTC"), Dialect::Kubernetes, now)?;
    converted.notes.extend(notes);
    Ok(converted)
}

/// Longest interval in minutes or hours.
const INTERVAL_MAX: i64 = 1_000;

/// `@every 1h30m`: whole minutes, counted from the creation of the CronJob.
fn every(duration: &str, document: &Located, now: Instant) -> Result<ConvertedSchedule, String> {
    let refused =
        || format!("@every {duration} has no equivalent; up to 1000 minutes or hours have one");
    let mut seconds = 0_i64;
    let mut number = String::new();
    for any in duration.chars() {
        let unit = match any {
            '0'..='9' => {
                number.push(any);
                continue;
            }
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return Err(refused()),
        };
        let size = number.parse::<i64>().ok().and_then(|number| number.checked_mul(unit));
        let sum = size.and_then(|size| seconds.checked_add(size));
        seconds = sum.ok_or_else(refused)?;
        number.clear();
    }
    let minutes = seconds / 60;
    if seconds % 60 != 0 || minutes == 0 || !number.is_empty() {
        return Err(refused());
    }
    let (interval, frequency) = match minutes {
        minutes if minutes % 60 == 0 => (minutes / 60, "Hour"),
        minutes => (minutes, "Minute"),
    };
    if interval > INTERVAL_MAX {
        return Err(refused());
    }
    let created = document.at(&["metadata", "creationTimestamp"]).and_then(Located::text);
    let created = created.and_then(|created| created.parse::<Instant>().ok());
    let mut notes = Vec::new();
    if created.is_none() {
        notes.push("@every counts from the creation of the CronJob, which the file does not have: it counts from now".to_owned());
    }
    let start = created.unwrap_or_else(|| now.whole_second());
    let passed = (now.unix_seconds() - start.unix_seconds()).max(0) / seconds;
    let runs = (passed + 1..).take(RUNS_SHOWN);
    let runs = runs.filter_map(|n| Instant::from_unix_seconds(start.unix_seconds() + n * seconds));
    let first = Instant::from_unix_seconds(start.unix_seconds() + (passed + 1) * seconds);
    let recurrence = object([("frequency", frequency.into()), ("interval", interval.into())]);
    let source_runs = runs.collect();
    Ok(ConvertedSchedule { start: first, recurrence, source_runs, notes })
}

/// The command and the arguments of a container, or its image.
fn command_of(container: &Located) -> String {
    let words = ["command", "args"].into_iter().filter_map(|name| container.get(name));
    let words: Vec<_> =
        words.flat_map(|list| list.entries().iter().filter_map(Located::text)).collect();
    match words.is_empty() {
        true => container.text_of("image").unwrap_or_default().to_owned(),
        false => words.join(" "),
    }
}

fn retry_policy(document: &Located, notes: &mut Vec<String>) -> kalends_wire::Json<'static> {
    let limit = document.at(&["spec", "jobTemplate", "spec", "backoffLimit"]);
    let limit = limit.and_then(Located::integer).unwrap_or(BACKOFF_LIMIT_DEFAULT);
    if limit == 0 {
        return object([("retryType", "None".into())]);
    }
    if limit > RETRIES_MAX {
        notes.push(format!("backoffLimit {limit} is limited to {RETRIES_MAX} retries"));
    }
    // The delay of Kubernetes begins with 10 seconds and ends with 6 minutes.
    object([
        ("retryType", "Exponential".into()),
        ("retryInterval", "PT15S".into()),
        ("maxInterval", "PT6M".into()),
        ("retryCount", limit.min(RETRIES_MAX).into()),
    ])
}
