//! `kalends schema`: `clients/openapi/definitions.py` compares it with the server; here, its structure.

use std::process::Command;

use serde_json::Value;

use crate::job_reference::examples;

fn schema() -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_kalends")).arg("schema").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Follows the reference of a schema.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        None => schema,
        Some(reference) => root.pointer(reference.strip_prefix('#').unwrap()).expect(reference),
    }
}

/// Calls `visit` with every object of the schema that has members, and the members.
fn visit_objects(schema: &Value, visit: &mut impl FnMut(&Value, &serde_json::Map<String, Value>)) {
    if let Some(Value::Object(members)) = schema.get("properties") {
        visit(schema, members);
    }
    match schema {
        Value::Object(members) => {
            // Conditions name members and describe none.
            for (name, below) in members.iter().filter(|(name, _)| *name != "if") {
                match below {
                    Value::Object(members) if name == "properties" => {
                        members.values().for_each(|member| visit_objects(member, visit));
                    }
                    below => visit_objects(below, visit),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|below| visit_objects(below, visit)),
        _ => {}
    }
}

/// Asserts that the schema has every member of a definition, at any depth.
fn assert_known(root: &Value, schema: &Value, definition: &Value, name: &str) {
    let schema = resolve(root, schema);
    let list = |schema: &Value| schema["anyOf"][0]["items"].clone();
    match definition {
        Value::Object(members) => {
            for (member, value) in members {
                let known = match &schema["properties"][member] {
                    Value::Null => &schema["additionalProperties"],
                    known => known,
                };
                assert!(known.is_object(), "{name}: {member}");
                assert_known(root, known, value, name);
            }
        }
        Value::Array(values) => {
            values.iter().for_each(|value| assert_known(root, &list(schema), value, name));
        }
        _ => {}
    }
}

#[test]
fn the_schema_has_every_member_of_the_documented_jobs() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for (name, body) in examples() {
        let definition = serde_json::from_str(body).unwrap();
        assert_known(&schema, &schema["else"], &definition, name);
    }
}

#[test]
fn the_schema_describes_every_member_that_a_definition_can_set_and_refuses_others() {
    let schema = schema();
    let mut described = 0;
    visit_objects(&schema["$defs"], &mut |object, members| {
        assert!(!object["additionalProperties"].is_null(), "{object}");
        for (name, member) in members {
            let target = resolve(&schema, member);
            let is_described =
                member["description"].is_string() || target["description"].is_string();
            assert!(is_described || member["readOnly"] == true || is_read_only(name), "{name}");
            described += usize::from(is_described);
        }
    });
    assert!(described > 80, "{described}");
}

/// Members of `status`, which the server writes.
fn is_read_only(name: &str) -> bool {
    ["executionCount", "failureCount", "faultedCount"].contains(&name)
}
