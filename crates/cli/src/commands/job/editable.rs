//! A definition from the API in a form that can be edited and sent back.

use kalends_wire::Json;

use crate::json::{JsonMembers as _, member_mut, object, remove, set};

/// The value that stands for a stored secret.
const STORED: &str = "${stored}";

/// The definition without members that only the server sets, and with `"${stored}"` for secrets, which
/// responses leave out.
pub(crate) fn editable_definition(job: &Json<'static>) -> Json<'static> {
    let mut properties = job.at("properties").cloned().unwrap_or(Json::Null);
    remove(&mut properties, "status");
    // A final state is set by the server.
    if matches!(properties.text("state"), "Completed" | "Faulted") {
        remove(&mut properties, "state");
    }
    if let Some(action) = member_mut(&mut properties, "action") {
        name_secrets(action);
        if let Some(error_action) = member_mut(action, "errorAction") {
            name_secrets(error_action);
        }
    }
    object([("properties", properties)])
}

/// Adds the secrets that an action has.
fn name_secrets(action: &mut Json<'static>) {
    let payloads = ["request", "queueMessage", "serviceBusQueueMessage", "serviceBusTopicMessage"];
    for payload in payloads {
        let Some(payload_value) = member_mut(action, payload) else { continue };
        if payload == "queueMessage" {
            set(payload_value, "sasToken", STORED.into());
        }
        let Some(authentication) = member_mut(payload_value, "authentication") else { continue };
        let read_only = [
            "certificateThumbprint",
            "certificateExpiration",
            "certificateExpirationDate",
            "certificateSubjectName",
        ];
        for name in read_only {
            remove(authentication, name);
        }
        let secrets: &[&'static str] = match authentication.text("type") {
            "Basic" => &["password"],
            "ClientCertificate" => &["pfx", "password"],
            "ActiveDirectoryOAuth" => &["secret"],
            "SharedAccessKey" => &["sasKey"],
            _ => &[],
        };
        for secret in secrets {
            set(authentication, secret, STORED.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_named_and_read_only_members_are_left_out() {
        let job = r#"{"id":"/x","name":"web/a","type":"t","properties":{"state":"Completed","action":{
            "type":"Https","request":{"uri":"https://x","authentication":{"type":"ClientCertificate",
            "certificateThumbprint":"1"}},"errorAction":{"type":"StorageQueue","queueMessage":{"queueName":"q"}}},
            "status":{"executionCount":1}}}"#;
        let job = serde_json::from_str::<Json<'_>>(job).unwrap().into_owned();
        let expected = r#"{"properties":{"action":{"type":"Https","request":{"uri":"https://x","authentication":{"type":"ClientCertificate","pfx":"${stored}","password":"${stored}"}},"errorAction":{"type":"StorageQueue","queueMessage":{"queueName":"q","sasToken":"${stored}"}}}}}"#;
        assert_eq!(editable_definition(&job).to_string(), expected);
    }
}
