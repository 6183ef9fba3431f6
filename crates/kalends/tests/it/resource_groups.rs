//! Resource groups: limits and pages.

use serde_json::{Value, json};

use crate::connection::Connection;
use crate::tokens::{STANDARD, SUBSCRIPTION, code, collection, create, guarded, new, request_as};

/// The limit of groups in a subscription.
const GROUPS_MAX: usize = 980;

fn group(name: &str) -> String {
    new(&format!("{SUBSCRIPTION}/resourceGroups/{name}"))
}

fn name(number: usize) -> String {
    format!("g{number:03}")
}

/// The longest tags that are allowed.
fn longest_tags() -> Value {
    let tags = (0..15).map(|number| (format!("{number:0512}"), json!("v".repeat(256))));
    Value::Object(tags.collect())
}

/// The names on each page of a list, following `nextLink`.
fn pages(connection: &mut Connection, token: &str, target: &str) -> Vec<Vec<String>> {
    let (mut target, mut pages) = (target.to_owned(), Vec::new());
    loop {
        let response = request_as(connection, token, "GET", &target, None);
        assert_eq!(response.status, 200, "{response:?}");
        let page: Value = serde_json::from_str(&response.body).unwrap();
        let names = page["value"].as_array().unwrap().iter();
        pages.push(names.map(|group| group["name"].as_str().unwrap().to_owned()).collect());
        let Some(next) = page["nextLink"].as_str() else { return pages };
        target = next[next.find("/subscriptions").unwrap()..].to_owned();
    }
}

#[test]
fn the_groups_of_a_subscription_are_limited_and_listed_in_pages() {
    let (server, owner) = guarded(&[("KALENDS_WRITES_PER_MINUTE", "1000000")]);
    let mut connection = server.connect();
    let body = json!({"location": "West US", "tags": longest_tags()}).to_string();
    for number in 0..GROUPS_MAX {
        let put = request_as(&mut connection, &owner, "PUT", &group(&name(number)), Some(&body));
        assert_eq!(put.status, 201, "{number}: {put:?}");
    }
    let mut put =
        |target: &str, body: &str| request_as(&mut connection, &owner, "PUT", target, Some(body));
    let refused = put(&group("more"), "{}");
    assert_eq!(code(&refused), (409, "QuotaExceeded".into()));
    assert!(refused.body.contains("980"), "{refused:?}");
    let refused = put(&new(&collection("more", "c")), STANDARD);
    assert_eq!(code(&refused), (409, "QuotaExceeded".into()), "groups are created on first use");
    assert_eq!(put(&group(&name(0)), "{}").status, 200, "an existing group");
    assert_eq!(put(&new(&collection(&name(1), "c")), STANDARD).status, 201);
    let other = group("more").replace("6c55a6f0", "00000000");
    assert_eq!(put(&other, "{}").status, 201, "another subscription");

    let all: Vec<_> = (0..GROUPS_MAX).map(name).collect();
    let list = new(&format!("{SUBSCRIPTION}/resourcegroups"));
    for (query, size) in [("", 100), ("&$top=77", 77)] {
        let found = pages(&mut connection, &owner, &format!("{list}{query}"));
        assert!(found.iter().all(|page| page.len() <= size));
        assert_eq!(found.len(), GROUPS_MAX.div_ceil(size));
        assert_eq!(found.concat(), all);
    }
    for bad in ["&$top=0", "&$top=101", "&$skiptoken=AAAA"] {
        let response = request_as(&mut connection, &owner, "GET", &format!("{list}{bad}"), None);
        assert_eq!(code(&response), (400, "InvalidQueryParameter".into()), "{bad}");
    }
    let memory = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let memory = memory.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("");
    println!("{GROUPS_MAX} groups with the longest tags, listed: {memory}");
}

#[test]
fn a_page_has_only_groups_the_caller_may_read() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    for name in ["a", "b", "c"] {
        let put = request_as(&mut connection, &owner, "PUT", &group(name), Some("{}"));
        assert_eq!(put.status, 201);
    }
    let scope = format!("{SUBSCRIPTION}/resourceGroups/B");
    let reader = create(server.folder(), "reader", &scope, &[]);
    let list = format!("{}&$top=1", new(&format!("{SUBSCRIPTION}/resourceGroups")));
    assert_eq!(pages(&mut connection, &reader, &list), [["b"]]);
    assert_eq!(pages(&mut connection, &owner, &list), [["a"], ["b"], ["c"]]);
    let of_collection = create(server.folder(), "reader", &collection("a", "x"), &[]);
    assert_eq!(pages(&mut connection, &of_collection, &list), [[""; 0]]);
}

#[test]
fn tags_of_groups_have_the_limits_of_other_tags() {
    let (server, owner) = guarded(&[]);
    let mut connection = server.connect();
    let mut put = |tags: Value| {
        let body = json!({"location": "West US", "tags": tags}).to_string();
        request_as(&mut connection, &owner, "PUT", &group("g"), Some(&body))
    };
    assert_eq!(put(longest_tags()).status, 201);
    let sixteen: Value = (0..16).map(|number| (number.to_string(), json!(""))).collect();
    for tags in [
        sixteen,
        json!({"n".repeat(513): ""}),
        json!({"n": "v".repeat(257)}),
        json!({"n": 1}),
        json!(["n"]),
    ] {
        assert_eq!(code(&put(tags.clone())), (400, "InvalidTag".into()), "{tags}");
    }
}
