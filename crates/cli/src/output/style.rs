//! Colours, and text that is safe to print on a terminal.

use std::borrow::Cow;

/// The meaning of a text, shown as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// A heading.
    Heading,
    /// Success.
    Good,
    /// Something to look at: disabled, skipped.
    Warning,
    /// Failure.
    Bad,
    /// Details.
    Dim,
}

impl Style {
    /// The style of a state, a status or a disposition.
    pub(crate) fn of_state(state: &str) -> Style {
        match state {
            "Enabled" | "Completed" | "Running" | "Done" => Style::Good,
            "Faulted" | "Failed" | "Missed" | "Refused" => Style::Bad,
            "Disabled" | "Suspended" | "Retrying" | "Waiting" | "Postponed" => Style::Warning,
            state if state.starts_with("Skipped") => Style::Warning,
            "Scheduled" | "Superseded" | "NotKept" => Style::Dim,
            _ => Style::Plain,
        }
    }

    pub(super) fn apply(self, text: &str, has_colours: bool) -> String {
        let code = match self {
            Style::Plain => "",
            Style::Heading => "1",
            Style::Good => "32",
            Style::Warning => "33",
            Style::Bad => "31",
            Style::Dim => "2",
        };
        match code.is_empty() || !has_colours {
            true => text.to_owned(),
            false => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// The text without control characters, which could change the terminal: messages contain what targets
/// sent.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let text = text.replace("\r\n", "\n");
    Cow::Owned(text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_of_targets_do_not_reach_the_terminal() {
        assert_eq!(printable("ok\n\tmore"), "ok\n\tmore");
        assert_eq!(printable("A: b\r\nC: d"), "A: b\nC: d");
        assert_eq!(
            printable("\u{1b}[31mred\u{9b}0m\r\u{7f}"),
            "\u{fffd}[31mred\u{fffd}0m\u{fffd}\u{fffd}"
        );
    }
}
