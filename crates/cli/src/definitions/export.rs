//! The definition of a stored job, as a file has it.

use kalends_domain::{SecretHeaders, is_secret_parameter};
use kalends_wire::Json;

use super::references::escape;
use crate::json::{JsonMembers as _, member_mut, remove, set};

/// Stands for the stored value of a secret.
const STORED: &str = "${stored}";
/// Members of authentication that a response has and a definition does not need.
const CERTIFICATE_MEMBERS: [&str; 4] = [
    "certificateThumbprint",
    "certificateExpiration",
    "certificateExpirationDate",
    "certificateSubjectName",
];

/// The `properties` of a job from a response of the API, as a definition that changes nothing: secrets
/// and masked values are `${stored}`, `state` is left out unless it is `Disabled`.
pub(crate) fn export_form(job: &Json<'static>, secret_headers: &SecretHeaders) -> Json<'static> {
    let mut properties = masked(job, secret_headers);
    let is_disabled = properties.text("state").eq_ignore_ascii_case("Disabled");
    if !is_disabled {
        remove(&mut properties, "state");
    }
    escape_references(&mut properties);
    properties
}

/// The `properties` of a job with `${stored}` in place of secrets and masked values, and without the
/// members that only the service sets.
pub(crate) fn masked(job: &Json<'static>, secret_headers: &SecretHeaders) -> Json<'static> {
    let mut properties = job.at("properties").cloned().unwrap_or(Json::Object(vec![]));
    remove(&mut properties, "status");
    if let Some(action) = member_mut(&mut properties, "action") {
        mask_action(action, secret_headers);
        if let Some(error_action) = member_mut(action, "errorAction") {
            mask_action(error_action, secret_headers);
        }
    }
    properties
}

fn mask_action(action: &mut Json<'static>, secret_headers: &SecretHeaders) {
    if let Some(request) = member_mut(action, "request") {
        if let Some(Json::String(uri)) = member_mut(request, "uri") {
            *uri = mask_uri(uri).into();
        }
        if let Some(Json::Object(headers)) = member_mut(request, "headers") {
            for (_, value) in headers.iter_mut().filter(|(name, _)| secret_headers.contains(name)) {
                *value = STORED.into();
            }
        }
        if let Some(authentication) = member_mut(request, "authentication") {
            for member in CERTIFICATE_MEMBERS {
                remove(authentication, member);
            }
            let kind = authentication.text("type").to_ascii_lowercase();
            let secrets: &[&'static str] = match kind.as_str() {
                "basic" => &["password"],
                "clientcertificate" => &["pfx", "password"],
                "activedirectoryoauth" => &["secret"],
                _ => &[],
            };
            for secret in secrets {
                set(authentication, secret, STORED.into());
            }
        }
    }
    if let Some(message) = member_mut(action, "queueMessage") {
        set(message, "sasToken", STORED.into());
    }
    for message in ["serviceBusQueueMessage", "serviceBusTopicMessage"] {
        let message = member_mut(action, message);
        if let Some(authentication) =
            message.and_then(|message| member_mut(message, "authentication"))
        {
            set(authentication, "sasKey", STORED.into());
        }
    }
}

/// Replaces the values of secret query parameters.
fn mask_uri(uri: &str) -> String {
    let (rest, fragment) = match uri.split_once('#') {
        Some((rest, fragment)) => (rest, format!("#{fragment}")),
        None => (uri, String::new()),
    };
    let Some((base, query)) = rest.split_once('?') else { return uri.to_owned() };
    let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, _)) if is_secret_parameter(name) => format!("{name}={STORED}"),
        _ => parameter.to_owned(),
    });
    format!("{base}?{}{fragment}", parameters.collect::<Vec<_>>().join("&"))
}

fn escape_references(value: &mut Json<'static>) {
    match value {
        Json::String(text) => *text = escape(text).into(),
        Json::Array(entries) => entries.iter_mut().for_each(escape_references),
        Json::Object(members) => {
            members.iter_mut().for_each(|(_, value)| escape_references(value));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_masked_values_become_placeholders() {
        let job = r#"{"id":"/x","name":"c/j","type":"t","properties":{"startTime":"2026-12-01T00:00:00Z","action":{"type":"Https","request":{"uri":"https://x/?a=1&SIG=abc&code=#f","method":"GET","headers":{"authorization":"Bearer x","Accept":"*/*","X-Literal":"${env:HOME}"},"authentication":{"type":"ClientCertificate","certificateThumbprint":"AB"}},"errorAction":{"type":"StorageQueue","queueMessage":{"storageAccount":"acc","queueName":"q","message":"m"}}},"state":"Enabled","status":{"executionCount":1}}}"#;
        let job = Json::parse(job.as_bytes()).unwrap().into_owned();
        let exported = export_form(&job, &SecretHeaders::default());
        assert_eq!(
            exported.to_string(),
            r#"{"startTime":"2026-12-01T00:00:00Z","action":{"type":"Https","request":{"uri":"https://x/?a=1&SIG=${stored}&code=${stored}#f","method":"GET","headers":{"authorization":"${stored}","Accept":"*/*","X-Literal":"$${env:HOME}"},"authentication":{"type":"ClientCertificate","pfx":"${stored}","password":"${stored}"}},"errorAction":{"type":"StorageQueue","queueMessage":{"storageAccount":"acc","queueName":"q","message":"m","sasToken":"${stored}"}}}}"#
        );
    }

    #[test]
    fn the_state_is_exported_only_if_it_is_disabled() {
        let exported = |state: &str| {
            let job = format!("{{\"properties\":{{\"state\":\"{state}\"}}}}");
            let job = Json::parse(job.as_bytes()).unwrap().into_owned();
            export_form(&job, &SecretHeaders::default()).to_string()
        };
        assert_eq!(exported("Disabled"), r#"{"state":"Disabled"}"#);
        for state in ["Enabled", "Completed", "Faulted"] {
            assert_eq!(exported(state), "{}", "{state}");
        }
    }
}
