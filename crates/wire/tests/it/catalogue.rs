//! The rows of the catalogue of bad input (`../data/bad-input.jsonl`) and their request bodies.
//!
//! A row has an `id`, the members to `set` or `remove` (or a complete `body`), and the expected
//! `status`, `code` and `target`. `old` or `new` names the version that accepts a body which the other
//! rejects. `left` gives the reason why other tests cover the row. `$repeat`, `$list`, `$members` and
//! `$name` stand for long values.

pub(crate) use serde_json::{Value, json};

pub(crate) fn rows() -> Vec<Value> {
    let text = include_str!("../data/bad-input.jsonl");
    text.lines().map(|line| parse(line).expect(line)).collect()
}

/// Parses JSON.
pub(crate) fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

pub(crate) fn valid_job() -> Value {
    json!({"properties": {
        "startTime": "2030-01-01T00:00:00Z",
        "action": {"type": "Http", "request": {"uri": "http://example.com/x", "method": "GET"}},
        "recurrence": {"frequency": "Day", "interval": 1},
        "state": "Enabled",
    }})
}

pub(crate) fn valid_collection() -> Value {
    json!({"location": "West US", "properties": {"sku": {"name": "Standard"}}})
}

/// Expands placeholders of long values.
fn expanded(value: &Value) -> Value {
    let Value::Object(members) = value else {
        return match value {
            Value::Array(values) => values.iter().map(expanded).collect(),
            other => other.clone(),
        };
    };
    let count = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    match members.iter().next().map(|(name, value)| (name.as_str(), value)) {
        Some(("$repeat", Value::Array(parts))) => {
            let [before @ .., text, times] = parts.as_slice() else { panic!("{value}") };
            let before: String = before.iter().map(|part| part.as_str().unwrap()).collect();
            format!("{before}{}", text.as_str().unwrap().repeat(count(times))).into()
        }
        Some(("$list", Value::Array(parts))) => vec![parts[0].clone(); count(&parts[1])].into(),
        Some(("$members", times)) => {
            (0..count(times)).map(|number| (format!("m{number}"), Value::from("x"))).collect()
        }
        Some(("$name", times)) => json!({"n".repeat(count(times)): "x"}),
        _ => members.iter().map(|(name, value)| (name.clone(), expanded(value))).collect(),
    }
}

/// Sets the value at a path such as `properties.action.type`, or removes it.
fn edit(body: &mut Value, path: &str, value: Option<&Value>) {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = parent.split('.').filter(|part| !part.is_empty()).fold(body, |body, part| {
        body.as_object_mut().unwrap().entry(part).or_insert_with(|| json!({}))
    });
    let parent = parent.as_object_mut().unwrap();
    match value {
        Some(value) => parent.insert(name.to_owned(), expanded(value)),
        None => parent.remove(name),
    };
}

/// Builds the request body of a row.
pub(crate) fn body(row: &Value, valid: Value) -> Vec<u8> {
    if let Some(text) = row["body"].as_str() {
        return text.into();
    }
    if let Some(parts) = row["repeat_body"].as_array() {
        let times = usize::try_from(parts[1].as_u64().unwrap()).unwrap();
        return parts[0].as_str().unwrap().repeat(times).into();
    }
    if let Some(digits) = row["body_hex"].as_str() {
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        return pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    }
    let mut body = valid;
    for (path, value) in row["set"].as_object().into_iter().flatten() {
        edit(&mut body, path, Some(value));
    }
    for path in row["remove"].as_array().into_iter().flatten() {
        edit(&mut body, path.as_str().unwrap(), None);
    }
    body.to_string().into()
}
