//! Protection of secrets against other users of the machine.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::store_location::{Database, StoreLocation};

/// Disables core dumps, which would contain decrypted secrets.
pub(super) fn disable_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core dumps cannot be disabled; one would contain secrets");
    }
}

/// Warns about a directory and a key file of the store that other users can read or write.
pub(super) fn warn_if_files_are_shared(location: &StoreLocation) -> anyhow::Result<()> {
    if let Database::Sqlite(path) = location.database()? {
        warn_if_directory_is_shared(path.parent().unwrap_or(path));
    }
    if let Some(file) = location.key_file()? {
        warn_if_key_file_is_shared(&file);
    }
    Ok(())
}

fn warn_if_directory_is_shared(directory: &Path) {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    if let Some(mode) = shared_mode(directory) {
        tracing::warn!(
            directory = %directory.display(),
            mode,
            "other users can access the directory of the store; set its mode to 0700"
        );
    }
}

fn warn_if_key_file_is_shared(file: &Path) {
    if let Some(mode) = shared_mode(file) {
        tracing::warn!(
            file = %file.display(),
            mode,
            "other users can access the key file of the store; set its mode to 0600"
        );
    }
}

/// The octal mode of a file that its group or others can access.
fn shared_mode(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| format!("{mode:04o}"))
}
