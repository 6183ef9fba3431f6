//! The file of the audit log, with rotation.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::audit::log::AuditSettings;

/// A log file that is rotated when it is full: `audit.log.1` is the previous file, and so on.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    settings: AuditSettings,
}

impl LogFile {
    /// Opens a file for appending; creates it if it does not exist.
    pub(super) fn open(path: &Path, settings: AuditSettings) -> io::Result<LogFile> {
        let file = append(path)?;
        let bytes = file.metadata()?.len();
        Ok(LogFile { path: path.to_owned(), file, bytes, settings })
    }

    /// Writes lines. They survive a crash of the process, but are not synced to disk.
    pub(super) fn write(&mut self, lines: &str) -> io::Result<()> {
        let length = lines.len() as u64;
        if self.bytes > 0 && self.bytes + length > self.settings.bytes_max {
            self.rotate()?;
        }
        self.file.write_all(lines.as_bytes())?;
        self.bytes += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let rotated_max = self.settings.files_max.saturating_sub(1);
        for number in (1..rotated_max).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match rotated_max {
            0 => fs::remove_file(&self.path)?,
            _ => fs::rename(&self.path, self.numbered(1))?,
        }
        self.file = append(&self.path)?;
        self.bytes = 0;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
