//! The search text of a job. It contains no secrets.

use kalends_domain::{JobDefinition, ServiceBusMessage, Target};

use crate::api_store::JobFilter;

/// Target, description and tags of a job in lower case. The name is stored separately.
pub fn search_text(definition: &JobDefinition) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let service_bus = |message: &'_ ServiceBusMessage| {
        [message.namespace.clone(), message.entity.clone()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
    };
    let target = match &definition.action.action.target {
        Target::Http(request) => {
            // The query may contain keys and signatures.
            let uri = request.uri.as_str();
            vec![uri.split_once(['?', '#']).map_or(uri, |(path, _)| path).to_owned()]
        }
        Target::StorageQueue(message) => {
            [message.storage_account.clone(), message.queue_name.clone()]
                .into_iter()
                .flatten()
                .collect()
        }
        Target::ServiceBusQueue(message) | Target::ServiceBusTopic(message) => service_bus(message),
    };
    parts.extend(target.iter().map(String::as_str));
    parts.extend(definition.extensions.description.as_deref());
    let tags = definition.extensions.tags.iter().flatten();
    let tags: Vec<_> = tags.map(|(name, value)| format!("{name}={value}")).collect();
    parts.extend(tags.iter().map(String::as_str));
    parts.join("\n").to_lowercase()
}

/// Whether a job has the tag of a filter, or the filter has none.
pub(crate) fn has_tag(definition: &JobDefinition, filter: &JobFilter) -> bool {
    let Some((name, value)) = &filter.tag else { return true };
    definition.extensions.tags.iter().flatten().any(|(has_name, has_value)| {
        has_name.eq_ignore_ascii_case(name) && value.as_ref().is_none_or(|value| value == has_value)
    })
}
