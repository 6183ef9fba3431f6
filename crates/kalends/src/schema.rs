//! `kalends schema`: the JSON Schema of a job definition, generated from the OpenAPI document.
//!
//! The document describes all API versions, and responses as well as requests. The schema describes what
//! a definition of the newest version may contain: values in any casing, a single value for a list,
//! no unknown members.

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::Context as _;
use kalends_server::OPENAPI;
use serde_json::{Map, Value, json};

/// Prefix of references in the OpenAPI document, and in the schema.
const COMPONENTS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/$defs/";
/// The schema of a job in the OpenAPI document.
const JOB: &str = "Job";
const PROPERTIES: &str = "JobProperties";
/// A date, with or without a time.
const TIME: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9].*)?$";
/// Added to the description of a secret.
const SECRET_FORMS: &str =
    r#". In files also "${env:NAME}", "${file:PATH}" or "${stored}" (keep the stored secret)"#;
/// Each type of an action and the member that it requires.
const ACTION_MEMBERS: [(&str, &str); 5] = [
    ("Http", "request"),
    ("Https", "request"),
    ("StorageQueue", "queueMessage"),
    ("ServiceBusQueue", "serviceBusQueueMessage"),
    ("ServiceBusTopic", "serviceBusTopicMessage"),
];

/// Print the JSON Schema (draft 2020-12) of a job definition, for editors and CI
///
/// Example:
///   kalends schema > job.schema.json
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> anyhow::Result<()> {
    let schema = serde_json::to_string_pretty(&job_schema()?)?;
    Ok(writeln!(std::io::stdout(), "{schema}")?)
}

fn job_schema() -> anyhow::Result<Value> {
    let document: Value = serde_json::from_str(OPENAPI)?;
    let components = document.pointer("/components/schemas").and_then(Value::as_object);
    let components = components.context("the OpenAPI document has no schemas")?;
    let mut definitions = Map::new();
    let mut waiting = vec![JOB.to_owned()];
    while let Some(name) = waiting.pop() {
        if definitions.contains_key(&name) {
            continue;
        }
        let component = components.get(&name).with_context(|| format!("no schema {name}"))?;
        let mut schema = component.clone();
        adapt(&mut schema);
        waiting.extend(references(&schema));
        definitions.insert(name, schema);
    }
    for name in ["Action", "ErrorAction"] {
        if let Some(Value::Object(action)) = definitions.get_mut(name) {
            action.insert("allOf".into(), required_members());
        }
    }
    if let Some(Value::Object(recurrence)) = definitions.get_mut("Recurrence") {
        let both = json!({"required": ["cron", "frequency"]});
        recurrence.insert("not".into(), both);
    }
    Ok(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Kalends job definition",
        "description": format!("A job of API version {}.", kalends_wire::Version::NEWEST.as_str()),
        // The members of `properties` may also be those of the body.
        "if": {"required": ["action"]},
        "then": {"$ref": format!("{DEFINITIONS}{PROPERTIES}")},
        "else": {"$ref": format!("{DEFINITIONS}{JOB}")},
        "$defs": definitions,
    }))
}

/// Each type of an action requires its request or message.
fn required_members() -> Value {
    let rules = ACTION_MEMBERS.into_iter().map(|(kind, member)| {
        let is_kind = json!({"properties": {"type": {"pattern": any_case(&[kind])}}});
        json!({"if": is_kind, "then": {"required": [member]}})
    });
    rules.collect()
}

/// Names of the schemas that a schema refers to.
fn references(schema: &Value) -> BTreeSet<String> {
    let below = match schema {
        Value::Object(members) => members.values().collect(),
        Value::Array(values) => values.iter().collect(),
        _ => Vec::new(),
    };
    let mut names: BTreeSet<_> = below.into_iter().flat_map(references).collect();
    let reference = schema.get("$ref").and_then(Value::as_str);
    names.extend(reference.and_then(|text| text.strip_prefix(DEFINITIONS)).map(str::to_owned));
    names
}

/// Turns a schema of the OpenAPI document into one of definitions, at every depth.
fn adapt(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::String(reference)) = members.get_mut("$ref") {
        *reference = reference.replace(COMPONENTS, DEFINITIONS);
    }
    match members.get_mut("properties") {
        Some(Value::Object(properties)) => {
            properties.values_mut().for_each(adapt);
            // The clients of the retired service send this spelling.
            if let Some(occurrence) = properties.get("occurrence").cloned() {
                properties.insert("Occurrence".into(), occurrence);
            }
            members.entry("additionalProperties").or_insert(false.into());
        }
        _ => members.get_mut("additionalProperties").into_iter().for_each(adapt),
    }
    if members.get("format") == Some(&"date-time".into()) {
        members.remove("format");
        members.insert("pattern".into(), TIME.into());
    }
    if members.get("writeOnly") == Some(&true.into())
        && let Some(Value::String(description)) = members.get_mut("description")
    {
        description.push_str(SECRET_FORMS);
    }
    if let Some(Value::Array(values)) = members.remove("enum") {
        let texts: Vec<_> = values.iter().filter_map(Value::as_str).collect();
        let is_first = |(index, text): &(usize, &&str)| {
            texts.iter().position(|other| other.eq_ignore_ascii_case(text)) == Some(*index)
        };
        let names: Vec<_> =
            texts.iter().enumerate().filter(is_first).map(|(_, text)| *text).collect();
        // The names for completion in editors, and any casing of them.
        let choices = json!([{"enum": names}, {"pattern": any_case(&names)}]);
        members.insert("anyOf".into(), choices);
    }
    if let Some(mut items) = members.remove("items") {
        adapt(&mut items);
        members.remove("type");
        // A single value stands for a list of one.
        members.insert("anyOf".into(), json!([{"type": "array", "items": items}, items]));
    }
}

/// A regular expression that matches the names in any casing.
fn any_case(names: &[&str]) -> String {
    let letter = |letter: char| match letter.is_ascii_alphabetic() {
        true => format!("[{}{}]", letter.to_ascii_uppercase(), letter.to_ascii_lowercase()),
        false => letter.to_string(),
    };
    let names: Vec<String> = names.iter().map(|name| name.chars().map(letter).collect()).collect();
    format!("^({})$", names.join("|"))
}
