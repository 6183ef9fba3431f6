//! Errors of commands, each with the exit status and the next step for the user.

use std::io;
use std::path::PathBuf;

use kalends_actions::UserAgentError;

use crate::exit_status::ExitStatus;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command line or an input file is invalid.
    #[error("{0}")]
    Usage(String),
    /// The command worked, and its result is a failure: the awaited run failed.
    #[error("{0}")]
    Failure(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The server cannot be reached.
    #[error("cannot reach {server}: {source}")]
    Unreachable {
        /// The URL of the server.
        server: String,
        /// The cause.
        source: UserAgentError,
    },
    /// The server refused the request.
    #[error("{0}")]
    Refused(Refusal),
    /// Some of several resources failed; each was reported.
    #[error("{failed} of {total} failed")]
    Several {
        /// Number of failures.
        failed: usize,
        /// Number of resources.
        total: usize,
        /// The exit status of the first failure.
        status: ExitStatus,
    },
    /// Standard output is closed, or another error of the terminal.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// An error response.
#[derive(Debug)]
pub struct Refusal {
    /// HTTP status; 0 for one job of a bulk request.
    pub status: u16,
    /// The error code, such as `JobStateFinal`; empty if the response has none.
    pub code: String,
    /// All problems, one per line.
    pub message: String,
    /// The request id, which the server logs.
    pub request_id: Option<String>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Refusal {
    /// Whether the resource does not exist, or the caller cannot read it.
    pub fn is_not_found(&self) -> bool {
        self.status == 404 || self.code.ends_with("NotFound")
    }
}

impl CliError {
    /// An error of the command line.
    pub fn usage(message: impl Into<String>) -> CliError {
        CliError::Usage(message.into())
    }

    /// An error of a file.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> CliError {
        let path = path.into();
        move |source| CliError::File { path, source }
    }

    /// Whether the server does not know the resource.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, CliError::Refused(refusal) if refusal.is_not_found())
    }

    /// The exit status of the process.
    pub fn exit_status(&self) -> ExitStatus {
        match self {
            CliError::Usage(_) | CliError::File { .. } => ExitStatus::Usage,
            CliError::Failure(_) | CliError::Io(_) => ExitStatus::Failure,
            CliError::Unreachable { .. } => ExitStatus::Unreachable,
            CliError::Refused(refusal) if refusal.is_not_found() => ExitStatus::NotFound,
            CliError::Refused(_) => ExitStatus::Refused,
            CliError::Several { status, .. } => *status,
        }
    }

    /// The next step, if the message does not say it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            CliError::Unreachable { source: UserAgentError::Untrusted(_), .. } => {
                "name the CA certificate of the server with --ca-file"
            }
            CliError::Unreachable { source: UserAgentError::Handshake(_), .. } => {
                "check whether the server uses https or http"
            }
            CliError::Unreachable { .. } => {
                "start a server with `kalends serve`, or select another one with --server or --context"
            }
            CliError::Refused(refusal) => return refusal.hint(),
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl Refusal {
    fn hint(&self) -> Option<String> {
        let hint = match (self.status, self.code.as_str()) {
            (401, _) => {
                "set a valid token in KALENDS_CLIENT_TOKEN, with --token-file or with `kalends context create`"
            }
            (403, _) => "`kalends token create --role …` creates a token with another role",
            _ if self.is_not_found() => {
                "`kalends job list` and `kalends collection list` list what the token can read"
            }
            (412, _) => "another user changed it meanwhile; read it again and repeat the edit",
            (421, _) => "add the host name to the setting --host of the server",
            (429 | 503 | 507, _) => {
                "try again later; `kalends status` shows the state of the server"
            }
            (500.., _) => {
                let id = self.request_id.as_ref()?;
                return Some(format!("quote the request id {id} when you report it"));
            }
            (_, "JobStateFinal") => "`kalends job run` runs a finished job once more",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
