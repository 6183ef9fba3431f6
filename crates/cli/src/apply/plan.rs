//! The changes that make the jobs of a server equal to the definitions of files.
//!
//! A definition that equals the stored one, as far as both can be read, is unchanged. For all others the
//! server decides, in previews: it knows the stored secrets, its limits and its clock.

use std::collections::{BTreeMap, HashMap, HashSet};

use http::Method;
use kalends_domain::{CollectionName, JobName, SecretHeaders};
use kalends_recurrence::Instant;
use kalends_wire::{JobBody, Json, Version, job_with_secrets, read_definition};

use super::member_diff::{MemberChange, compare};
use super::preview::{Preview, Previews};
use crate::api::{Api, Call};
use crate::definitions::{DefinitionSet, FileDefinition, FileError, FileErrors, masked, unlimited};
use crate::error::CliError;
use crate::import;
use crate::json::{JsonMembers as _, member_mut, set};
use crate::output::{Output, Progress};
use crate::resource_name::JobRef;

/// Jobs of a collection up to which each is read by itself, not with the list of the collection.
const SINGLE_READS_MAX: usize = 10;

/// Whether jobs that no file has are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prune {
    Keep,
    Delete,
}

/// All changes, in the order of their files.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) changes: Vec<Change>,
    pub(crate) skipped: Vec<SkippedJob>,
    pub(crate) unchanged: usize,
}

/// A change of one job.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) job: JobRef,
    pub(crate) kind: ChangeKind,
    pub(crate) members: Vec<MemberChange>,
    pub(crate) before: Option<Preview>,
    pub(crate) after: Option<Preview>,
    /// The request body; null for a deletion.
    pub(crate) body: Json<'static>,
    /// The version of the job that the plan was made for.
    pub(crate) etag: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Create,
    Replace,
    Delete,
}

/// A job that is left alone because the change would start a run.
#[derive(Debug)]
pub(crate) struct SkippedJob {
    pub(crate) job: JobRef,
    pub(crate) reason: String,
}

/// The failure of a plan.
pub(crate) enum PlanError {
    /// Problems of definitions, with file and line.
    Definitions(FileErrors),
    Client(CliError),
}

impl From<CliError> for PlanError {
    fn from(error: CliError) -> PlanError {
        PlanError::Client(error)
    }
}

/// A definition that differs from the stored one, or may.
struct Candidate<'d> {
    definition: &'d FileDefinition,
    stored: Option<Json<'static>>,
    body: Json<'static>,
}

/// Compares definitions with the jobs of a server.
pub(crate) fn plan(
    api: &Api,
    output: &Output,
    definitions: &DefinitionSet,
    prune: Prune,
    now: Instant,
) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let mut errors = Vec::new();
    let mut by_collection: BTreeMap<&CollectionName, Vec<&FileDefinition>> = BTreeMap::new();
    for collection in &definitions.collections {
        by_collection.insert(collection, vec![]);
    }
    for definition in &definitions.jobs {
        by_collection.entry(&definition.collection).or_default().push(definition);
    }
    for (collection, definitions) in by_collection {
        let stored = stored_jobs(api, output, collection, &definitions, prune)?;
        let found = CollectionPlan { api, output, collection, now }.compare(
            &definitions,
            stored,
            prune,
            &mut plan,
        );
        match found {
            Err(PlanError::Definitions(found)) => errors.extend(found.0),
            other => other?,
        }
    }
    errors.sort();
    if errors.is_empty() { Ok(plan) } else { Err(PlanError::Definitions(FileErrors(errors))) }
}

type StoredJobs = HashMap<JobName, Json<'static>>;

/// The stored jobs that the plan needs, by name.
fn stored_jobs(
    api: &Api,
    output: &Output,
    collection: &CollectionName,
    definitions: &[&FileDefinition],
    prune: Prune,
) -> Result<StoredJobs, CliError> {
    let name_of = |job: &Json<'static>| {
        let name = job.text("name");
        JobName::new(name.rsplit('/').next().unwrap_or(name)).ok()
    };
    if prune == Prune::Keep && definitions.len() <= SINGLE_READS_MAX {
        let mut jobs = StoredJobs::new();
        for definition in definitions {
            match api.get(&api.job(&job_ref(definition))) {
                Ok(response) => {
                    jobs.insert(definition.job.clone(), response.body);
                }
                Err(CliError::Refused(refusal)) if refusal.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        return Ok(jobs);
    }
    let progress = Progress::spinner(output, "Reading jobs");
    let call = Call::new(Method::GET, format!("{}/jobs", api.collection(collection.as_str())));
    let listed =
        api.list(call, usize::MAX, |jobs| progress.message(format!("Reading jobs: {jobs}")));
    match listed {
        Ok(jobs) => Ok(jobs.into_iter().filter_map(|job| Some((name_of(&job)?, job))).collect()),
        Err(CliError::Refused(refusal)) if refusal.is_not_found() => Ok(StoredJobs::new()),
        Err(error) => Err(error),
    }
}

fn job_ref(definition: &FileDefinition) -> JobRef {
    JobRef { collection: definition.collection.to_string(), job: definition.job.to_string() }
}

struct CollectionPlan<'p> {
    api: &'p Api,
    output: &'p Output,
    collection: &'p CollectionName,
    now: Instant,
}

impl CollectionPlan<'_> {
    fn compare(
        &self,
        definitions: &[&FileDefinition],
        mut stored: StoredJobs,
        prune: Prune,
        plan: &mut Plan,
    ) -> Result<(), PlanError> {
        let mut candidates = Vec::new();
        for definition in definitions {
            let stored = stored.remove(&definition.job);
            let body = match complete(definition, stored.as_ref(), self.now) {
                Ok(body) => body,
                Err(reason) => {
                    let job = job_ref(definition);
                    plan.skipped.push(SkippedJob { job, reason: format!("not created: {reason}") });
                    continue;
                }
            };
            match stored.as_ref().is_some_and(|stored| is_equal(stored, &body)) {
                true => plan.unchanged += 1,
                false => candidates.push(Candidate { definition, stored, body }),
            }
        }
        let mut errors = Vec::new();
        let changes = self.decide(candidates, plan, &mut errors)?;
        if !errors.is_empty() {
            return Err(PlanError::Definitions(FileErrors(errors)));
        }
        plan.changes.extend(changes);
        if prune == Prune::Delete {
            let defined: HashSet<_> =
                definitions.iter().map(|definition| &definition.job).collect();
            let mut extra: Vec<_> =
                stored.into_iter().filter(|(name, _)| !defined.contains(name)).collect();
            extra.sort_by(|(one, _), (other, _)| one.cmp(other));
            plan.changes.extend(self.deletions(extra)?);
        }
        Ok(())
    }

    /// Asks the server for the effect of each definition.
    fn decide(
        &self,
        candidates: Vec<Candidate<'_>>,
        plan: &mut Plan,
        errors: &mut Vec<FileError>,
    ) -> Result<Vec<Change>, CliError> {
        let previews = Previews::new(self.api, self.output, self.collection);
        let bodies = candidates.iter().map(|it| (it.definition.job.as_str(), &it.body)).collect();
        let after = previews.read(bodies)?;
        let mut changes = Vec::new();
        for (candidate, preview) in candidates.into_iter().zip(after) {
            let Candidate { definition, stored, body } = candidate;
            let preview = match preview {
                Ok(preview) => preview,
                Err(problems) => {
                    let located =
                        |(path, message): &(String, String)| definition.error(path, message);
                    errors.extend(problems.iter().map(located));
                    continue;
                }
            };
            let job = job_ref(definition);
            let kind = match preview.effect.as_str() {
                "Nothing" => {
                    plan.unchanged += 1;
                    continue;
                }
                "Create" => ChangeKind::Create,
                _ => ChangeKind::Replace,
            };
            if preview.runs_at_once {
                let left = if kind == ChangeKind::Create { "not created" } else { "not changed" };
                let reason =
                    format!("{left}: it runs once, its time has passed, and it would run at once");
                plan.skipped.push(SkippedJob { job, reason });
                continue;
            }
            let members = stored.as_ref().map(|stored| changed_members(definition, stored, &body));
            let etag = preview.etag.clone();
            let change = Change {
                job,
                kind,
                members: members.unwrap_or_default(),
                before: None,
                after: Some(preview),
                body,
                etag,
            };
            changes.push((change, stored));
        }
        self.add_stored_schedules(changes)
    }

    /// Adds the schedules before the changes, from previews of the stored definitions.
    fn add_stored_schedules(
        &self,
        changes: Vec<(Change, Option<Json<'static>>)>,
    ) -> Result<Vec<Change>, CliError> {
        let (mut changes, stored): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        let bodies: Vec<_> =
            stored.iter().map(|stored| stored.as_ref().map(body_of_stored)).collect();
        let existing = changes.iter_mut().zip(&bodies);
        let existing: Vec<_> =
            existing.filter_map(|(change, body)| Some((change, body.as_ref()?))).collect();
        let previews = Previews::new(self.api, self.output, self.collection);
        let bodies =
            existing.iter().map(|(change, body)| (change.job.job.as_str(), *body)).collect();
        let before = previews.read(bodies)?;
        for ((change, _), preview) in existing.into_iter().zip(before) {
            change.before = preview.ok();
        }
        Ok(changes)
    }

    fn deletions(&self, extra: Vec<(JobName, Json<'static>)>) -> Result<Vec<Change>, CliError> {
        let deletion = |(name, stored): (JobName, Json<'static>)| {
            let collection = self.collection.to_string();
            let change = Change {
                job: JobRef { collection, job: name.to_string() },
                kind: ChangeKind::Delete,
                members: vec![],
                before: None,
                after: None,
                body: Json::Null,
                etag: None,
            };
            (change, Some(stored))
        };
        self.add_stored_schedules(extra.into_iter().map(deletion).collect())
    }
}

/// The request body of a definition: an absent `startTime` or `state` keeps the stored one, and a new
/// recurring job starts with its next match. It is an error if a new job would run at once.
fn complete(
    definition: &FileDefinition,
    stored: Option<&Json<'static>>,
    now: Instant,
) -> Result<Json<'static>, String> {
    let mut body = definition.body.clone();
    let Some(properties) = member_mut(&mut body, "properties") else { return Ok(body) };
    match stored {
        Some(stored) => {
            for member in ["startTime", "state"] {
                let value = stored.at(&format!("properties.{member}"));
                if let (false, Some(value)) = (definition.has(member), value) {
                    set(properties, member, value.clone());
                }
            }
        }
        None => {
            let is_disabled = properties.text("state").eq_ignore_ascii_case("Disabled");
            // Invalid definitions are left to the preview, which names the problem.
            let Ok(parsed) = read_definition(&definition.body, now) else { return Ok(body) };
            match import::start(parsed, properties.clone(), now) {
                Ok((started, _)) => *properties = started,
                Err(_) if is_disabled => {}
                Err(reason) => return Err(reason),
            }
        }
    }
    Ok(body)
}

/// Whether a body surely changes nothing: it has no secret of its own.
fn is_equal(stored: &Json<'static>, body: &Json<'static>) -> bool {
    let read = |body: &Json<'static>| JobBody::read(body, Version::V2026_11_01, &unlimited()).ok();
    match (read(&body_of_stored(stored)), read(body)) {
        (Some(stored), Some(new)) => stored.definition == new.definition,
        _ => false,
    }
}

/// The stored job as a request body that changes nothing.
fn body_of_stored(stored: &Json<'static>) -> Json<'static> {
    Json::Object(vec![("properties".into(), masked(stored, &SecretHeaders::default()))])
}

fn changed_members(
    definition: &FileDefinition,
    stored: &Json<'static>,
    body: &Json<'static>,
) -> Vec<MemberChange> {
    let Ok(new) = JobBody::read(body, Version::V2026_11_01, &unlimited()) else { return vec![] };
    let after = job_with_secrets(&new.definition, Version::V2026_11_01).into_owned();
    let after = masked(&after, &SecretHeaders::default());
    let before = masked(stored, &SecretHeaders::default());
    let mut changes = compare(&before, &after, &definition.written);
    changes.retain(|change| change.path != "state" || definition.has("state"));
    if changes.is_empty() {
        let hidden = Some("(hidden)".to_owned());
        let path = "a secret".to_owned();
        changes.push(MemberChange { path, before: hidden.clone(), after: hidden });
    }
    changes
}
