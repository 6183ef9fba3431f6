//! An entry of the audit log.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;
use kalends_recurrence::Instant;
use kalends_wire::{Json, Number};

use crate::access::Caller;
use crate::client::Client;

/// Characters of a text before it is truncated; the longest valid path has about 500.
const CHARS_MAX: usize = 600;

/// The audit entry of a request.
#[derive(Clone, Debug)]
pub(crate) struct AuditEntry {
    pub(crate) time: Instant,
    pub(crate) request: Arc<str>,
    /// `None` if authentication failed.
    pub(crate) caller: Option<Caller>,
    pub(crate) client: Option<Client>,
    pub(crate) method: Method,
    /// Azure operation name; `None` for an unknown path.
    pub(crate) operation: Option<&'static str>,
    pub(crate) path: Arc<str>,
    pub(crate) status: u16,
    /// Set if the entry stands for several refused requests, of which it is the last.
    pub(crate) refusals: Option<RefusalCount>,
}

/// The number of refused requests that one entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusalCount {
    /// Time of the entry before, which they are not part of.
    pub(crate) since: Instant,
    pub(crate) count: u64,
}

impl AuditEntry {
    /// The entry with its path truncated as in its line, to be kept in memory.
    pub(super) fn with_short_path(self) -> AuditEntry {
        match self.path.char_indices().nth(CHARS_MAX) {
            Some((end, _)) => {
                let path = self.path.get(..end).unwrap_or_default().into();
                AuditEntry { path, ..self }
            }
            None => self,
        }
    }

    /// The entry as one line of JSON in printable ASCII, safe against log injection.
    pub(crate) fn line(&self) -> String {
        let text = |text: &str| Json::String(Cow::Owned(text.chars().take(CHARS_MAX).collect()));
        let number =
            |number: u64| Json::Number(Number::Integer(i64::try_from(number).unwrap_or(i64::MAX)));
        let caller = self.caller.as_ref();
        let name = caller.and_then(|caller| caller.name.as_deref());
        let members = [
            ("time", Some(text(&self.time.to_string()))),
            ("request", Some(text(&self.request))),
            ("who", Some(caller.map_or(Json::Null, |caller| text(&caller.id)))),
            ("name", name.map(text)),
            ("client", self.client.map(|client| text(&client.0.to_string()))),
            ("method", Some(text(self.method.as_str()))),
            ("operation", self.operation.map(text)),
            ("path", Some(text(&self.path))),
            ("status", Some(Json::Number(Number::Integer(self.status.into())))),
            ("since", self.refusals.map(|refusals| text(&refusals.since.to_string()))),
            ("count", self.refusals.map(|refusals| number(refusals.count))),
        ];
        let members = members.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        ascii(&Json::Object(members.collect()).to_string()) + "\n"
    }
}

/// Escapes everything but printable ASCII. Other characters occur within JSON strings only.
fn ascii(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            ' '..='~' => line.push(letter),
            _ => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    line += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> AuditEntry {
        AuditEntry {
            time: Instant::from_ticks(0).unwrap(),
            request: "r".into(),
            caller: Some(Caller::single_user()),
            client: Some(Client("127.0.0.1".parse().unwrap())),
            method: Method::PUT,
            operation: Some("Microsoft.Scheduler/jobCollections/write"),
            path: path.into(),
            status: 201,
            refusals: None,
        }
    }

    #[test]
    fn a_line_has_caller_operation_and_status() {
        let expected = r#"{"time":"1970-01-01T00:00:00Z","request":"r","who":"single-user","client":"127.0.0.1","method":"PUT","operation":"Microsoft.Scheduler/jobCollections/write","path":"/x","status":201}"#;
        assert_eq!(entry("/x").line(), format!("{expected}\n"));
        let unauthenticated =
            AuditEntry { caller: None, client: None, operation: None, ..entry("/x") };
        assert!(
            unauthenticated.line().contains(r#""request":"r","who":null,"method":"PUT","path""#)
        );
    }

    #[test]
    fn a_count_has_the_time_since_which_it_counts() {
        let since = Instant::from_ticks(0).unwrap();
        let counted =
            AuditEntry { refusals: Some(RefusalCount { since, count: 7 }), ..entry("/x") };
        let end = r#""status":201,"since":"1970-01-01T00:00:00Z","count":7}"#;
        assert!(counted.line().ends_with(&format!("{end}\n")), "{}", counted.line());
    }

    #[test]
    fn a_line_is_printable_ascii_whatever_the_path_contains() {
        let path = "/\n\r\t\u{1b}[2J\u{7f}\u{85}\u{202e}\u{2028}\u{1f600}\"\\";
        let line = entry(path).line();
        assert!(line.trim_end_matches('\n').bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        let read = Json::parse(line.as_bytes()).unwrap();
        let Json::Object(members) = read else { panic!("{line}") };
        let found = members.iter().find(|(name, _)| name == "path").unwrap();
        assert_eq!(found.1, Json::String(path.into()));
        assert!(entry(&"x".repeat(10_000)).line().len() < 1_000);
    }
}
