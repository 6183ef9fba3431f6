//! docs/settings.md, made from the command and compared with what is kept.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, CommandFactory as _};

use crate::config::key::{Kind, is_list};
use crate::config::{COMMAND, is_secret, settings};

const PAGE: &str = "../../docs/settings.md";
const INTRODUCTION: &str = include_str!("page.md");
/// Writes the page instead of comparing it.
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
        page += "| key, flag | variable | what | default | meaning |\n|---|---|---|---|---|\n";
        for (key, argument) in settings(serve).filter(|(_, a)| a.get_help_heading() == heading) {
            page += &row(key, argument);
        }
    }
    page
}

fn row(key: &str, argument: &Arg) -> String {
    let code = |text: String| if text.is_empty() { "–".to_owned() } else { format!("`{text}`") };
    let variable = argument.get_env().unwrap_or_default().to_string_lossy().into_owned();
    let names = argument.get_value_names().into_iter().flatten();
    let names: Vec<_> = names.map(|name| name.as_str()).collect();
    let kind = match (Kind::of(argument), is_list(argument)) {
        (Kind::Flag, _) => "true or false".to_owned(),
        (_, false) => names.join(" "),
        (_, true) => format!("list of {}", names.join(" ")),
    };
    let secret = if is_secret(argument) { "; a secret" } else { "" };
    let default = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let default = default.collect::<Vec<_>>().join(", ");
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default().replace('\n', " ");
    format!(
        "| `{key}` | {} | {kind}{secret} | {} | {} |\n",
        code(variable),
        code(default),
        help.replace('|', "\\|")
    )
}

#[test]
fn the_page_of_settings_is_true() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&place, page()).unwrap();
    }
    let kept = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(kept == page(), "docs/settings.md is not up to date: run make settings");
}

#[test]
fn every_setting_has_a_variable_named_after_its_flag() {
    let command = crate::Arguments::command();
    for (key, argument) in settings(command.find_subcommand(COMMAND).unwrap()) {
        let expected = format!("KALENDS_{}", key.replace('-', "_").to_uppercase());
        assert_eq!(argument.get_env().and_then(|name| name.to_str()), Some(expected.as_str()));
        assert!(!argument.is_required_set(), "{key}: a file may give it");
    }
}
