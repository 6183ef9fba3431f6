//! The stored form of collections.

use kalends_domain::{Collection, CollectionState, Location, MaxRecurrence, Plan, Quota};
use kalends_recurrence::Frequency;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::stored_form::damaged;

#[derive(Serialize, Deserialize)]
struct CollectionForm {
    location: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Vec<(String, String)>>,
    plan: PlanForm,
    state: StateForm,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<QuotaForm>,
}

#[derive(Serialize, Deserialize)]
enum PlanForm {
    Free,
    Standard,
    P10Premium,
    P20Premium,
    StandardUnlimited,
}

#[derive(Serialize, Deserialize)]
enum StateForm {
    Enabled,
    Disabled,
    Suspended,
}

#[derive(Serialize, Deserialize)]
struct QuotaForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrences: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recurrence: Option<(String, u32)>,
}

/// Encodes a collection.
pub fn write_collection(collection: &Collection) -> Result<String, StoreError> {
    let quota = |quota: &Quota| QuotaForm {
        jobs: quota.max_job_count,
        occurrences: quota.max_job_occurrence,
        recurrence: quota.max_recurrence.map(|max| (max.frequency.word().to_owned(), max.interval)),
    };
    let form = CollectionForm {
        location: collection.location.as_str().to_owned(),
        tags: collection.tags.clone(),
        plan: match collection.plan {
            Plan::Free => PlanForm::Free,
            Plan::Standard => PlanForm::Standard,
            Plan::P10Premium => PlanForm::P10Premium,
            Plan::P20Premium => PlanForm::P20Premium,
            Plan::StandardUnlimited => PlanForm::StandardUnlimited,
        },
        state: match collection.state {
            CollectionState::Enabled => StateForm::Enabled,
            CollectionState::Disabled => StateForm::Disabled,
            CollectionState::Suspended => StateForm::Suspended,
        },
        quota: collection.quota.as_ref().map(quota),
    };
    serde_json::to_string(&form).map_err(damaged)
}

/// Decodes a collection.
pub fn read_collection(text: &str) -> Result<Collection, StoreError> {
    let form: CollectionForm = serde_json::from_str(text).map_err(damaged)?;
    Ok(Collection {
        location: Location::restore(form.location),
        tags: form.tags,
        plan: match form.plan {
            PlanForm::Free => Plan::Free,
            PlanForm::Standard => Plan::Standard,
            PlanForm::P10Premium => Plan::P10Premium,
            PlanForm::P20Premium => Plan::P20Premium,
            PlanForm::StandardUnlimited => Plan::StandardUnlimited,
        },
        state: match form.state {
            StateForm::Enabled => CollectionState::Enabled,
            StateForm::Disabled => CollectionState::Disabled,
            StateForm::Suspended => CollectionState::Suspended,
        },
        quota: form.quota.map(read_quota).transpose()?,
    })
}

fn read_quota(form: QuotaForm) -> Result<Quota, StoreError> {
    let max_recurrence = |(word, interval): (String, u32)| {
        let frequency = Frequency::ALL.into_iter().find(|frequency| frequency.word() == word);
        let frequency = frequency.ok_or_else(|| damaged("an unknown frequency"))?;
        Ok::<_, StoreError>(MaxRecurrence { frequency, interval })
    };
    Ok(Quota {
        max_job_count: form.jobs,
        max_job_occurrence: form.occurrences,
        max_recurrence: form.recurrence.map(max_recurrence).transpose()?,
    })
}
