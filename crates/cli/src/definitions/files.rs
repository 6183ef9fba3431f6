//! Finding and reading definition files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::file_error::{FileError, FileErrors};
use super::located::Located;
use super::{DefinitionSet, FileDefinition, document, json, yaml};
use crate::import::arm;

/// Largest definition file in bytes: a hundred thousand jobs.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Extensions of definition files in a directory.
const EXTENSIONS: [&str; 4] = ["yaml", "yml", "json", "jsonc"];

/// A file and its documents.
pub(crate) struct SourceFile {
    /// The path as the user gave it.
    pub(crate) name: String,
    /// The absolute path, whose directory names the collection of a single job.
    pub(crate) path: PathBuf,
    pub(crate) documents: Vec<Located>,
}

/// Reads the definitions of files and of all definition files below directories.
pub(crate) fn read_definitions(paths: &[PathBuf]) -> Result<DefinitionSet, FileErrors> {
    let mut errors = Vec::new();
    let mut definitions = DefinitionSet::default();
    for path in find_files(paths)? {
        match read_documents(&path) {
            Ok(file) => read_file(&file, &mut definitions, &mut errors),
            Err(error) => errors.push(error),
        }
    }
    let named = definitions.jobs.iter().map(|definition| definition.collection.clone());
    definitions.collections.extend(named);
    reject_duplicates(&definitions.jobs, &mut errors);
    errors.sort();
    errors.dedup();
    if errors.is_empty() { Ok(definitions) } else { Err(FileErrors(errors)) }
}

fn read_file(file: &SourceFile, definitions: &mut DefinitionSet, errors: &mut Vec<FileError>) {
    for document in &file.documents {
        if arm::is_template(document) {
            arm::read_definitions(&file.name, document, &mut definitions.jobs, errors);
        } else {
            document::read(&file.name, &file.path, document, definitions, errors);
        }
    }
}

fn reject_duplicates(definitions: &[FileDefinition], errors: &mut Vec<FileError>) {
    let mut seen: HashMap<_, &FileDefinition> = HashMap::new();
    for definition in definitions {
        let key = (
            definition.collection.as_str().to_ascii_lowercase(),
            definition.job.as_str().to_ascii_lowercase(),
        );
        if let Some(first) = seen.get(&key) {
            let message =
                format!("is defined twice, first in {}:{}", first.file, first.written.line);
            errors.push(definition.error("", &message));
        } else {
            seen.insert(key, definition);
        }
    }
}

/// The files that paths name: files themselves, and definition files below directories. Names that
/// begin with a dot are left out.
fn find_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FileErrors> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        if path.is_dir() {
            find_below(path, &mut found)?;
            if found.len() == before {
                let message = "the directory has no definition files (.yaml, .yml, .json, .jsonc)";
                return Err(FileError::new(&path.display().to_string(), 0, message).into());
            }
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn find_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), FileErrors> {
    let cannot = |error: std::io::Error| {
        FileErrors::from(FileError::new(&folder.display().to_string(), 0, error.to_string()))
    };
    let entries = std::fs::read_dir(folder).map_err(cannot)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(cannot)?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(".");
        let extension = path.extension().and_then(|extension| extension.to_str());
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            find_below(&path, found)?;
        } else if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
            found.push(path);
        }
    }
    Ok(())
}

/// Reads the documents of a file: JSON by the extension of its name or its first character, else YAML.
pub(crate) fn read_documents(path: &Path) -> Result<SourceFile, FileError> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    let first = text.trim_start_matches('\u{feff}').trim_start();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_json = match extension {
        Some("json" | "jsonc") => true,
        Some("yaml" | "yml") => false,
        _ => first.starts_with(['{', '[']) || first.starts_with("//"),
    };
    let documents = match is_json {
        true => vec![json::parse(&name, &text)?],
        false => yaml::parse(&name, &text)?,
    };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = path.canonicalize().unwrap_or(path);
    Ok(SourceFile { name, path, documents })
}

/// Reads a text file, or standard input for `-`.
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    let name = path.display().to_string();
    let error = |error: &dyn std::fmt::Display| FileError::new(&name, 0, error.to_string());
    if path == Path::new("-") {
        return std::io::read_to_string(std::io::stdin().lock()).map_err(|cause| error(&cause));
    }
    let size = std::fs::metadata(path).map_err(|cause| error(&cause))?.len();
    if size > FILE_BYTES_MAX {
        return Err(error(&format!("the file has more than {FILE_BYTES_MAX} bytes")));
    }
    std::fs::read_to_string(path).map_err(|cause| error(&cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIGHTLY: &str = "action: {type: Http, request: {uri: http://example.com/, method: GET}}\nrecurrence: {cron: 0 2 * * *}\n";

    fn read(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = read_definitions(&[folder.path().to_owned()]);
        let prefix = format!("{}/", folder.path().display());
        let found = found.map_err(|errors| errors.to_string().replace(&prefix, ""))?;
        Ok(found.jobs.iter().map(|found| format!("{}/{}", found.collection, found.job)).collect())
    }

    #[test]
    fn a_tree_has_collections_in_files_and_jobs_in_files_of_their_own() {
        let indented: String = NIGHTLY.lines().map(|line| format!("    {line}\n")).collect();
        let found = read(&[
            ("web.yaml", &format!("jobs:\n  nightly:\n{indented}")),
            (
                "other.yml",
                &format!(
                    "collection: etl\njobs:\n  one:\n{indented}---\ncollection: ops\njobs:\n  two:\n{indented}"
                ),
            ),
            ("etl/load.yaml", NIGHTLY),
            (
                "etl/body.json",
                "{\"properties\": {\"action\": {\"type\": \"Http\", \"request\": {\"uri\": \"http://x/\", \"method\": \"GET\"}},},} // end",
            ),
            (
                "got.json",
                "{\"name\": \"jc/read\", \"id\": \"/x\", \"properties\": {\"action\": {\"type\": \"Http\", \"request\": {\"uri\": \"http://x/\", \"method\": \"GET\"}}}}",
            ),
            (".git/x.yaml", "not: read"),
            ("README.md", "not read"),
        ]);
        let expected = ["etl/body", "etl/load", "jc/read", "etl/one", "ops/two", "web/nightly"];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn every_problem_has_its_file_and_line() {
        let found = read(&[
            (
                "web.yaml",
                "jobs:\n  nightly:\n    action:\n      type: Http\n      request: {uri: http://x/, method: GET}\n    recurence:\n      cron: 0 2 * * *\n  9bad: {}\n",
            ),
            ("etl.yaml", "collection: etl\njobs: {}\nowner: me\n"),
            (
                "z/broken.json",
                "{\"properties\": {\n \"action\": {\"type\": \"Http\", \"request\": {\"uri\": \"x\", \"method\": \"GET\"}},\n \"recurrence\": {\"frequency\": \"Day\", \"schedule\": {\"hours\": [1,\n \"x\"]}}}}",
            ),
        ]);
        let errors = found.unwrap_err();
        let lines: Vec<_> = errors.lines().collect();
        assert!(lines[0].starts_with("etl.yaml:3: owner is unknown"), "{errors}");
        assert!(
            lines[1].starts_with("web.yaml:6: web/nightly: properties.recurence is unknown"),
            "{errors}"
        );
        assert!(lines[1].ends_with("did you mean recurrence?"), "{errors}");
        assert!(lines[2].starts_with("web.yaml:8: The name of the job"), "{errors}");
        assert!(
            lines[3].starts_with("z/broken.json:2: z/broken: properties.action.request.uri"),
            "{errors}"
        );
        assert!(
            lines[4]
                .starts_with("z/broken.json:4: z/broken: properties.recurrence.schedule.hours[1]"),
            "{errors}"
        );
        assert_eq!(lines.len(), 5, "{errors}");
    }

    #[test]
    fn a_job_is_defined_once() {
        let errors = read(&[
            ("web/a.yaml", NIGHTLY),
            (
                "x.yaml",
                &format!(
                    "collection: Web\njobs:\n  A: {{{}}}\n",
                    NIGHTLY.trim().replace('\n', ", ").replace("0 2 * * *", "\"0 2 * * *\"")
                ),
            ),
        ]);
        let errors = errors.unwrap_err();
        assert!(
            errors.contains("x.yaml:3: Web/A: is defined twice, first in web/a.yaml:1")
                || errors.contains("is defined twice"),
            "{errors}"
        );
    }

    #[test]
    fn an_empty_directory_is_an_error() {
        let errors = read(&[("README.md", "x")]).unwrap_err();
        assert!(errors.contains("has no definition files"), "{errors}");
    }
}
