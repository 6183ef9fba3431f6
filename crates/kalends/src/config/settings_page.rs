//! Generates docs/settings.md from the command and compares it with the committed page.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, CommandFactory as _};

use crate::config::value::{Kind, is_list};
use crate::config::{COMMAND, deprecated, is_secret, settings, variable_name};

const PAGE: &str = "../../docs/settings.md";
const INTRODUCTION: &str = include_str!("settings_page.md");
/// Environment variable that makes the test write the page instead of comparing it.
const WRITE: &str = "KALENDS_WRITE_PAGES";

fn page() -> String {
    let command = crate::Arguments::command();
    let serve = command.find_subcommand(COMMAND).unwrap();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for (_, argument) in settings(serve) {
        let heading = argument.get_help_heading();
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let mut page = INTRODUCTION.to_owned();
    for heading in headings {
        writeln!(page, "\n## {}\n", heading.unwrap_or("General")).unwrap();
        page += "| key, flag | variable | value | default | description |\n|---|---|---|---|---|\n";
        for (key, argument) in settings(serve).filter(|(_, a)| a.get_help_heading() == heading) {
            page += &row(key, argument);
        }
    }
    page += "\n## Deprecated names\n\n";
    page +=
        "These names work for one more release; the server logs a warning when it finds one.\n\n";
    page += "| key, flag | variable | use instead |\n|---|---|---|\n";
    for (key, argument) in settings(serve) {
        for name in deprecated::names(argument) {
            let (old, new) = (variable_name(name), variable_name(key));
            writeln!(page, "| `{name}` | `{old}` | `{key}`, `{new}` |").unwrap();
        }
    }
    page
}

fn row(key: &str, argument: &Arg) -> String {
    let code = |text: String| if text.is_empty() { "–".to_owned() } else { format!("`{text}`") };
    let variable = argument.get_env().unwrap_or_default().to_string_lossy().into_owned();
    let names = argument.get_value_names().into_iter().flatten();
    let names: Vec<_> = names.map(|name| name.as_str()).collect();
    let allowed: Vec<_> = argument
        .get_possible_values()
        .iter()
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let kind = match (Kind::of(argument), is_list(argument)) {
        (Kind::Flag, _) => "true or false".to_owned(),
        (_, false) if !allowed.is_empty() => allowed.join(", "),
        (_, false) => names.join(" "),
        (_, true) => format!("list of {}", names.join(" ")),
    };
    let secret = if is_secret(argument) { "; secret" } else { "" };
    let default = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let default = default.collect::<Vec<_>>().join(", ");
    let help = argument.get_long_help().or(argument.get_help());
    let mut help = help.map(ToString::to_string).unwrap_or_default().replace('\n', " ");
    for value in argument.get_possible_values() {
        if let Some(meaning) = value.get_help() {
            write!(help, ". `{}`: {meaning}", value.get_name()).unwrap();
        }
    }
    format!(
        "| `{key}` | {} | {}{secret} | {} | {} |\n",
        code(variable),
        kind.replace('|', " or "),
        code(default),
        help.replace('|', "\\|")
    )
}

#[test]
fn the_settings_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page(), "docs/settings.md is out of date: run make settings");
}

#[test]
fn every_setting_has_a_variable_named_after_its_flag() {
    let command = crate::Arguments::command();
    for (key, argument) in settings(command.find_subcommand(COMMAND).unwrap()) {
        let expected = variable_name(key);
        assert_eq!(argument.get_env().and_then(|name| name.to_str()), Some(expected.as_str()));
        assert!(!argument.is_required_set(), "{key}: the settings file may supply it");
    }
}
