//! Secrets in definitions. The API returns headers and URLs as they were sent; pages never show the
//! secret ones.

use kalends_domain::{SecretHeaders, mask_secret_parameters};
use serde_json::Value;

/// Stands for a stored secret in definitions.
pub(crate) const STORED: &str = "${stored}";

/// The definition with [`STORED`] in place of the values of secret headers and query parameters.
pub(crate) fn without_secrets(mut definition: Value, headers: &SecretHeaders) -> Value {
    mask(&mut definition, headers);
    definition
}

fn mask(value: &mut Value, secret: &SecretHeaders) {
    let Value::Object(members) = value else { return };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("headers", Value::Object(headers)) => {
                for (_, value) in headers.iter_mut().filter(|(name, _)| secret.contains(name)) {
                    *value = STORED.into();
                }
            }
            ("uri", Value::String(uri)) => *uri = mask_secret_parameters(uri, STORED),
            (_, value) => mask(value, secret),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Json as _;

    #[test]
    fn secret_headers_and_parameters_are_masked_in_both_actions() {
        let request = json!({"uri": "https://a/?x=1&sig=canary&Code=canary#y",
            "headers": {"authorization": "canary", "X-Token": "canary", "Accept": "*/*"}});
        let job = json!({"properties": {"action": {"request": request.clone(),
            "errorAction": {"request": request}}}});
        let headers = SecretHeaders::new(["x-token".to_owned()]);
        let masked = without_secrets(job, &headers);
        assert!(!masked.to_string().contains("canary"), "{}", masked.pretty());
        let request = masked.member("properties.action.request");
        assert_eq!(request.text("uri"), "https://a/?x=1&sig=${stored}&Code=${stored}#y");
        assert_eq!(request.text("headers.Accept"), "*/*");
    }
}
