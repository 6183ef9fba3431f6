//! Rules about the repository that the compiler does not check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most lines of code in a file, without comments and blank lines.
const CODE_LINES_MAX: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Rust file below a directory, with its path from the root and its text.
fn rust_files(folder: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                files.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "no Rust files below {folder}");
    files
}

/// Files that contain one of `words`, except below the allowed directories.
fn files_with(words: &[&str], allowed: &[&str]) -> Vec<String> {
    let this_file = file!();
    let files = rust_files("crates").into_iter();
    files
        .filter(|(name, _)| {
            !this_file.ends_with(name) && !allowed.iter().any(|folder| name.starts_with(folder))
        })
        .flat_map(|(name, text)| {
            let found = words.iter().filter(|word| text.contains(**word));
            found.map(|word| format!("{name}: {word}")).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn no_file_has_more_than_500_lines_of_code() {
    let long: Vec<_> = ["crates", "bench", "fuzz"]
        .into_iter()
        .flat_map(rust_files)
        .filter_map(|(name, text)| {
            let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
            let lines = text.lines().filter(is_code).count();
            (lines > CODE_LINES_MAX).then(|| format!("{name}: {lines}"))
        })
        .collect();
    assert!(long.is_empty(), "longer than {CODE_LINES_MAX} lines of code: {long:?}");
}

#[test]
fn only_the_environment_reads_the_clock() {
    let words =
        ["SystemTime::now(", "Instant::now(", "Timestamp::now(", "Zoned::now(", "time::sleep("];
    assert_eq!(files_with(&words, &["crates/environment/"]), Vec::<String>::new());
}

#[test]
fn only_the_store_contains_sql() {
    let words =
        ["SELECT ", "INSERT INTO", "DELETE FROM", "CREATE TABLE", "rusqlite", "tokio_postgres"];
    assert_eq!(files_with(&words, &["crates/store/"]), Vec::<String>::new());
}

/// Outbound connections go through the egress policy. Drivers connect the store to its database.
#[test]
fn only_egress_opens_outbound_connections() {
    let words = ["TcpStream::connect", "UdpSocket", "TcpSocket", "UnixStream", "lookup_host"];
    // The listener sets options of its socket; only its test connects.
    let others = ["crates/actions/src/egress/", "crates/kalends/src/serve/listener.rs"];
    assert_eq!(without_tests(files_with(&words, &others)), Vec::<String>::new());
}

#[test]
fn only_wire_the_store_the_client_the_console_and_the_binary_use_serde() {
    let words = ["use serde", "serde_json::"];
    // Token endpoints return JSON.
    let token = "crates/actions/src/oauth.rs";
    let users =
        ["wire", "store", "cli", "console", "kalends"].map(|name| format!("crates/{name}/"));
    let allowed: Vec<&str> = users.iter().map(String::as_str).chain([token]).collect();
    assert_eq!(without_tests(files_with(&words, &allowed)), Vec::<String>::new());
}

fn without_tests(mut files: Vec<String>) -> Vec<String> {
    files.retain(|name| !name.contains("/tests/"));
    files
}

#[test]
fn the_architecture_page_names_only_files_that_exist() {
    const TOP: [&str; 7] =
        ["crates/", "docs/", "scripts/", "services/", "clients/", "fuzz/", "bench/"];
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let spans = page.split('`').skip(1).step_by(2);
    let is_path = |span: &&str| {
        let ends = |character: char| character.is_whitespace() || "*{<…".contains(character);
        TOP.iter().any(|top| span.starts_with(top)) && !span.contains(ends)
    };
    let paths: Vec<_> = spans.filter(is_path).collect();
    assert!(paths.len() > 100, "{}", paths.len());
    let missing: Vec<_> = paths.iter().filter(|path| !root().join(path).exists()).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}

#[test]
fn the_security_page_names_only_tests_that_exist() {
    let page = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let spans = page.split('`').skip(1).step_by(2);
    let tests: Vec<_> = spans.filter_map(|span| span.split_once(".rs::")).collect();
    assert!(tests.len() > 50, "{}", tests.len());
    let is_missing = |(file, test): &&(&str, &str)| {
        let text = std::fs::read_to_string(root().join(format!("crates/{file}.rs")));
        !text.is_ok_and(|text| text.contains(&format!("fn {test}(")))
    };
    let missing: Vec<_> = tests.iter().filter(is_missing).collect();
    assert_eq!(missing, Vec::<&(&str, &str)>::new());
}

#[test]
fn no_module_has_a_meaningless_name() {
    let empty_names = ["utils", "util", "common", "helpers", "helper", "manager", "misc"];
    let named = rust_files("crates")
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.split(['/', '.']).any(|part| empty_names.contains(&part)));
    assert_eq!(named.collect::<Vec<_>>(), Vec::<String>::new());
}

/// Allowed dependencies between our crates, as in ARCHITECTURE.md.
const MAY_USE: [(&str, &[&str]); 13] = [
    ("kalends-recurrence", &[]),
    ("kalends-domain", &["kalends-recurrence"]),
    ("kalends-environment", &[]),
    ("kalends-metrics", &[]),
    ("kalends-actions", &["kalends-domain", "kalends-environment", "kalends-recurrence"]),
    (
        "kalends-cli",
        &[
            "kalends-actions",
            "kalends-domain",
            "kalends-environment",
            "kalends-recurrence",
            "kalends-wire",
        ],
    ),
    (
        "kalends-engine",
        &[
            "kalends-actions",
            "kalends-domain",
            "kalends-environment",
            "kalends-metrics",
            "kalends-recurrence",
            "kalends-store",
        ],
    ),
    (
        "kalends-simulation",
        &[
            "kalends-actions",
            "kalends-domain",
            "kalends-engine",
            "kalends-environment",
            "kalends-recurrence",
            "kalends-store",
        ],
    ),
    ("kalends-console", &["kalends-domain", "kalends-recurrence", "kalends-wire"]),
    ("kalends-store", &["kalends-domain", "kalends-environment", "kalends-recurrence"]),
    ("kalends-wire", &["kalends-domain", "kalends-recurrence"]),
    (
        "kalends-server",
        &[
            "kalends-actions",
            "kalends-console",
            "kalends-domain",
            "kalends-environment",
            "kalends-metrics",
            "kalends-recurrence",
            "kalends-store",
            "kalends-wire",
        ],
    ),
    (
        "kalends",
        &[
            "kalends-actions",
            "kalends-cli",
            "kalends-domain",
            "kalends-engine",
            "kalends-environment",
            "kalends-metrics",
            "kalends-recurrence",
            "kalends-server",
            "kalends-simulation",
            "kalends-store",
            "kalends-wire",
        ],
    ),
];

/// Dependencies that a crate must not have.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    ("kalends-recurrence", &["serde", "serde_json", "tokio", "rand"]),
    ("kalends-domain", &["serde", "serde_json", "tokio", "rand"]),
    ("kalends-environment", &["serde", "serde_json"]),
    ("kalends-wire", &["tokio", "jiff"]),
];

/// Direct dependencies of a crate without those of its tests, from `cargo tree`.
fn dependencies(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "-e", "normal", "--depth", "1", "--prefix", "none"])
        .args(["-p", package, "--format", "{p}"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).filter(|name| name != package).collect()
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    let may_use: BTreeMap<_, _> = MAY_USE.into_iter().collect();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        let package = if folder == "kalends" { folder } else { format!("kalends-{folder}") };
        let allowed = may_use.get(package.as_str());
        let allowed = allowed.unwrap_or_else(|| panic!("add {package} to MAY_USE"));
        for used in dependencies(&package).iter().filter(|used| used.starts_with("kalends")) {
            assert!(allowed.contains(&used.as_str()), "{package} may not use {used}");
        }
    }
}

#[test]
fn the_binary_is_built_without_planted_bugs() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "-e", "normal,features", "-p", "kalends"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.contains("kalends-simulation") && !tree.contains("mutants"), "{tree}");
}

#[test]
fn crates_do_not_have_forbidden_dependencies() {
    for (package, forbidden) in FORBIDDEN {
        let used = dependencies(package);
        for name in forbidden {
            assert!(!used.contains(*name), "{package} may not use {name}");
        }
    }
}
