//! ARM templates with Azure Scheduler resources, and exported collections and jobs.

use kalends_domain::{CollectionName, JobName};
use kalends_recurrence::{Rule, Settings};
use kalends_wire::{ErrorCode, JobBody, Json, Version, read_definition};

use super::arm_expression::{Scope, Unresolved};
use super::{Candidate, Import, ImportOptions, RUNS_SHOWN};
use crate::definitions::{FileDefinition, FileError, Located, Value, expand_json, unlimited};
use crate::json::{JsonMembers as _, member_mut, remove, set};

const COLLECTION_TYPE: &str = "Microsoft.Scheduler/jobCollections";
const JOB_TYPE: &str = "Microsoft.Scheduler/jobCollections/jobs";
/// Rounds of repairs: each read reports twenty problems at most.
const REPAIRS_MAX: usize = 50;

/// Whether a document is an ARM template or an exported resource.
pub(crate) fn is_template(document: &Located) -> bool {
    let schema = document.text_of("$schema").unwrap_or_default();
    schema.to_ascii_lowercase().contains("deploymenttemplate.json")
        || document
            .get("resources")
            .is_some_and(|resources| matches!(resources.value, Value::List(_)))
}

/// Converts the jobs of a template, of exported resources or of a list of them.
pub(crate) fn import(file: &str, document: &Located, options: &ImportOptions, import: &mut Import) {
    for resource in resources(document) {
        let source = format!("{file}:{}", resource.line);
        let name = resource.name.clone();
        match resource.convert() {
            Ok(converted) => {
                let body = Json::Object(vec![("properties".into(), converted.properties.clone())]);
                let definition = read_definition(&body, options.now);
                let rule = definition.ok().and_then(|it| Rule::new(it, &Settings::default()).ok());
                let runs = rule.iter().flat_map(|rule| rule.occurrences_after(options.now));
                let source_runs = runs.take(RUNS_SHOWN).collect();
                let candidate = Candidate {
                    collection: resource.collection.clone(),
                    name,
                    source,
                    properties: converted.properties,
                    source_runs,
                    notes: converted.notes,
                };
                import.add(candidate, options);
            }
            Err(reason) => import.refuse(&source, &name, reason),
        }
    }
}

/// Reads the definitions of a template for `apply`. Environment variables supply values that the
/// template does not have.
pub(crate) fn read_definitions(
    file: &str,
    document: &Located,
    definitions: &mut Vec<FileDefinition>,
    errors: &mut Vec<FileError>,
) {
    for resource in resources(document) {
        match resource.definition(file) {
            Ok(definition) => definitions.push(definition),
            Err(reason) => {
                let message = format!("{}/{}: {reason}", resource.collection, resource.name);
                errors.push(FileError::new(file, resource.line, message));
            }
        }
    }
}

/// A job in a document.
struct JobResource<'t> {
    scope: Scope<'t>,
    collection: String,
    name: String,
    line: usize,
    /// The resource itself.
    resource: &'t Located,
    /// Whether its collection is disabled.
    is_suspended: bool,
}

/// A job with its expressions evaluated.
struct ConvertedJob {
    properties: Json<'static>,
    notes: Vec<String>,
}

/// All jobs of a document.
fn resources(document: &Located) -> Vec<JobResource<'_>> {
    let mut found = Vec::new();
    match &document.value {
        Value::List(entries) => {
            for entry in entries {
                visit(entry, document, None, &mut found);
            }
        }
        _ if document.get("type").is_some() => visit(document, document, None, &mut found),
        _ => {
            for list in ["resources", "value"] {
                for entry in document.get(list).map(Located::entries).unwrap_or_default() {
                    visit(entry, document, None, &mut found);
                }
            }
        }
    }
    found
}

/// The resource around another one.
#[derive(Clone)]
struct Parent {
    kind: String,
    name: String,
    is_suspended: bool,
}

fn visit<'t>(
    resource: &'t Located,
    document: &'t Located,
    parent: Option<&Parent>,
    found: &mut Vec<JobResource<'t>>,
) {
    let scope = Scope::of(document);
    let mut unresolved = Vec::new();
    let mut text = |name: &str| {
        let value = resource.get(name).map(Located::to_json).unwrap_or(Json::Null);
        match scope.evaluate(&value, name, &mut unresolved) {
            Json::String(text) => text.into_owned(),
            _ => String::new(),
        }
    };
    let (kind, name) = (text("type"), text("name"));
    // The type and the name of a nested resource are relative to its parent.
    let (kind, name) = match parent {
        Some(parent) if !kind.to_ascii_lowercase().starts_with("microsoft.") => {
            (format!("{}/{kind}", parent.kind), format!("{}/{name}", parent.name))
        }
        Some(parent) if !name.contains('/') && kind.eq_ignore_ascii_case(JOB_TYPE) => {
            (kind, format!("{}/{name}", parent.name))
        }
        _ => (kind, name),
    };
    let state = resource.at(&["properties", "state"]).and_then(Located::text).unwrap_or_default();
    let is_suspended = ["Disabled", "Suspended"].iter().any(|off| off.eq_ignore_ascii_case(state));
    if kind.eq_ignore_ascii_case(JOB_TYPE) {
        let (collection, name) = name.split_once('/').unwrap_or(("default", &name));
        found.push(JobResource {
            scope: Scope::of(document),
            collection: collection.to_owned(),
            name: name.to_owned(),
            line: resource.line,
            resource,
            is_suspended: parent.is_some_and(|parent| parent.is_suspended),
        });
    } else if kind.eq_ignore_ascii_case(COLLECTION_TYPE) {
        let parent = Parent { kind, name, is_suspended };
        for nested in resource.get("resources").map(Located::entries).unwrap_or_default() {
            visit(nested, document, Some(&parent), found);
        }
    }
}

impl JobResource<'_> {
    fn convert(&self) -> Result<ConvertedJob, String> {
        if self.name.contains("${") || self.collection.contains("${") {
            return Err(
                "its name cannot be evaluated; give the parameters a defaultValue".to_owned()
            );
        }
        let properties = self.resource.get("properties").ok_or("properties is missing")?;
        let mut unresolved = Vec::new();
        let hint = format!("{}_", self.name);
        let properties = self.scope.evaluate(&properties.to_json(), &hint, &mut unresolved);
        let recurrence = properties.at("recurrence");
        if recurrence.is_some_and(|recurrence| !matches!(recurrence, Json::Object(_))) {
            return Err(
                "its recurrence cannot be evaluated; give the parameter a defaultValue".to_owned()
            );
        }
        let state = properties.text("state");
        if ["Completed", "Faulted"].iter().any(|done| done.eq_ignore_ascii_case(state)) {
            return Err(format!("the job has finished ({state})"));
        }
        let mut converted = ConvertedJob { properties, notes: vec![] };
        for Unresolved { variable, expression } in unresolved {
            let note =
                format!("Set the environment variable {variable}, the value of {expression}");
            converted.notes.push(note);
        }
        remove(&mut converted.properties, "status");
        if self.is_suspended {
            set(&mut converted.properties, "state", "Disabled".into());
            converted.notes.push("The collection is disabled: the job is Disabled".to_owned());
        }
        converted.repair(&self.name)?;
        if converted.properties.at("startTime").is_none() {
            let note = "The job has no startTime: it starts with the next match instead of now";
            converted.notes.push(note.to_owned());
        }
        Ok(converted)
    }

    fn definition(&self, file: &str) -> Result<FileDefinition, String> {
        let converted = self.convert()?;
        let name = |error| format!("the name {error}");
        let collection = CollectionName::new(&self.collection).map_err(name)?;
        let job = JobName::new(&self.name).map_err(name)?;
        let written = self.resource.get("properties").cloned().ok_or("properties is missing")?;
        let folder = std::path::Path::new(file).parent().unwrap_or(std::path::Path::new(""));
        let properties = expand_json(&converted.properties, folder)?;
        let body = Json::Object(vec![("properties".into(), properties)]);
        let read = JobBody::read(&body, Version::V2026_11_01, &unlimited());
        read.map_err(|errors| errors.to_string())?;
        Ok(FileDefinition { collection, job, file: file.to_owned(), written, body })
    }
}

impl ConvertedJob {
    /// Removes members that the service ignored, and names variables for secrets that an export does
    /// not have.
    fn repair(&mut self, job: &str) -> Result<(), String> {
        for _ in 0..REPAIRS_MAX {
            let body = Json::Object(vec![("properties".into(), self.properties.clone())]);
            let Err(errors) = JobBody::read(&body, Version::V2026_11_01, &unlimited()) else {
                return Ok(());
            };
            let mut is_changed = false;
            for error in errors.iter() {
                let path = error.path.strip_prefix("properties.").unwrap_or(&error.path);
                let (parent, member) = path.rsplit_once('.').unwrap_or(("", path));
                let is_reference = self.properties.text(path).contains("${env:");
                match error.code {
                    ErrorCode::UnknownProperty => {
                        let parent = find_mut(&mut self.properties, parent);
                        if parent.and_then(|parent| remove(parent, member)).is_some() {
                            self.notes.push(format!("{path} is unknown and not carried over"));
                            is_changed = true;
                        }
                    }
                    ErrorCode::MissingSecret => {
                        let name = format!("{job}_{member}");
                        let plain = |any: char| {
                            if any.is_ascii_alphanumeric() { any.to_ascii_uppercase() } else { '_' }
                        };
                        let variable: String = name.chars().map(plain).collect();
                        let reference = format!("${{env:{variable}}}");
                        if let Some(Json::Object(members)) = find_mut(&mut self.properties, parent)
                        {
                            members.push((member.to_owned().into(), reference.into()));
                            self.notes.push(format!(
                                "Set the environment variable {variable}, the secret {path}"
                            ));
                            is_changed = true;
                        }
                    }
                    // The value is checked when the variable is known.
                    _ if is_reference => {}
                    _ => return Err(format!("the definition is invalid: {error}")),
                }
            }
            if !is_changed {
                return Ok(());
            }
        }
        Err("the definition has too many unknown members".to_owned())
    }
}

fn find_mut<'a>(value: &'a mut Json<'static>, path: &str) -> Option<&'a mut Json<'static>> {
    let mut steps = path.split('.').filter(|step| !step.is_empty());
    steps.try_fold(value, |value, step| member_mut(value, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::parse_json;

    fn imported(text: &str) -> Import {
        let document = parse_json("t.json", text).unwrap();
        let options = ImportOptions {
            now: "2026-11-16T10:00:00Z".parse().unwrap(),
            url_template: None,
            collection: None,
            time_zone: None,
        };
        let mut found = Import::default();
        import("t.json", &document, &options, &mut found);
        found
    }

    const HTTP: &str = r#""action": {"type": "Http", "request": {"uri": "http://x.example.com/", "method": "GET"}}"#;

    #[test]
    fn jobs_are_found_in_every_form() {
        let recurrence =
            r#""recurrence": {"frequency": "Day", "schedule": {"hours": [2], "minutes": [0]}}"#;
        let properties = format!("\"properties\": {{{HTTP}, {recurrence}}}");
        for text in [
            format!(
                r#"{{"$schema": "https://schema.management.azure.com/schemas/2015-01-01/deploymentTemplate.json#", "variables": {{"c": "jc"}}, "resources": [{{"type": "Microsoft.Scheduler/jobCollections", "name": "[variables('c')]", "resources": [{{"type": "jobs", "name": "j", {properties}}}]}}]}}"#
            ),
            format!(
                r#"{{"resources": [{{"type": "Microsoft.Scheduler/jobCollections/jobs", "name": "jc/j", {properties}}}]}}"#
            ),
            format!(
                r#"{{"value": [{{"id": "/x", "type": "Microsoft.Scheduler/jobCollections/jobs", "name": "jc/j", {properties}}}]}}"#
            ),
            format!(
                r#"{{"type": "Microsoft.Scheduler/jobCollections", "name": "jc", "resources": [{{"type": "Microsoft.Scheduler/jobCollections/jobs", "name": "j", {properties}}}]}}"#
            ),
            format!(
                r#"[{{"type": "Microsoft.Scheduler/jobCollections/jobs", "name": "jc/j", {properties}}}]"#
            ),
        ] {
            let found = imported(&text);
            let names: Vec<_> =
                found.jobs.iter().map(|job| format!("{}/{}", job.collection, job.job)).collect();
            assert_eq!(names, ["jc/j"], "{text} {:?}", found.not_carried_over);
            let job = &found.jobs[0];
            assert_eq!(job.properties.text("startTime"), "2026-11-17T02:00:00Z");
            assert!(job.is_equal(), "{:?} {:?}", job.source_runs, job.runs);
        }
    }

    #[test]
    fn missing_secrets_and_unknown_members_are_repaired() {
        let found = imported(
            r#"{"type": "Microsoft.Scheduler/jobCollections/jobs", "name": "jc/j", "properties": {"state": "disabled", "extra": 1, "startTime": "2026-01-01T00:00:00Z", "recurrence": {"frequency": "hour", "unused": true}, "action": {"type": "https", "request": {"uri": "https://x.example.com/", "method": "GET", "authentication": {"type": "Basic", "username": "u"}}}, "status": {"executionCount": 4}}}"#,
        );
        let job = &found.jobs[0];
        assert_eq!(
            job.properties.text("action.request.authentication.password"),
            "${env:J_PASSWORD}"
        );
        assert!(job.properties.at("extra").is_none() && job.properties.at("status").is_none());
        assert!(job.is_disabled());
        assert_eq!(job.notes.len(), 3, "{:?}", job.notes);
    }

    #[test]
    fn finished_jobs_and_jobs_of_the_past_are_not_carried_over() {
        let job = |rest: &str| {
            format!(
                r#"{{"type": "Microsoft.Scheduler/jobCollections/jobs", "name": "jc/j", "properties": {{{HTTP}{rest}}}}}"#
            )
        };
        for (rest, reason) in [
            (r#", "state": "Completed""#, "has finished"),
            ("", "would run at once"),
            (r#", "startTime": "2020-01-01T00:00:00Z""#, "its time has passed"),
            (r#", "recurrence": "[parameters('none')]""#, "cannot be evaluated"),
            (
                r#", "startTime": "2016-01-01T00:00:00Z", "recurrence": {"frequency": "Day", "endTime": "2017-01-01"}"#,
                "has ended",
            ),
        ] {
            let found = imported(&job(rest));
            assert_eq!(found.jobs.len(), 0, "{rest}");
            assert!(
                found.not_carried_over[0].reason.contains(reason),
                "{:?}",
                found.not_carried_over
            );
        }
    }
}
