//! The forms of a definition document.

use std::path::Path;
use std::time::Duration;

use kalends_domain::{CollectionName, JobName, Limits};
use kalends_wire::{JobBody, Json, Version};

use super::file_error::{FileError, FileErrors};
use super::located::{Located, Member, Value};
use super::{DefinitionSet, FileDefinition, json, references};

/// Members of a document with jobs.
const DOCUMENT_MEMBERS: [&str; 2] = ["collection", "jobs"];
/// Members of the body of a job that only the service sets.
const IGNORED_MEMBERS: [&str; 3] = ["id", "name", "type"];

/// Reads the jobs of a document that is not an ARM template.
pub(super) fn read(
    file: &str,
    path: &Path,
    document: &Located,
    definitions: &mut DefinitionSet,
    errors: &mut Vec<FileError>,
) {
    let mut reader = DocumentReader { file, path, errors };
    let is_job = document.get("properties").is_some() || document.get("action").is_some();
    match document.value {
        Value::Object(_) if is_job => definitions.jobs.extend(reader.single(document)),
        Value::Object(_) => reader.collection(document, definitions),
        _ => {
            let problem = "must be an object with jobs, or the definition of a job";
            reader.reject(
                document.line,
                format!("The document {problem} (found {})", document.kind()),
            );
        }
    }
}

/// A definition from the members of `properties`.
pub(crate) fn definition_of(
    collection: &CollectionName,
    job: &JobName,
    file: &str,
    properties: &Json<'static>,
) -> Result<FileDefinition, FileErrors> {
    let value = json::parse(file, &properties.to_string())?;
    let mut errors = Vec::new();
    let mut reader = DocumentReader { file, path: Path::new(""), errors: &mut errors };
    let definition = reader.job(collection.clone(), job.clone(), &value);
    // The lines are those of a generated text.
    errors.iter_mut().for_each(|error| error.line = 0);
    definition.ok_or(FileErrors(errors))
}

struct DocumentReader<'a> {
    file: &'a str,
    path: &'a Path,
    errors: &'a mut Vec<FileError>,
}

impl DocumentReader<'_> {
    fn reject(&mut self, line: usize, message: impl Into<String>) {
        self.errors.push(FileError::new(self.file, line, message));
    }

    /// A document `{collection: …, jobs: {…}}`.
    fn collection(&mut self, document: &Located, definitions: &mut DefinitionSet) {
        for member in document.members() {
            if !DOCUMENT_MEMBERS.iter().any(|known| known.eq_ignore_ascii_case(&member.name)) {
                let name = &member.name;
                let message = format!(
                    "{name} is unknown; the members of a document are collection and jobs, or properties for a single job"
                );
                self.reject(member.line, message);
            }
        }
        let name = match document.get("collection") {
            Some(value) => value.text().map(|text| (text.to_owned(), value.line)),
            None => self.stem().map(|stem| (stem, document.line)),
        };
        let Some((name, line)) = name else {
            self.reject(document.line, "collection must be the name of a collection");
            return;
        };
        let Some(collection) = self.collection_name(&name, line) else { return };
        definitions.collections.insert(collection.clone());
        let Some(jobs) = document.get("jobs") else {
            let message = "jobs is missing; it must be an object with a member for each job";
            self.reject(document.line, message);
            return;
        };
        if !matches!(jobs.value, Value::Object(_)) {
            let message = format!(
                "jobs must be an object with a member for each job (found {})",
                jobs.kind()
            );
            self.reject(jobs.line, message);
        }
        definitions.jobs.extend(jobs.members().iter().filter_map(|member| {
            let job = self.job_name(&member.name, member.line)?;
            self.job(collection.clone(), job, &member.value)
        }));
    }

    /// The body of a job.
    fn single(&mut self, document: &Located) -> Option<FileDefinition> {
        let full_name = document.text_of("name").and_then(|name| name.split_once('/'));
        let (collection, job) = match full_name {
            Some((collection, job)) => (collection.to_owned(), job.to_owned()),
            None => {
                let folder = self.path.parent().and_then(Path::file_name);
                let folder = folder.and_then(|name| name.to_str()).map(str::to_owned);
                let names = folder.zip(self.stem());
                let Some(names) = names else {
                    let message =
                        "The name of the job is unknown; name the file COLLECTION/JOB.yaml";
                    self.reject(document.line, message);
                    return None;
                };
                names
            }
        };
        let collection = self.collection_name(&collection, document.line)?;
        let job = self.job_name(&job, document.line)?;
        self.job(collection, job, document)
    }

    /// The name of the file without its extension.
    fn stem(&self) -> Option<String> {
        self.path.file_stem()?.to_str().map(str::to_owned)
    }

    fn collection_name(&mut self, name: &str, line: usize) -> Option<CollectionName> {
        let problem = |error| format!("The name of the collection {error} (found \"{name}\")");
        CollectionName::new(name).map_err(|error| self.reject(line, problem(error))).ok()
    }

    fn job_name(&mut self, name: &str, line: usize) -> Option<JobName> {
        let problem = |error| format!("The name of the job {error} (found \"{name}\")");
        JobName::new(name).map_err(|error| self.reject(line, problem(error))).ok()
    }

    /// A job whose value is its `properties`, or a body with `properties`.
    fn job(
        &mut self,
        collection: CollectionName,
        job: JobName,
        value: &Located,
    ) -> Option<FileDefinition> {
        let written = properties(value);
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let mut missing = Vec::new();
        let expanded = references::expand(&written, folder, &mut missing);
        let body = Json::Object(vec![("properties".into(), expanded.to_json())]);
        let read =
            JobBody::read(&with_outer_members(&body, value), Version::V2026_11_01, &unlimited());
        let locate = |path: &str| {
            let below = path.strip_prefix("properties.").unwrap_or(path);
            if path == "properties" { value.line } else { written.line_of(below).max(1) }
        };
        let full_name = format!("{collection}/{job}");
        for (line, message) in &missing {
            self.reject(*line, format!("{full_name}: {message}"));
        }
        if let Err(errors) = read {
            for error in errors.iter() {
                self.reject(locate(&error.path), format!("{full_name}: {error}"));
            }
            return None;
        }
        let file = self.file.to_owned();
        missing.is_empty().then_some(FileDefinition { collection, job, file, written, body })
    }
}

/// The `properties` of a job, or the value itself if it has none.
fn properties(value: &Located) -> Located {
    let members = match &value.value {
        Value::Object(members) => members,
        _ => return value.clone(),
    };
    if let Some(properties) = value.get("properties") {
        return properties.clone();
    }
    let is_own = |member: &&Member| {
        !IGNORED_MEMBERS.iter().any(|ignored| ignored.eq_ignore_ascii_case(&member.name))
    };
    let own = members.iter().filter(is_own).cloned().collect();
    Located { line: value.line, value: Value::Object(own) }
}

/// The body with the members beside `properties`, so that unknown ones are found.
fn with_outer_members(body: &Json<'static>, value: &Located) -> Json<'static> {
    let Json::Object(members) = body else { return body.clone() };
    let mut members = members.clone();
    if value.get("properties").is_some() {
        let outer = value.members().iter();
        let outer = outer.filter(|member| !member.name.eq_ignore_ascii_case("properties"));
        members.extend(outer.map(|member| (member.name.clone().into(), member.value.to_json())));
    }
    Json::Object(members)
}

/// Limits that no definition reaches: the server applies its own.
pub(crate) fn unlimited() -> Limits {
    Limits {
        job_bytes_max: usize::MAX,
        uri_chars_max: usize::MAX,
        headers_max: usize::MAX,
        headers_chars_max: usize::MAX,
        body_chars_max: usize::MAX,
        queue_message_chars_max: usize::MAX,
        custom_properties_max: usize::MAX,
        tags_max: usize::MAX,
        tag_name_chars_max: usize::MAX,
        tag_value_chars_max: usize::MAX,
        retry_interval_min: Duration::ZERO,
        retry_interval_max: Duration::MAX,
        retry_count_max: u32::MAX,
        timeout_max: Duration::MAX,
        description_chars_max: usize::MAX,
        pfx_bytes_max: usize::MAX,
    }
}
