//! The command of the client that creates a job with the same definition.

use serde_json::Value;

use crate::address::JobAddress;
use crate::api::Json as _;
use crate::secrets::STORED;
use crate::shell::quoted;

/// Members of a definition whose values the API never returns.
const SECRET_MEMBERS: [&str; 4] =
    ["authentication", "queueMessage", "serviceBusQueueMessage", "serviceBusTopicMessage"];

/// `kalends job create` with flags, or with the definition on standard input if flags cannot express
/// all of it. `properties` are those of the job without its status.
pub(super) fn create_command(address: &JobAddress, properties: &Value) -> String {
    let name = quoted(&format!("{}/{}", address.collection.collection, address.job));
    let start = format!("kalends job create {name}");
    match flags(properties) {
        Some(flags) => flags.iter().fold(start, |line, (flag, value)| match value.is_empty() {
            true => format!("{line} \\\n  {flag}"),
            false => format!("{line} \\\n  {flag} {}", quoted(value)),
        }),
        None => format!("{start} -f - <<'JSON'\n{}\nJSON", definition(properties).pretty()),
    }
}

/// Whether the API left out secrets that the definition needs.
pub(super) fn leaves_out_secrets(properties: &Value) -> bool {
    fn finds(value: &Value) -> bool {
        match value {
            Value::Object(members) => members
                .iter()
                .any(|(name, value)| SECRET_MEMBERS.contains(&name.as_str()) || finds(value)),
            Value::Array(values) => values.iter().any(finds),
            Value::String(text) => text.contains(STORED),
            _ => false,
        }
    }
    finds(properties)
}

/// The definition without the state of a finished job, which nobody can send.
fn definition(properties: &Value) -> Value {
    let mut definition = properties.clone();
    if let Some(members) = definition.as_object_mut() {
        let is_disabled = members.get("state").is_some_and(|state| state == "Disabled");
        if !is_disabled {
            members.remove("state");
        }
    }
    definition
}

/// The flags of a definition; `None` if a member has no flag.
fn flags(properties: &Value) -> Option<Vec<(&'static str, String)>> {
    let mut rest = definition(properties);
    let mut take = |path: &str| remove(&mut rest, path).unwrap_or_default();
    let mut flags: Vec<(&'static str, String)> = Vec::new();
    let mut recurrence = |take: &mut dyn FnMut(&str) -> Value| {
        let (cron, frequency) = (take("recurrence.cron").text(""), take("recurrence.frequency"));
        let interval = take("recurrence.interval").text("");
        if !cron.is_empty() {
            flags.push(("--cron", cron));
        } else if !frequency.text("").is_empty() {
            let unit = match frequency.text("").to_ascii_lowercase().as_str() {
                "minute" => "min",
                "hour" => "h",
                "day" => "d",
                "week" => "w",
                "month" => "month",
                "year" => "year",
                _ => return None,
            };
            let number = if interval.is_empty() { "1".to_owned() } else { interval };
            flags.push(("--every", format!("{number}{unit}")));
        }
        for (flag, member) in [
            ("--zone", "recurrence.timeZone"),
            ("--count", "recurrence.count"),
            ("--end", "recurrence.endTime"),
            ("--start", "startTime"),
        ] {
            let value = take(member).text("");
            if !value.is_empty() {
                flags.push((flag, value));
            }
        }
        Some(())
    };
    recurrence(&mut take)?;
    flags.extend(request_flags(&mut take)?);
    flags.extend(retry_flag(&take("action.retryPolicy"))?);
    let error_action = take("action.errorAction");
    if error_action.has("request") {
        flags.push(("--on-failure", error_action_url(error_action)?));
    }
    for (flag, member) in
        [("--timeout", "timeout"), ("--jitter", "jitter"), ("--description", "description")]
    {
        let value = take(member).text("");
        if !value.is_empty() {
            flags.push((flag, value));
        }
    }
    match take("overlap").text("").as_str() {
        "" => {}
        "QueueOne" => flags.push(("--overlap", "queue-one".to_owned())),
        other => flags.push(("--overlap", other.to_ascii_lowercase())),
    }
    for (name, value) in take("tags").members("") {
        flags.push(("--tag", format!("{name}={}", value.text(""))));
    }
    if take("state").text("") == "Disabled" {
        flags.push(("--disabled", String::new()));
    }
    is_empty(&rest).then_some(flags)
}

fn request_flags(take: &mut dyn FnMut(&str) -> Value) -> Option<Vec<(&'static str, String)>> {
    let url = take("action.request.uri").text("");
    let kind = take("action.type").text("");
    // The client chooses the type by the URL.
    let expected = if url.get(..6)?.eq_ignore_ascii_case("https:") { "Https" } else { "Http" };
    if !kind.eq_ignore_ascii_case(expected) {
        return None;
    }
    let flag = match take("action.request.method").text("").to_ascii_uppercase().as_str() {
        "GET" => "--get",
        "POST" => "--post",
        "PUT" => "--put",
        "DELETE" => "--delete",
        _ => return None,
    };
    let mut flags = vec![(flag, url)];
    for (name, value) in take("action.request.headers").members("") {
        flags.push(("--header", format!("{name}: {}", value.text(""))));
    }
    let body = take("action.request.body").text("");
    // `@` would name a file.
    match body.chars().next() {
        None => {}
        Some('@') => return None,
        Some(_) => flags.push(("--body", body)),
    }
    Some(flags)
}

fn retry_flag(policy: &Value) -> Option<Option<(&'static str, String)>> {
    let kind = policy.text("retryType");
    let has = |name: &str| policy.has(name);
    match kind.as_str() {
        "" => Some(None),
        "None" => Some(Some(("--retry", "none".to_owned()))),
        "Fixed" if !has("maxInterval") && !has("maxAge") => {
            let count = if has("retryCount") { policy.text("retryCount") } else { "4".into() };
            let interval =
                if has("retryInterval") { policy.text("retryInterval") } else { "PT30S".into() };
            Some(Some(("--retry", format!("{count}x{interval}"))))
        }
        _ => None,
    }
}

/// The URL of an error action that is a POST request without anything else.
fn error_action_url(action: Value) -> Option<String> {
    let mut rest = action;
    let url = remove(&mut rest, "request.uri")?.text("");
    let method = remove(&mut rest, "request.method")?.text("");
    let kind = remove(&mut rest, "type")?.text("");
    let expected = if url.get(..6)?.eq_ignore_ascii_case("https:") { "Https" } else { "Http" };
    let is_plain = method.eq_ignore_ascii_case("POST")
        && kind.eq_ignore_ascii_case(expected)
        && is_empty(&rest);
    is_plain.then_some(url)
}

/// Removes a member.
fn remove(value: &mut Value, path: &str) -> Option<Value> {
    match path.split_once('.') {
        Some((name, rest)) => remove(value.get_mut(name)?, rest),
        None => value.as_object_mut()?.remove(path),
    }
}

/// Whether a value has no members but empty objects.
fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(|members| members.values().all(is_empty))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::address::CollectionAddress;

    fn command(properties: Value) -> String {
        let collection = CollectionAddress { group: None, collection: "billing".to_owned() };
        let address = JobAddress { collection, job: "export".to_owned() };
        create_command(&address, &properties)
    }

    #[test]
    fn a_simple_definition_is_written_as_flags() {
        let request = json!({"uri": "https://a.example/x?y=1", "method": "POST",
            "headers": {"Content-Type": "text/plain"}, "body": "it's"});
        let policy = json!({"retryType": "Fixed", "retryCount": 2, "retryInterval": "PT1M"});
        let properties = json!({
            "action": {"type": "Https", "request": request, "retryPolicy": policy,
                "errorAction": {"type": "Https", "request": {"uri": "https://a.example/e", "method": "POST"}}},
            "recurrence": {"cron": "30 2 * * *", "timeZone": "Europe/Berlin"},
            "tags": {"team": "a b"}, "state": "Disabled",
        });
        let expected = "kalends job create billing/export \\\n  --cron '30 2 * * *' \\\n  \
            --zone Europe/Berlin \\\n  --post 'https://a.example/x?y=1' \\\n  \
            --header 'Content-Type: text/plain' \\\n  --body 'it'\\''s' \\\n  --retry 2xPT1M \\\n  \
            --on-failure https://a.example/e \\\n  --tag 'team=a b' \\\n  --disabled";
        assert_eq!(command(properties), expected);
    }

    #[test]
    fn a_definition_that_has_no_flags_is_sent_as_json() {
        let request = json!({"uri": "http://a.example/", "method": "GET"});
        let schedule = json!({"frequency": "Day", "interval": 1, "schedule": {"hours": [2]}});
        let properties = json!({"action": {"type": "Http", "request": request},
            "recurrence": schedule, "state": "Completed"});
        let text = command(properties);
        assert!(text.starts_with("kalends job create billing/export -f - <<'JSON'\n{"), "{text}");
        assert!(text.ends_with("}\nJSON") && !text.contains("Completed"), "{text}");
    }

    #[test]
    fn secrets_that_the_api_leaves_out_are_noticed() {
        let with = |request: Value| json!({"action": {"request": request}});
        assert!(!leaves_out_secrets(&with(json!({"uri": "http://a/"}))));
        assert!(leaves_out_secrets(&with(json!({"authentication": {"type": "Basic"}}))));
        assert!(leaves_out_secrets(&with(json!({"headers": {"Cookie": STORED}}))));
    }
}
