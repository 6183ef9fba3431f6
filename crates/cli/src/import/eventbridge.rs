//! Schedules of EventBridge Scheduler: answers of `get-schedule`, and CloudFormation templates with
//! `AWS::Scheduler::Schedule` and `AWS::Events::Rule`.

use kalends_recurrence::{Instant, Zone};
use kalends_wire::Json;

use super::eventbridge_schedule::{self, Bounds};
use super::names::DEFAULT_COLLECTION;
use super::{Candidate, Import, ImportOptions, call};
use crate::definitions::{Located, Value};
use crate::json::{object, set};

/// Retries of a schedule without `MaximumRetryAttempts`.
const RETRIES_DEFAULT: i64 = 185;
/// Seconds in which a schedule without `MaximumEventAgeInSeconds` is retried.
const EVENT_AGE_DEFAULT: i64 = 86_400;
/// Retries of a job in Kalends, at most.
const RETRIES_MAX: i64 = 20;
/// Parameters of a target for one kind of service.
const SERVICE_PARAMETERS: [&str; 6] = [
    "EcsParameters",
    "EventBridgeParameters",
    "KinesisParameters",
    "SageMakerPipelineParameters",
    "SqsParameters",
    "HttpParameters",
];

/// Converts the schedules of a document.
pub(crate) fn import(file: &str, document: &Located, options: &ImportOptions, import: &mut Import) {
    if let Value::List(entries) = &document.value {
        for entry in entries {
            self::import(file, entry, options, import);
        }
    } else if let Some(resources) = document.get("Resources") {
        for resource in resources.members() {
            let properties = resource.value.get("Properties");
            match (resource.value.text_of("Type"), properties) {
                (Some("AWS::Scheduler::Schedule"), Some(properties)) => {
                    schedule(file, &resource.name, properties, options, import);
                }
                (Some("AWS::Events::Rule"), Some(properties))
                    if properties.get("ScheduleExpression").is_some() =>
                {
                    rule(file, &resource.name, properties, options, import);
                }
                // Other resources of a template are not schedules.
                _ => {}
            }
        }
    } else if document.get("Schedules").is_some() {
        let source = format!("{file}:{}", document.line);
        let reason = "list-schedules does not show expressions; import the answers of get-schedule";
        import.refuse(&source, "-", reason);
    } else {
        let name = document.text_of("Name").unwrap_or("schedule");
        schedule(file, name, document, options, import);
    }
}

/// A rule of an event bus, whose schedules are in UTC, once for each target.
fn rule(
    file: &str,
    logical_id: &str,
    properties: &Located,
    options: &ImportOptions,
    import: &mut Import,
) {
    let name = properties.text_of("Name").unwrap_or(logical_id);
    let targets = properties.get("Targets").map(Located::entries).unwrap_or_default();
    if targets.is_empty() {
        let source = format!("{file}:{}", properties.line);
        return import.refuse(&source, name, "the rule has no targets");
    }
    for target in targets {
        convert(file, name, properties, Some(target), options, import);
    }
}

fn schedule(
    file: &str,
    default_name: &str,
    properties: &Located,
    options: &ImportOptions,
    import: &mut Import,
) {
    let name = properties.text_of("Name").unwrap_or(default_name);
    convert(file, name, properties, properties.get("Target"), options, import);
}

fn convert(
    file: &str,
    name: &str,
    schedule: &Located,
    target: Option<&Located>,
    options: &ImportOptions,
    import: &mut Import,
) {
    let source = format!("{file}:{}", schedule.line);
    let Some(expression) = schedule.text_of("ScheduleExpression") else {
        let reason = "ScheduleExpression is missing, or is not a literal";
        return import.refuse(&source, name, reason);
    };
    let zone_name = schedule.text_of("ScheduleExpressionTimezone").unwrap_or("UTC");
    let Ok(zone) = Zone::named(zone_name) else {
        return import.refuse(&source, name, format!("the time zone {zone_name:?} is unknown"));
    };
    let bounds = Bounds {
        start: schedule.get("StartDate").and_then(instant),
        end: schedule.get("EndDate").and_then(instant),
        created: schedule.get("CreationDate").and_then(instant),
        now: options.now,
    };
    let converted = match eventbridge_schedule::convert(expression, &zone, &bounds) {
        Ok(converted) => converted,
        Err(reason) => return import.refuse(&source, name, reason),
    };
    let Some(template) = &options.url_template else {
        let reason = "the schedule invokes a target in the cloud; give the URL of its replacement with --url-template";
        return import.refuse(&source, name, reason);
    };
    let mut notes = converted.notes;
    let arn = target.and_then(|target| target.get("Arn")).map(literal).unwrap_or_default();
    let input = target.and_then(|target| target.get("Input"));
    if input.is_some_and(|input| input.text().is_none()) {
        notes.push("Input is not a literal and is not carried over".to_owned());
    }
    let body = input.and_then(Located::text).map(str::to_owned);
    let mut action = call(&template.url(name, &arn), body);
    set(&mut action, "retryPolicy", retry_policy(target, &mut notes));
    list_target_differences(target, &mut notes);
    let mut properties = object([("action", action)]);
    if let Some(description) = schedule.text_of("Description").filter(|text| !text.is_empty()) {
        set(&mut properties, "description", description.to_owned().into());
    }
    if let Some(start) = converted.start {
        set(&mut properties, "startTime", start.to_string().into());
    }
    if let Some(recurrence) = converted.recurrence {
        set(&mut properties, "recurrence", recurrence);
    }
    let window = schedule.at(&["FlexibleTimeWindow", "MaximumWindowInMinutes"]);
    if let Some(minutes) = window.and_then(Located::integer) {
        set(&mut properties, "jitter", format!("PT{minutes}M").into());
        notes.push("The flexible time window is a jitter: a fixed delay for each job".to_owned());
    }
    // A target may be invoked again while an earlier invocation runs.
    set(&mut properties, "overlap", "Allow".into());
    if schedule.text_of("State").is_some_and(|state| state.eq_ignore_ascii_case("DISABLED")) {
        set(&mut properties, "state", "Disabled".into());
    }
    let candidate = Candidate {
        collection: schedule.text_of("GroupName").unwrap_or(DEFAULT_COLLECTION).to_owned(),
        name: name.to_owned(),
        source,
        properties,
        source_runs: converted.source_runs,
        notes,
    };
    import.add(candidate, options);
}

/// A date as text or as seconds since 1970.
fn instant(value: &Located) -> Option<Instant> {
    match (value.text(), &value.value) {
        (Some(text), _) => text.parse().ok(),
        (None, Value::Number(kalends_wire::Number::Integer(seconds))) => {
            Instant::from_unix_seconds(*seconds)
        }
        (None, Value::Number(kalends_wire::Number::Other(seconds))) => {
            Instant::from_unix_seconds(seconds.floor() as i64)
        }
        _ => None,
    }
}

/// A text, or the text inside a function of CloudFormation.
fn literal(value: &Located) -> String {
    match &value.value {
        Value::String(text) => text.clone(),
        Value::List(entries) => entries.iter().map(literal).collect::<Vec<_>>().join("."),
        Value::Object(members) => {
            members.first().map(|member| literal(&member.value)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn retry_policy(target: Option<&Located>, notes: &mut Vec<String>) -> Json<'static> {
    let policy = target.and_then(|target| target.get("RetryPolicy"));
    let integer = |name, default| {
        policy.and_then(|policy| policy.get(name)).and_then(Located::integer).unwrap_or(default)
    };
    let retries = integer("MaximumRetryAttempts", RETRIES_DEFAULT);
    let age = integer("MaximumEventAgeInSeconds", EVENT_AGE_DEFAULT);
    if retries == 0 {
        return object([("retryType", "None".into())]);
    }
    if retries > RETRIES_MAX {
        notes.push(format!("MaximumRetryAttempts {retries} is limited to {RETRIES_MAX} retries"));
    }
    object([
        ("retryType", "Exponential".into()),
        ("retryCount", retries.min(RETRIES_MAX).into()),
        ("maxAge", format!("PT{age}S").into()),
    ])
}

fn list_target_differences(target: Option<&Located>, notes: &mut Vec<String>) {
    let Some(target) = target else { return };
    if target.get("RoleArn").is_some() {
        notes.push("RoleArn is not carried over; add authentication for the URL".to_owned());
    }
    if target.get("DeadLetterConfig").is_some() {
        notes.push("DeadLetterConfig is not carried over; an errorAction is similar".to_owned());
    }
    for name in SERVICE_PARAMETERS {
        if target.get(name).is_some() {
            notes.push(format!("{name} is not carried over"));
        }
    }
}
