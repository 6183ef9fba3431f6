//! Licences, versions and sources of all dependencies, as Cargo reports them for the lock file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const LICENCES: [&str; 7] =
    ["Apache-2.0", "MIT", "Unicode-3.0", "Unlicense", "Zlib", "BSD-3-Clause", "ISC"];

/// Versions beside a newer one that a dependency has not upgraded from.
const OLD_VERSIONS: [(&str, &str, &str); 5] = [
    ("syn", "v2.", "der 0.8, build time only"),
    ("fallible-iterator", "v0.2.", "tokio-postgres 0.7"),
    ("getrandom", "v0.2.", "ring 0.17"),
    ("wasi", "v0.11.", "ring 0.17, on WASI only"),
    ("windows-sys", "v0.52.", "ring 0.17, on Windows only"),
];

/// rustls with ring is the only TLS stack.
const FORBIDDEN: [&str; 3] = ["openssl-sys", "native-tls", "aws-lc-rs"];

/// Runs Cargo in the workspace, with all features, and returns its output.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--all-features"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Descriptions of all packages.
fn packages() -> Vec<Value> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version", "1"])).unwrap();
    list(&metadata, "packages").to_vec()
}

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value[member].as_array().unwrap()
}

fn text<'a>(package: &'a Value, member: &str) -> &'a str {
    package[member].as_str().unwrap_or_default()
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let packages = packages();
    assert!(packages.len() > 200, "{}", packages.len());
    for package in &packages {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        assert!(is_allowed(licence), "{name} has the licence {licence:?}");
    }
}

/// Whether an SPDX expression can be fulfilled with allowed licences. Old packages write `/` for `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_is_allowed(&mut rest) && rest.is_empty()
}

/// Reads `A OR B …`.
fn any_is_allowed(words: &mut &[&str]) -> bool {
    let mut is_allowed = all_are_allowed(words);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        is_allowed |= all_are_allowed(words);
    }
    is_allowed
}

/// Reads `A AND B …`; `AND` binds tighter than `OR`.
fn all_are_allowed(words: &mut &[&str]) -> bool {
    let mut is_allowed = one_is_allowed(words);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        is_allowed &= one_is_allowed(words);
    }
    is_allowed
}

/// Reads a licence, without an exception, or an expression in parentheses.
fn one_is_allowed(words: &mut &[&str]) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let is_allowed = any_is_allowed(words);
            let [")", rest @ ..] = words else { return false };
            *words = rest;
            is_allowed
        }
        [_, "WITH", _, rest @ ..] => {
            *words = rest;
            false
        }
        [licence, rest @ ..] => {
            *words = rest;
            LICENCES.contains(licence)
        }
        [] => false,
    }
}

#[test]
fn licence_expressions_are_read_as_spdx_defines_them() {
    for allowed in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0 OR MIT",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        "(MIT OR GPL-3.0) AND Unicode-3.0",
        "GPL-3.0 AND ISC OR MIT",
    ] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for forbidden in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR ISC) AND GPL-3.0",
        "(MIT",
        "MIT ISC",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(!is_allowed(forbidden), "{forbidden}");
    }
}

#[test]
fn every_dependency_has_one_version() {
    // Of the program on all platforms, and of its build; tests may have others.
    let kinds = ["-e", "normal,build", "--target", "all"];
    let tree = cargo(&[&["tree", "--workspace", "--prefix", "none"][..], &kinds].concat());
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in tree.lines() {
        if let [name, version, ..] = *line.split(' ').collect::<Vec<_>>() {
            versions.entry(name).or_default().insert(version);
        }
    }
    assert!(versions.len() > 200, "{}", versions.len());
    for (name, old, user) in OLD_VERSIONS {
        let versions = versions.entry(name).or_default();
        let count = versions.len();
        versions.retain(|version| !version.starts_with(old));
        assert!(versions.len() < count, "{user} does not use {name} {old} any more");
    }
    versions.retain(|_, versions| versions.len() > 1);
    assert_eq!(versions, BTreeMap::new(), "if it cannot be avoided: OLD_VERSIONS");
}

#[test]
fn dependencies_come_from_one_registry_with_a_version() {
    let mut registries = BTreeSet::new();
    let packages = packages();
    for package in &packages {
        let name = text(package, "name");
        assert!(!FORBIDDEN.contains(&name), "{name} is forbidden");
        let is_own = package["source"].is_null();
        assert_eq!(is_own, name == "kalends" || name.starts_with("kalends-"), "{name}");
        if !is_own {
            registries.insert(text(package, "source"));
            continue;
        }
        for used in list(package, "dependencies") {
            let is_wildcard = text(used, "req") == "*" && used["path"].is_null();
            assert!(!is_wildcard, "{name} uses {} in any version", used["name"]);
        }
    }
    let registries: Vec<_> = registries.into_iter().collect();
    assert!(matches!(&*registries, [one] if one.starts_with("registry+")), "{registries:?}");
}
