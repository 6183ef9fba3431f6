//! Problems of input files, with file and line.

use std::fmt;

/// A problem in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileError {
    /// The path as the user gave it.
    pub(crate) file: String,
    /// From 1; 0 for the whole file.
    pub(crate) line: usize,
    /// The member and its problem, in one sentence.
    pub(crate) message: String,
}

impl FileError {
    pub(crate) fn new(file: &str, line: usize, message: impl Into<String>) -> FileError {
        FileError { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for FileError {}

/// The problems of all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileErrors(pub(crate) Vec<FileError>);

impl From<FileError> for FileErrors {
    fn from(error: FileError) -> FileErrors {
        FileErrors(vec![error])
    }
}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}
