//! Definitions and texts from files and standard input.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use kalends_wire::Json;

use crate::error::CliError;

/// Largest file of a definition in bytes; the server accepts 64 KiB.
const DEFINITION_BYTES_MAX: u64 = 1024 * 1024;

/// Reads a text of at most `bytes_max` bytes; `-` is standard input.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let (name, read) = match path == Path::new("-") {
        true => {
            let stdin = io::stdin().lock();
            ("standard input".into(), stdin.take(bytes_max + 1).read_to_end(&mut bytes))
        }
        false => {
            let file = File::open(path).map_err(CliError::file(path))?;
            (path.to_owned(), file.take(bytes_max + 1).read_to_end(&mut bytes))
        }
    };
    read.map_err(CliError::file(&name))?;
    let shown = name.display();
    if bytes.len() as u64 > bytes_max {
        return Err(CliError::usage(format!("{shown} has more than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| CliError::usage(format!("{shown} is not UTF-8")))
}

/// Reads a definition: a body of the API, or its `properties` alone. Returns a body.
pub(super) fn read_definition(path: &Path) -> Result<Json<'static>, CliError> {
    let text = read_text(path, DEFINITION_BYTES_MAX)?;
    parse_definition(&text, &path.display().to_string())
}

/// Parses a definition from the file `name`.
pub(super) fn parse_definition(text: &str, name: &str) -> Result<Json<'static>, CliError> {
    let name = if name == "-" { "standard input" } else { name };
    let parsed = serde_json::from_str::<Json<'_>>(text).map(Json::into_owned);
    let value = parsed.map_err(|error| CliError::usage(format!("{name}: {error}")))?;
    let Json::Object(members) = &value else {
        return Err(CliError::usage(format!("{name}: a definition is a JSON object")));
    };
    let is_body = members.iter().any(|(name, _)| name.eq_ignore_ascii_case("properties"));
    Ok(if is_body { value } else { crate::json::object([("properties", value)]) })
}
