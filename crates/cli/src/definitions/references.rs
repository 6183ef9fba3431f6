//! References in definition files: `${env:NAME}` is the value of an environment variable,
//! `${file:PATH}` the contents of a file. `$${env:NAME}` is the text `${env:NAME}` itself.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use kalends_wire::Json;

use super::located::{Located, Member, Value};

/// Largest file of a reference in bytes. A job has at most 16 KiB.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Kinds of references.
const KINDS: [&str; 2] = ["{env:", "{file:"];

/// Replaces the references in all strings of a value. Paths of files are relative to `folder`. Returns
/// the line and the message of each reference without a value.
pub(super) fn expand(value: &Located, folder: &Path, errors: &mut Vec<(usize, String)>) -> Located {
    let expanded = match &value.value {
        Value::String(text) => match expand_text(text, folder) {
            Ok(text) => Value::String(text),
            Err(message) => {
                errors.push((value.line, message));
                value.value.clone()
            }
        },
        Value::List(entries) => {
            Value::List(entries.iter().map(|entry| expand(entry, folder, errors)).collect())
        }
        Value::Object(members) => {
            let member = |member: &Member| Member {
                name: member.name.clone(),
                line: member.line,
                value: expand(&member.value, folder, errors),
            };
            Value::Object(members.iter().map(member).collect())
        }
        scalar => scalar.clone(),
    };
    Located { line: value.line, value: expanded }
}

/// Replaces the references in all strings of a value without lines.
pub(crate) fn expand_json(value: &Json<'static>, folder: &Path) -> Result<Json<'static>, String> {
    Ok(match value {
        Json::String(text) => expand_text(text, folder)?.into(),
        Json::Array(entries) => {
            let entries = entries.iter().map(|entry| expand_json(entry, folder));
            Json::Array(entries.collect::<Result<_, _>>()?)
        }
        Json::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| expand_json(value, folder).map(|value| (name.clone(), value)));
            Json::Object(members.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}

/// Whether a text contains a reference.
pub(crate) fn has_reference(text: &str) -> bool {
    parts(text).iter().any(|part| matches!(part, Part::Reference(_)))
}

/// Writes a text so that reading it expands nothing.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = next_kind(rest) {
        let (before, after) = rest.split_at(at);
        escaped.push_str(before);
        if before.ends_with('$') {
            escaped.insert(escaped.len() - 1, '$');
        }
        let (kind, after) = after.split_at(1);
        escaped.push_str(kind);
        rest = after;
    }
    escaped + rest
}

enum Part<'t> {
    Text(&'t str),
    /// Without `${` and `}`; `None` if it has no end.
    Reference(Option<&'t str>),
}

/// The position of the next `{env:` or `{file:`.
fn next_kind(text: &str) -> Option<usize> {
    KINDS.iter().filter_map(|kind| text.find(kind)).min()
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = next_kind(rest) {
        let (before, after) = rest.split_at(at);
        let dollars = before.len() - before.trim_end_matches('$').len();
        match dollars {
            1 => {
                parts.push(Part::Text(before.strip_suffix('$').unwrap_or(before)));
                let end = after.find('}');
                parts.push(Part::Reference(end.and_then(|end| after.get(1..end))));
                rest = end.and_then(|end| after.get(end + 1..)).unwrap_or_default();
            }
            _ => {
                // Several dollar signs: one of them escapes the others.
                let kept = before.strip_suffix('$').unwrap_or(before);
                let (brace, after) = after.split_at(1);
                parts.extend([Part::Text(kept), Part::Text(brace)]);
                rest = after;
            }
        }
    }
    parts.push(Part::Text(rest));
    parts
}

fn expand_text(text: &str, folder: &Path) -> Result<String, String> {
    if next_kind(text).is_none() {
        return Ok(text.to_owned());
    }
    let mut expanded = String::new();
    for part in parts(text) {
        match part {
            Part::Text(text) => expanded.push_str(text),
            Part::Reference(None) => return Err("the reference has no closing brace".to_owned()),
            Part::Reference(Some(reference)) => match reference.split_once(':') {
                Some(("env", name)) => expanded.push_str(&variable(name)?),
                Some((_, path)) => expanded.push_str(&contents(&folder.join(path))?),
                None => expanded.push_str(reference),
            },
        }
    }
    Ok(expanded)
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| match error {
        std::env::VarError::NotPresent => format!("the environment variable {name} is not set"),
        std::env::VarError::NotUnicode(_) => {
            format!("the environment variable {name} is not UTF-8")
        }
    })
}

/// The text of a file without the line break at its end. A file that is not UTF-8 text, such as a PFX
/// file, is encoded as base64.
fn contents(path: &Path) -> Result<String, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let size = std::fs::metadata(path).map_err(|error| cannot(&error))?.len();
    if size > FILE_BYTES_MAX {
        return Err(cannot(&format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|error| cannot(&error))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => {
            let line = text.strip_suffix('\n').unwrap_or(&text);
            line.strip_suffix('\r').unwrap_or(line).to_owned()
        }
        Err(error) => BASE64.encode(error.as_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_files_are_inserted_into_texts() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "abc\n").unwrap();
        std::fs::write(folder.path().join("client.pfx"), [0x30, 0x82, 0x03]).unwrap();
        let home = std::env::var("PATH").unwrap();
        let expand = |text: &str| expand_text(text, folder.path());
        assert_eq!(expand("Bearer ${file:token}!").unwrap(), "Bearer abc!");
        assert_eq!(expand("${env:PATH}").unwrap(), home);
        assert_eq!(expand("${file:client.pfx}").unwrap(), "MIID");
        assert_eq!(expand("${stored} and $x").unwrap(), "${stored} and $x");
        let missing = expand("${env:KALENDS_NO_SUCH_VARIABLE}").unwrap_err();
        assert_eq!(missing, "the environment variable KALENDS_NO_SUCH_VARIABLE is not set");
        assert!(expand("${file:nothing}").unwrap_err().starts_with("cannot read "));
        assert_eq!(expand("${env:X").unwrap_err(), "the reference has no closing brace");
    }

    #[test]
    fn escaped_texts_expand_to_themselves() {
        for text in [
            "${env:PATH}",
            "$${env:PATH}",
            "a$$${file:x}b{env:y}$",
            "{env:y}",
            "${stored}",
            "$",
            "${env:A}${file:B}",
        ] {
            let escaped = escape(text);
            assert_eq!(expand_text(&escaped, Path::new("")).unwrap(), text, "{escaped}");
            assert!(!has_reference(&escaped), "{escaped}");
        }
    }
}
