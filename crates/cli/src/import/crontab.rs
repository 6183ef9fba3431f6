//! Crontab files of users and of the system.

use super::names::DEFAULT_COLLECTION;
use super::unix_cron::{self, Dialect};
use super::{Candidate, Import, ImportOptions, call};
use crate::json::{object, set};

/// The form of a crontab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrontabForm {
    /// Five fields and a command.
    User,
    /// Five fields, the name of a user and a command, as in `/etc/crontab` and `/etc/cron.d`.
    System,
}

/// Variables of the lines above an entry.
#[derive(Default)]
struct Variables {
    /// `CRON_TZ`.
    time_zone: Option<String>,
    /// `RANDOM_DELAY`, in minutes.
    delay: Option<u64>,
    /// Names of variables that only the command would see.
    others: Vec<String>,
}

/// Converts the entries of a crontab.
pub(crate) fn import(
    file: &str,
    text: &str,
    form: CrontabForm,
    options: &ImportOptions,
    import: &mut Import,
) {
    let mut variables = Variables::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match variable(line) {
            Some((name, value)) => variables.set(name, value),
            None => {
                let source = format!("{file}:{}", number + 1);
                entry(&source, line, form, &variables, options, import);
            }
        }
    }
}

impl Variables {
    fn set(&mut self, name: &str, value: &str) {
        match name {
            "CRON_TZ" => self.time_zone = Some(value.to_owned()),
            "RANDOM_DELAY" => self.delay = value.parse().ok().filter(|minutes| *minutes > 0),
            other if self.others.iter().any(|known| known == other) => {}
            other => self.others.push(other.to_owned()),
        }
    }
}

/// The name and the value of a line such as `CRON_TZ="Europe/Berlin"`.
fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end().trim_matches(['"', '\'']);
    let is_name = !name.is_empty()
        && name.chars().all(|any| any.is_ascii_alphanumeric() || any == '_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    is_name.then(|| (name, value.trim().trim_matches(['"', '\''])))
}

fn entry(
    source: &str,
    line: &str,
    form: CrontabForm,
    variables: &Variables,
    options: &ImportOptions,
    import: &mut Import,
) {
    let schedule_fields = if line.starts_with('@') { 1 } else { 5 };
    let Some((schedule, rest)) = split_fields(line, schedule_fields) else {
        return import.refuse(source, line, "the line is neither an entry nor a variable");
    };
    let command = match form {
        CrontabForm::User => Some(rest),
        CrontabForm::System => split_fields(rest, 1).map(|(_, command)| command),
    };
    let Some(command) = command.filter(|command| !command.is_empty()) else {
        return import.refuse(source, line, "the entry has no command");
    };
    let name = name_of(command);
    if schedule.eq_ignore_ascii_case("@reboot") {
        let reason = "@reboot runs when the machine starts; Kalends has no such event";
        return import.refuse(source, &name, reason);
    }
    let zone = variables.time_zone.as_deref().or(options.time_zone.as_deref());
    let converted =
        unix_cron::convert(&schedule, zone.unwrap_or("UTC"), Dialect::Crontab, options.now);
    let converted = match converted {
        Ok(converted) => converted,
        Err(reason) => return import.refuse(source, &name, reason),
    };
    let Some(template) = &options.url_template else {
        let reason = "the entry runs a command; give the URL that runs it with --url-template";
        return import.refuse(source, &name, reason);
    };
    let mut notes = converted.notes;
    if zone.is_none() {
        notes.push(
            "The crontab names no time zone: UTC is assumed; set another one with --time-zone"
                .to_owned(),
        );
    }
    if !variables.others.is_empty() {
        notes.push(format!(
            "Variables of the crontab are not carried over: {}",
            variables.others.join(", ")
        ));
    }
    if let (CrontabForm::System, Some((user, _))) = (form, split_fields(rest, 1)) {
        notes.push(format!("The user of the entry is not carried over: {user}"));
    }
    let mut action = call(&template.url(&name, command), None);
    // Cron neither repeats a failed command nor prevents that two run at the same time.
    set(&mut action, "retryPolicy", object([("retryType", "None".into())]));
    let mut properties = object([
        ("description", command.chars().take(1_024).collect::<String>().into()),
        ("action", action),
        ("recurrence", converted.recurrence),
        ("missedRuns", object([("policy", "Skip".into())])),
        ("overlap", "Allow".into()),
    ]);
    if let Some(minutes) = variables.delay {
        set(&mut properties, "jitter", format!("PT{minutes}M").into());
    }
    let candidate = Candidate {
        collection: DEFAULT_COLLECTION.to_owned(),
        name,
        source: source.to_owned(),
        properties,
        source_runs: converted.source_runs,
        notes,
    };
    import.add(candidate, options);
}

/// The first fields of a line, joined with single blanks, and the rest.
fn split_fields(line: &str, number: usize) -> Option<(String, &str)> {
    let mut rest = line;
    let mut fields = Vec::new();
    for _ in 0..number {
        let end = rest.find([' ', '\t'])?;
        let (field, after) = rest.split_at(end);
        fields.push(field);
        rest = after.trim_start();
    }
    Some((fields.join(" "), rest))
}

/// A name from the program of a command: `/usr/bin/backup.sh --all` becomes `backup`.
fn name_of(command: &str) -> String {
    let is_assignment = |word: &&str| variable(word).is_some();
    let mut words = command.split_ascii_whitespace().skip_while(is_assignment);
    let program = words.next().unwrap_or("job");
    let name = program.rsplit('/').next().unwrap_or(program);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let stem = stem.trim_matches(|any: char| !any.is_ascii_alphanumeric());
    if stem.is_empty() { "job".to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonMembers as _;

    fn options(template: Option<&str>) -> ImportOptions {
        ImportOptions {
            now: "2026-11-16T10:00:00Z".parse().unwrap(),
            url_template: template.map(|template| template.parse().unwrap()),
            collection: None,
            time_zone: None,
        }
    }

    #[test]
    fn entries_become_jobs_with_their_time_zone() {
        let text = "MAILTO=ops@example.com\nCRON_TZ = \"Europe/Berlin\"\n# nightly\n30 2 * * 1-5  root  /usr/bin/backup.sh --all\nCRON_TZ=UTC\n@hourly root X=1 sync\n*/5 * * * * root sync\n";
        let mut found = Import::default();
        let options = options(Some("https://run.example.com/{name}?c={command}"));
        import("crontab", text, CrontabForm::System, &options, &mut found);
        assert_eq!(found.not_carried_over, []);
        let jobs: Vec<_> =
            found.jobs.iter().map(|job| (job.job.as_str(), job.source.as_str())).collect();
        assert_eq!(jobs, [("backup", "crontab:4"), ("sync", "crontab:6"), ("sync-2", "crontab:7")]);
        let backup = &found.jobs[0];
        assert_eq!(backup.properties.text("recurrence.cron"), "30 2 * * 1-5");
        assert_eq!(backup.properties.text("recurrence.timeZone"), "Europe/Berlin");
        assert_eq!(
            backup.properties.text("action.request.uri"),
            "https://run.example.com/backup?c=%2Fusr%2Fbin%2Fbackup.sh%20--all"
        );
        assert_eq!(backup.properties.text("missedRuns.policy"), "Skip");
        assert!(backup.is_equal(), "{:?} {:?}", backup.source_runs, backup.runs);
        assert!(backup.notes.iter().any(|note| note.contains("MAILTO")), "{:?}", backup.notes);
        assert!(found.jobs.iter().all(ImportedJobCheck::has_ten_equal_runs));
    }

    trait ImportedJobCheck {
        fn has_ten_equal_runs(&self) -> bool;
    }

    impl ImportedJobCheck for super::super::ImportedJob {
        fn has_ten_equal_runs(&self) -> bool {
            self.is_equal() && self.runs.len() == 10
        }
    }

    #[test]
    fn entries_without_an_equivalent_are_listed_with_the_reason() {
        let mut found = Import::default();
        let text = "@reboot /usr/bin/start\n0 2 * * * backup\n0 2 * backup\n61 * * * * backup x\n";
        import("c", text, CrontabForm::User, &options(None), &mut found);
        let reasons: Vec<_> = found
            .not_carried_over
            .iter()
            .map(|entry| (entry.source.as_str(), entry.reason.as_str()))
            .collect();
        assert_eq!(
            reasons[0],
            ("c:1", "@reboot runs when the machine starts; Kalends has no such event")
        );
        assert_eq!(
            reasons[1],
            ("c:2", "the entry runs a command; give the URL that runs it with --url-template")
        );
        assert_eq!(reasons[2], ("c:3", "the line is neither an entry nor a variable"));
        assert!(reasons[3].1.starts_with("the minute must have values from 0 to 59"));
        assert!(found.jobs.is_empty());
    }
}
