//! Printing a plan.

use std::io::{self, Write};

use kalends_wire::Json;

use super::plan::{Change, ChangeKind, Plan};
use super::preview::Preview;
use crate::json::object;
use crate::output::{Output, Style, printable};

/// Runs that are shown of each schedule.
const RUNS_SHOWN: usize = 5;

/// Prints the changes of a plan.
pub(crate) fn show(plan: &Plan, output: &Output, to: &mut dyn Write) -> io::Result<()> {
    for change in &plan.changes {
        let (sign, style) = match change.kind {
            ChangeKind::Create => ("+", Style::Good),
            ChangeKind::Replace => ("~", Style::Warning),
            ChangeKind::Delete => ("-", Style::Bad),
        };
        writeln!(to, "{}", output.styled(&format!("{sign} {}", change.job), style))?;
        for member in &change.members {
            let before = member.before.as_deref().unwrap_or("(absent)");
            let after = member.after.as_deref().unwrap_or("(absent)");
            let line = format!("    {}: {before} -> {after}", member.path);
            writeln!(to, "{}", printable(&line))?;
        }
        show_schedules(change, output, to)?;
    }
    for skipped in &plan.skipped {
        let line = format!("! {}: {}", skipped.job, skipped.reason);
        writeln!(to, "{}", output.styled(&printable(&line), Style::Warning))?;
    }
    Ok(())
}

fn show_schedules(change: &Change, output: &Output, to: &mut dyn Write) -> io::Result<()> {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let is_same = |one: &Preview, other: &Preview| {
        one.description == other.description
            && shown(one) == shown(other)
            && one.state == other.state
    };
    match (before, after) {
        (Some(before), Some(after)) if is_same(before, after) => {
            show_schedule("schedule (unchanged)", after, output, to)
        }
        (before, after) => {
            if let Some(before) = before {
                show_schedule("schedule before", before, output, to)?;
            }
            if let Some(after) = after {
                let label = if before.is_some() { "schedule after" } else { "schedule" };
                show_schedule(label, after, output, to)?;
            }
            Ok(())
        }
    }
}

fn show_schedule(
    label: &str,
    preview: &Preview,
    output: &Output,
    to: &mut dyn Write,
) -> io::Result<()> {
    let state = match preview.state.as_str() {
        "Enabled" => String::new(),
        state => format!(" ({state})"),
    };
    writeln!(to, "    {label}: {}{state}", printable(&preview.description))?;
    match shown(preview) {
        [] => writeln!(to, "      no coming runs"),
        runs => {
            for run in runs {
                writeln!(to, "      {}", printable(&output.absolute(run)))?;
            }
            Ok(())
        }
    }
}

fn shown(preview: &Preview) -> &[String] {
    preview.runs.get(..RUNS_SHOWN).unwrap_or(&preview.runs)
}

/// The numbers of changes, such as `1 to create, 2 unchanged`.
pub(crate) fn summary(plan: &Plan) -> String {
    let count = |kind| plan.changes.iter().filter(|change| change.kind == kind).count();
    let mut text = format!(
        "{} to create, {} to change, {} to delete, {} unchanged",
        count(ChangeKind::Create),
        count(ChangeKind::Replace),
        count(ChangeKind::Delete),
        plan.unchanged
    );
    if !plan.skipped.is_empty() {
        text += &format!(", {} left alone", plan.skipped.len());
    }
    text
}

/// The plan as JSON.
pub(crate) fn to_json(plan: &Plan) -> Json<'static> {
    let text = |text: &Option<String>| text.clone().map_or(Json::Null, Json::from);
    let schedule = |preview: &Option<Preview>| match preview {
        None => Json::Null,
        Some(preview) => object([
            ("description", preview.description.clone().into()),
            ("state", preview.state.clone().into()),
            ("runs", Json::Array(shown(preview).iter().cloned().map(Json::from).collect())),
        ]),
    };
    let change = |change: &Change| {
        let kind = match change.kind {
            ChangeKind::Create => "Create",
            ChangeKind::Replace => "Replace",
            ChangeKind::Delete => "Delete",
        };
        let members = change.members.iter().map(|member| {
            object([
                ("path", member.path.clone().into()),
                ("before", text(&member.before)),
                ("after", text(&member.after)),
            ])
        });
        object([
            ("job", change.job.to_string().into()),
            ("effect", kind.into()),
            ("members", Json::Array(members.collect())),
            ("before", schedule(&change.before)),
            ("after", schedule(&change.after)),
        ])
    };
    let skipped = plan.skipped.iter().map(|skipped| {
        object([("job", skipped.job.to_string().into()), ("reason", skipped.reason.clone().into())])
    });
    object([
        ("changes", Json::Array(plan.changes.iter().map(change).collect())),
        ("leftAlone", Json::Array(skipped.collect())),
        ("unchanged", (plan.unchanged as u64).into()),
    ])
}
