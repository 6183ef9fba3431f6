//! The language of the repository: phrases that standard terms replace.
//!
//! The test reads Markdown, comments, log messages, metric HELP, command-line help and the OpenAPI
//! document. It looks for phrases and sentence openings, not for everyday words, and ignores code.

mod prose;

use std::path::{Path, PathBuf};

use prose::{Kind, Passage, Word, passages};

/// A phrase and its replacement.
struct Rule {
    phrase: &'static str,
    /// The phrase is fine before one of these words.
    unless_before: &'static [&'static str],
    /// The phrase is fine after one of these words.
    unless_after: &'static [&'static str],
    use_instead: &'static str,
}

const fn rule(phrase: &'static str, use_instead: &'static str) -> Rule {
    Rule { phrase, unless_before: &[], unless_after: &[], use_instead }
}

/// Phrases without a standard meaning.
const PHRASES: &[Rule] = &[
    rule("under way", "in flight, running"),
    Rule { unless_before: OVER_SOMETHING, ..rule("is over", "has finished") },
    Rule { unless_before: OVER_SOMETHING, ..rule("are over", "have finished") },
    rule("must not be and", "invariant violation"),
    rule("what must not be", "invariant"),
    rule("in the way of", "blocks, conflicts with"),
    rule("is told", "is reported, receives"),
    rule("are told", "are reported, receive"),
    rule("told apart", "distinguished"),
    rule("tell apart", "distinguish"),
    rule("tells apart", "distinguishes"),
    rule("how much is told", "log level"),
    rule("as many as", "up to, the same number of"),
    rule("so long as", "while, if"),
    rule("that which", "name the thing"),
    rule("made anew", "created again"),
    rule("kept connection", "keep-alive connection"),
    rule("kept connections", "keep-alive connections"),
    rule("the log is moved", "the WAL is checkpointed"),
    rule("good until", "valid until, expires"),
    rule("good token", "valid token"),
    rule("good tokens", "valid tokens"),
    rule("vouches", "the CA bundle that verifies"),
    rule("vouch for", "verify"),
    rule("clocks go forward", "DST gap"),
    rule("clocks go back", "DST overlap"),
    rule("clock goes forward", "DST gap"),
    rule("clock goes back", "DST overlap"),
    rule("it is asked", "it is requested"),
    rule("is asked for", "is requested"),
    rule("are asked for", "are requested"),
    rule("was asked for", "was requested"),
    rule("were asked for", "were requested"),
    rule("is answered", "is returned, is acknowledged"),
    rule("are answered", "are returned, are acknowledged"),
    rule("who asks", "the caller"),
    rule("who asked", "the caller"),
    rule("removed in time", "deleted by retention"),
    rule("signing epoch", "signing key version"),
    rule("worth nothing", "revoked"),
    rule("its instant", "its scheduled time"),
    rule("scheduled instant", "scheduled time"),
    rule("scheduled instants", "scheduled times"),
    Rule { unless_after: &["by"], ..rule("mistake", "error") },
    rule("mistakes", "errors"),
    rule("whoever", "name the role"),
    rule("somebody", "name the role"),
    rule("he", "name the role"),
    rule("him", "name the role"),
    rule("his", "name the role"),
    rule("himself", "name the role"),
];

/// Words after `over` that make it a preposition.
const OVER_SOMETHING: &[&str] = &[
    "the", "a", "an", "its", "their", "all", "every", "any", "this", "that", "http", "http/2",
    "tls", "`",
];

/// Names of a private vocabulary that the code no longer has.
const PRIVATE_NAMES: &[Rule] = &[
    rule("desk", "write transaction"),
    rule("overlay", "dirty rows"),
    Rule { unless_after: FOLDED, ..rule("fold", "flush") },
    Rule { unless_after: FOLDED, ..rule("folds", "flushes") },
    Rule { unless_after: FOLDED, ..rule("folded", "flushed") },
    Rule { unless_after: FOLDED, ..rule("folding", "flushing") },
    rule("laps", "timing"),
    rule("briefs", "jobs for run"),
    rule("standings", "gate states"),
    rule("mend", "repair"),
    rule("mends", "repairs"),
    rule("mended", "repaired"),
    rule("mending", "repairing"),
    rule("sealer", "cipher"),
    rule("unsealed", "decrypted"),
    Rule { unless_before: &["trait", "traits"], ..rule("sealed", "encrypted") },
    rule("remembered", "cached"),
    rule("anchor", "start time, reference time"),
    rule("figures", "metrics, results"),
    rule("its neighbours", "private network"),
];

/// Words before `fold` that give it its usual meaning.
const FOLDED: &[&str] = &["case", "constant", "line"];

/// Openings of sentences that are no questions.
const OPENINGS: &[Rule] = &[
    rule("what", "name the thing"),
    rule("who", "name the role"),
    rule("whom", "name the role"),
    rule("as many", "state the limit"),
    rule("so long", "state the condition"),
    rule("so many", "state the number"),
    rule("so much", "state the amount"),
    rule("they,", "name the thing"),
];

/// Openings of headings, which are nouns.
const HEADING_OPENINGS: &[Rule] =
    &[rule("what", "use a noun"), rule("who", "use a noun"), rule("where", "use a noun")];

/// Openings of doc comments of up to [`PRONOUN_DOC_WORDS_MAX`] words that say nothing.
const PRONOUNS: &[&str] = &[
    "how", "it", "of", "so", "such", "that", "they", "them", "those", "what", "when", "where",
    "which", "who", "whose", "why",
];
const PRONOUN_DOC_WORDS_MAX: usize = 2;

/// Phrases that a file may use, with the reason.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// Files that are not read, with the reason.
const SKIPPED: &[(&str, &str)] = &[
    ("crates/kalends/tests/it/language.rs", "lists the phrases"),
    ("crates/kalends/tests/it/language/", "tests of the extraction"),
];

struct Finding {
    line: usize,
    phrase: String,
    use_instead: &'static str,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns every text file of the repository, with its path from the root.
fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut directories = vec![root()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_generated = name.starts_with("target")
                || ["node_modules", "corpus", "artifacts", "data", "seeds"]
                    .contains(&name.as_str());
            if path.is_dir() && !is_generated && !name.starts_with('.') {
                directories.push(path);
            } else if path.is_file()
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                files.push((path.strip_prefix(root()).unwrap().display().to_string(), text));
            }
        }
    }
    files.sort();
    files
}

/// Returns the word after the phrase if the words from `start` on are the phrase.
fn end_of_phrase(words: &[Word], start: usize, phrase: &str) -> Option<usize> {
    let mut end = start;
    let mut parts = phrase.split(' ').peekable();
    while let Some(part) = parts.next() {
        let word = words.get(end)?;
        let (part, comma) = part.strip_suffix(',').map_or((part, false), |part| (part, true));
        let is_last = parts.peek().is_none();
        let is_joined = is_last || word.after.is_empty();
        if word.text != part || !is_joined || (comma && !word.after.contains(',')) {
            return None;
        }
        end += 1;
    }
    Some(end)
}

fn matches(words: &[Word], start: usize, rule: &Rule) -> bool {
    let Some(end) = end_of_phrase(words, start, rule.phrase) else { return false };
    let is_continued = words.get(end - 1).is_some_and(|last| last.after.is_empty());
    let next = words.get(end).filter(|_| is_continued).map(|word| word.text.as_str());
    let starts_with_digit = next.is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()));
    let is_excused = next.is_some_and(|next| rule.unless_before.contains(&next))
        || (starts_with_digit && !rule.unless_before.is_empty());
    let before = start.checked_sub(1).and_then(|before| words.get(before));
    let is_compound =
        before.is_some_and(|before| rule.unless_after.contains(&before.text.as_str()));
    !is_excused && !is_compound
}

fn ends_sentence(word: &Word) -> bool {
    word.after.contains(['.', '!', '?'])
}

fn is_question(words: &[Word], start: usize) -> bool {
    let sentence = words.get(start..).unwrap_or_default();
    let last = sentence.iter().find(|word| ends_sentence(word));
    last.is_some_and(|last| last.after.contains('?'))
}

fn is_opening(words: &[Word], index: usize) -> bool {
    let Some(before) = index.checked_sub(1).and_then(|before| words.get(before)) else {
        return true;
    };
    ends_sentence(before) && words.get(index).is_some_and(|word| word.is_capitalised)
}

fn findings_in(passage: &Passage) -> Vec<Finding> {
    let words = &passage.words;
    let mut findings = Vec::new();
    let mut add = |index: usize, prefix: &str, phrase: &str, use_instead| {
        let line = words.get(index).map_or(0, |word| word.line);
        findings.push(Finding { line, phrase: format!("{prefix}{phrase}"), use_instead });
    };
    for index in 0..words.len() {
        for rule in PHRASES.iter().chain(PRIVATE_NAMES) {
            if matches(words, index, rule) {
                add(index, "", rule.phrase, rule.use_instead);
            }
        }
        if is_opening(words, index) && !is_question(words, index) {
            for rule in OPENINGS.iter().filter(|rule| matches(words, index, rule)) {
                add(index, "sentence begins with ", rule.phrase, rule.use_instead);
            }
        }
    }
    if passage.kind == Kind::Heading {
        for rule in HEADING_OPENINGS.iter().filter(|rule| matches(words, 0, rule)) {
            add(0, "heading begins with ", rule.phrase, rule.use_instead);
        }
    }
    let first = words.first().map(|word| word.text.as_str()).unwrap_or_default();
    let is_short = words.len() <= PRONOUN_DOC_WORDS_MAX;
    if passage.kind == Kind::Doc && is_short && PRONOUNS.contains(&first) {
        let text: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
        add(0, "doc comment is only ", &text.join(" "), "describe the value");
    }
    findings
}

fn findings(name: &str, text: &str) -> Vec<Finding> {
    let mut found: Vec<_> = passages(name, text).iter().flat_map(findings_in).collect();
    found.sort_by_key(|finding| finding.line);
    found
}

#[test]
fn the_repository_uses_standard_terms() {
    let mut report = String::new();
    let mut used = vec![false; ALLOWED.len()];
    for (name, text) in files() {
        if SKIPPED.iter().any(|(skipped, _)| name.starts_with(skipped)) {
            continue;
        }
        for finding in findings(&name, &text) {
            let allowed = ALLOWED
                .iter()
                .position(|(file, phrase, _)| *file == name && finding.phrase.ends_with(phrase));
            match allowed {
                Some(position) => used[position] = true,
                None => {
                    let Finding { line, phrase, use_instead } = finding;
                    report.push_str(&format!("{name}:{line}: {phrase} (use: {use_instead})\n"));
                }
            }
        }
    }
    let unused = ALLOWED.iter().zip(used).filter(|(_, used)| !used).map(|(allowed, _)| allowed);
    for (file, phrase, reason) in unused {
        report.push_str(&format!("{file}: no longer contains {phrase:?}, allowed for: {reason}\n"));
    }
    assert!(report.is_empty(), "{} findings:\n{report}", report.lines().count());
}

/// Compares the lines and phrases found in a file.
#[track_caller]
fn check(name: &str, text: &str, expected: &[(usize, &str)]) {
    let found = findings(name, text);
    let found: Vec<_> = found.iter().map(|found| (found.line, found.phrase.as_str())).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn a_planted_phrase_is_found_in_every_kind_of_text() {
    let planted = |text: &str| text.replace("BAD", "two are under way");
    check("a.md", &planted("Runs.\n\nBAD.\n"), &[(3, "under way")]);
    check("a.md", &planted("| a | BAD |\n"), &[(1, "under way")]);
    check("a.rs", &planted("/// BAD.\nfn a() {} // BAD\n"), &[(1, "under way"), (2, "under way")]);
    check(
        "a.rs",
        &planted("fn a() {\n    tracing::info!(runs = 2, \"BAD\");\n}"),
        &[(2, "under way")],
    );
    check("a.rs", &planted("page.gauge(\"a_b\", \"BAD\").value(1);"), &[(1, "under way")]);
    check("a.rs", &planted("#[arg(long, help = \"BAD\")]"), &[(1, "under way")]);
    check("a.js", &planted("// BAD\n"), &[(1, "under way")]);
    check("a.sql", &planted("BEGIN;\n-- BAD\n"), &[(2, "under way")]);
    check("Makefile", &planted("# BAD\nall:\n"), &[(1, "under way")]);
    check("Cargo.toml", &planted("a = \"1\" # BAD\n"), &[(1, "under way")]);
    check("openapi.json", &planted("{\n\"summary\": \"BAD\"}"), &[(2, "under way")]);
}

#[test]
fn phrases_are_found_across_lines_and_in_any_case() {
    check("a.md", "Attempts are under\nway.", &[(1, "under way")]);
    check("a.md", "Under Way", &[(1, "under way")]);
    check("a.rs", "/// Runs are under\n/// way.", &[(1, "under way")]);
}

#[test]
fn sentences_do_not_begin_with_a_relative_clause() {
    check("a.md", "Jobs. What is left stays.", &[(1, "sentence begins with what")]);
    check("a.md", "| what is kept | x |", &[(1, "sentence begins with what")]);
    check("a.rs", "/// As many are read.", &[(1, "sentence begins with as many")]);
    check("a.rs", "/// They, by name.", &[(1, "sentence begins with they,")]);
    check("a.md", "What is a job? A resource. Say what it does. They run.", &[]);
}

#[test]
fn headings_are_nouns() {
    check("a.md", "# Where it is kept", &[(1, "heading begins with where")]);
    check("a.md", "# Invariants", &[]);
}

#[test]
fn doc_comments_are_more_than_a_pronoun() {
    check("a.rs", "/// Which.", &[(1, "doc comment is only which")]);
    check("a.rs", "/// How many.", &[(1, "doc comment is only how many")]);
    check("a.rs", "/// Seconds.\n// Why not.", &[]);
}

#[test]
fn code_and_usual_meanings_are_ignored() {
    check("a.md", "Use `under way`.\n\n```text\nunder way\n```\n", &[]);
    check("a.md", "See [x](under way).", &[]);
    check("a.rs", "let a = \"under way\"; let b = r#\"// is over \"#; let c = '\"'; // fine", &[]);
    check(
        "a.md",
        "The limit is over 5 MB. Traffic is over TLS. A sealed trait. Case folding.",
        &[],
    );
    check("a.md", "The run is over.", &[(1, "is over")]);
}
