//! Reading and serialising job collections.

use kalends_domain::{
    Collection, CollectionPath, CollectionState, Limits, Location, MaxRecurrence, Plan, Quota,
};
use kalends_recurrence::Frequency;

use crate::enum_text::{self, EnumText, OldCasing, enum_text};
use crate::error::ErrorDetails;
use crate::error_code::ErrorCode;
use crate::id::{COLLECTION_TYPE, collection_id};
use crate::json::Json;
use crate::node::Node;
use crate::object::{ObjectBuilder, pairs};
use crate::shape;
use crate::tags::read_tags;
use crate::unknown_members::reject_unknown_members;
use crate::version::Version;

const PLANS: &EnumText<Plan> = &[
    ("Free", Plan::Free),
    ("Standard", Plan::Standard),
    ("P10Premium", Plan::P10Premium),
    ("P20Premium", Plan::P20Premium),
];
/// The name of the plan in the two oldest versions.
const PREMIUM: &EnumText<Plan> = &[("Premium", Plan::P10Premium)];
const STATES: &EnumText<CollectionState> = &[
    ("Enabled", CollectionState::Enabled),
    ("Disabled", CollectionState::Disabled),
    ("Suspended", CollectionState::Suspended),
];

/// Reads the body of a PUT. Members that clients send back from an earlier response are ignored.
pub fn read_collection(
    body: &Json<'_>,
    version: Version,
    limits: &Limits,
) -> Result<Collection, ErrorDetails> {
    let mut errors = ErrorDetails::default();
    let root = Node::root(body, &shape::COLLECTION, version);
    reject_unknown_members(root, &mut errors);
    let collection = read(root, version, limits, &mut errors);
    collection.filter(|_| errors.is_empty()).ok_or(errors)
}

/// Keeps the stored plan if the client sent the name that it saw for it: `Premium` in versions that have
/// only that, and `Standard` for the plan without limits.
pub fn keep_plan(stored: &Collection, edited: &mut Collection, version: Version) {
    let is_kept = match stored.plan {
        Plan::P10Premium | Plan::P20Premium => {
            version.has_one_premium() && edited.plan == Plan::P10Premium
        }
        Plan::StandardUnlimited => edited.plan == Plan::Standard,
        Plan::Free | Plan::Standard => false,
    };
    if is_kept {
        edited.plan = stored.plan;
    }
}

fn read(
    root: Node<'_>,
    version: Version,
    limits: &Limits,
    errors: &mut ErrorDetails,
) -> Option<Collection> {
    if !root.is_object(errors) {
        return None;
    }
    let location = read_location(root, errors);
    let tags = root.member("tags").and_then(|node| read_tags(node, limits, errors));
    let Some(properties) = root.member("properties") else {
        root.missing_object("properties", errors);
        return None;
    };
    if !properties.is_object(errors) {
        return None;
    }
    let plan = read_plan(properties, version, errors);
    let state = properties.member("state").map_or(Some(CollectionState::Enabled), |node| {
        node.enum_value(STATES.iter().copied(), errors)
    });
    let quota = properties.member("quota").and_then(|node| read_quota(node, errors));
    Some(Collection { location: location?, tags, plan: plan?, state: state?, quota })
}

fn read_location(root: Node<'_>, errors: &mut ErrorDetails) -> Option<Location> {
    let Some(node) = root.member("location") else {
        let expected = "a collection has a region such as West US";
        root.missing("location", ErrorCode::LocationRequired, expected, errors);
        return None;
    };
    let node = node.with_code(ErrorCode::LocationRequired);
    let location = Location::new(node.text(errors)?);
    location.map_err(|error| node.add_error(&error, errors)).ok()
}

/// The two oldest versions accept `Premium` in addition to the names of the later versions.
fn read_plan(properties: Node<'_>, version: Version, errors: &mut ErrorDetails) -> Option<Plan> {
    let known = PLANS.iter().chain(PREMIUM.iter().filter(|_| version.has_one_premium())).copied();
    let allowed: Vec<_> = known.clone().map(|(word, _)| word).collect();
    let allowed = format!("allowed are {}", allowed.join(", "));
    let Some(sku) = properties.member("sku") else {
        properties.missing_object("sku", errors);
        return None;
    };
    let sku = sku.with_code(ErrorCode::InvalidSku);
    if !sku.is_object(errors) {
        return None;
    }
    let Some(name) = sku.member("name") else {
        sku.missing("name", ErrorCode::MissingRequiredProperty, allowed, errors);
        return None;
    };
    name.enum_value(known, errors)
}

fn read_quota(node: Node<'_>, errors: &mut ErrorDetails) -> Option<Quota> {
    let node = node.with_code(ErrorCode::InvalidQuota);
    if !node.is_object(errors) {
        return None;
    }
    Some(Quota {
        max_job_count: node.member("maxJobCount").and_then(|node| positive(node, errors)),
        max_job_occurrence: node.member("maxJobOccurrence").and_then(|node| node.integer(errors)),
        max_recurrence: node
            .member("maxRecurrence")
            .and_then(|node| read_max_recurrence(node, errors)),
    })
}

fn read_max_recurrence(node: Node<'_>, errors: &mut ErrorDetails) -> Option<MaxRecurrence> {
    if !node.is_object(errors) {
        return None;
    }
    let frequency = match node.member("frequency") {
        Some(node) => node.enum_value(Frequency::ALL.iter().map(|&f| (f.word(), f)), errors),
        None => {
            let allowed = Frequency::ALL.map(Frequency::word).join(", ");
            node.missing(
                "frequency",
                ErrorCode::InvalidQuota,
                format!("allowed are {allowed}"),
                errors,
            );
            None
        }
    };
    let interval = node.member("interval").map_or(Some(1), |node| positive(node, errors));
    Some(MaxRecurrence { frequency: frequency?, interval: interval? })
}

fn positive(node: Node<'_>, errors: &mut ErrorDetails) -> Option<u32> {
    let number = node.integer(errors)?;
    // Clients read signed 32-bit integers.
    let valid = u32::try_from(number).ok().filter(|number| (1..=i32::MAX as u32).contains(number));
    if valid.is_none() {
        node.reject(format!("must be between 1 and {}", i32::MAX), errors);
    }
    valid
}

/// Serialises a collection for a response.
pub fn write_collection<'a>(
    path: &'a CollectionPath,
    collection: &'a Collection,
    version: Version,
) -> Json<'a> {
    let quota = collection.quota.as_ref();
    let quota = quota.filter(|all| all.max_job_count.is_some() || all.max_recurrence.is_some());
    ObjectBuilder::new()
        .put("id", collection_id(path))
        .put("type", COLLECTION_TYPE)
        .put("name", path.collection.as_str())
        .append(write_members(collection, quota.map(|quota| write_quota(quota, version)), version))
        .into()
}

/// Serialises a collection completely, including members that responses omit, as the base of a
/// patch.
pub(crate) fn complete_collection(collection: &Collection, version: Version) -> Json<'_> {
    let quota = collection.quota.as_ref().map(|quota| {
        write_quota(quota, version).put_some("maxJobOccurrence", quota.max_job_occurrence)
    });
    write_members(collection, quota, version).into()
}

fn write_members<'a>(
    collection: &'a Collection,
    quota: Option<ObjectBuilder<'a>>,
    version: Version,
) -> ObjectBuilder<'a> {
    let plan = match collection.plan {
        Plan::P10Premium | Plan::P20Premium if version.has_one_premium() => Json::from("Premium"),
        Plan::StandardUnlimited => Json::from("Standard"),
        plan => enum_text(PLANS, &plan, OldCasing::Pascal, version),
    };
    let properties = ObjectBuilder::new()
        .put("sku", ObjectBuilder::new().put("name", plan))
        .put("state", enum_text(STATES, &collection.state, OldCasing::Pascal, version))
        .put_some("quota", quota);
    ObjectBuilder::new()
        .put("location", collection.location.as_str())
        .put_some("tags", collection.tags.as_deref().map(pairs))
        .put("properties", properties)
}

fn write_quota(quota: &Quota, version: Version) -> ObjectBuilder<'_> {
    let max_recurrence = quota.max_recurrence.map(|max| {
        ObjectBuilder::new()
            .put("frequency", enum_text::frequency(max.frequency, version))
            .put("interval", max.interval)
    });
    ObjectBuilder::new()
        .put_some("maxJobCount", quota.max_job_count)
        .put_some("maxRecurrence", max_recurrence)
}
