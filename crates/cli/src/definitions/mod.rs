//! Job definitions in files.
//!
//! A file holds YAML, or JSON with comments and trailing commas. A document is one of
//!
//! * `{collection: NAME, jobs: {JOB: {…}}}`, where each job has the members of `properties` of the API.
//!   Without `collection`, the name of the file is that of the collection;
//! * the body of a job as the API has it, `{properties: …}`. Its file is `COLLECTION/JOB.yaml`, unless
//!   the body has a `name` of the form `COLLECTION/JOB`;
//! * an ARM template.
//!
//! Every definition is checked before anything else happens, and every problem has its file and line.

mod document;
mod export;
mod file_error;
mod files;
mod json;
mod located;
mod references;
mod yaml;
pub(crate) mod yaml_writer;

use std::collections::BTreeSet;

use kalends_domain::{CollectionName, JobName};
use kalends_wire::Json;

pub(crate) use document::{definition_of, unlimited};
pub(crate) use export::{export_form, masked};
pub(crate) use file_error::{FileError, FileErrors};
pub(crate) use files::{read_definitions, read_documents, read_text};
#[cfg(test)]
pub(crate) use json::parse as parse_json;
#[cfg(test)]
pub(crate) use located::Member;
pub(crate) use located::{Located, Value};
pub(crate) use references::{escape, expand_json, has_reference};

/// The definitions of all files.
#[derive(Clone, Debug, Default)]
pub(crate) struct DefinitionSet {
    pub(crate) jobs: Vec<FileDefinition>,
    /// The collections that a file names, also those without jobs.
    pub(crate) collections: BTreeSet<CollectionName>,
}

/// The definition of a job in a file.
#[derive(Clone, Debug)]
pub(crate) struct FileDefinition {
    pub(crate) collection: CollectionName,
    pub(crate) job: JobName,
    /// The path as the user gave it.
    pub(crate) file: String,
    /// The members of `properties` as they are written.
    pub(crate) written: Located,
    /// The body for the API, with the values of references.
    pub(crate) body: Json<'static>,
}

impl FileDefinition {
    /// Whether the file sets this member of `properties`.
    pub(crate) fn has(&self, member: &str) -> bool {
        self.written.get(member).is_some()
    }

    /// An error of the API about this definition, with the line of its member.
    pub(crate) fn error(&self, path: &str, message: &str) -> FileError {
        let below = path.strip_prefix("properties.").unwrap_or(path);
        let line = match below {
            "" | "properties" => self.written.line,
            path => self.written.line_of(path),
        };
        let job = format!("{}/{}", self.collection, self.job);
        FileError::new(&self.file, line, format!("{job}: {message}"))
    }
}
