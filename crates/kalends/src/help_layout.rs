//! Layout of help texts: one line per flag, then explanations and examples.

use clap::Command;

/// Moves everything after the first paragraph of a description to the end of the help text, for the
/// command and all below it. Flags then need one line each, which clap does not print beside long
/// descriptions.
pub(crate) fn arrange(command: Command) -> Command {
    let text = command.get_long_about().map(ToString::to_string);
    let mut command = match text.as_deref().and_then(|text| text.split_once("\n\n")) {
        Some((_, rest)) => command.long_about(None::<&str>).after_help(unwrapped(rest)),
        None => command,
    };
    let names: Vec<_> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, arrange);
    }
    command
}

/// The text with paragraphs in one line each, which clap wraps, and indented lines as they are.
fn unwrapped(text: &str) -> String {
    let paragraph = |text: &str| match text.lines().any(|line| line.starts_with(' ')) {
        true => text.trim_end().to_owned(),
        false => text.lines().collect::<Vec<_>>().join(" "),
    };
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_and_examples_follow_the_flags() {
        let about = "Do it\n\nLong\ntext.\n\nExamples:\n  a b\n  c";
        let below = Command::new("below").about("Do it").long_about(about);
        let arranged = arrange(Command::new("top").subcommand(below));
        let help = arranged.try_get_matches_from(["top", "below", "--help"]).unwrap_err();
        let expected = "Do it\n\nUsage: top below\n\nOptions:\n  -h, --help  Print help\n\nLong text.\n\nExamples:\n  a b\n  c\n";
        assert_eq!(help.to_string(), expected);
    }
}
