//! Extracts prose with line numbers from Markdown, comments and user-facing strings.

/// The part of a document that a passage comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A paragraph, list item or user-facing string.
    Text,
    /// A heading.
    Heading,
    /// A table cell.
    Cell,
    /// A paragraph of a doc comment in Rust.
    Doc,
}

/// A word without punctuation and markup.
#[derive(Debug)]
pub(super) struct Word {
    /// Lower case. Inline code is a single backtick.
    pub(super) text: String,
    pub(super) is_capitalised: bool,
    /// Punctuation that follows the word.
    pub(super) after: String,
    pub(super) line: usize,
}

/// A paragraph, list item, heading, table cell or string.
#[derive(Debug)]
pub(super) struct Passage {
    pub(super) kind: Kind,
    pub(super) words: Vec<Word>,
}

type Line = (usize, String);

/// Extracts the prose of a file. Files of other types have none.
pub(super) fn passages(name: &str, text: &str) -> Vec<Passage> {
    let extension = name.rsplit('.').next().unwrap_or_default();
    let file = name.rsplit('/').next().unwrap_or_default();
    match extension {
        "md" => markdown(&numbered(text), Kind::Text),
        "rs" => rust(text),
        "sql" => line_comments(text, "--"),
        "js" => line_comments(text, "//"),
        "sh" | "py" | "toml" | "yml" | "yaml" | "conf" | "service" => line_comments(text, "#"),
        _ if matches!(file, "Makefile" | "Dockerfile") => line_comments(text, "#"),
        _ if text.starts_with("#!") => line_comments(text, "#"),
        _ if file == "openapi.json" => descriptions(text),
        _ => Vec::new(),
    }
}

fn numbered(text: &str) -> Vec<Line> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned())).collect()
}

/// Splits Markdown into passages. `kind` is the kind of paragraphs and list items.
fn markdown(lines: &[Line], kind: Kind) -> Vec<Passage> {
    let mut found = Vec::new();
    let mut paragraph: Vec<Line> = Vec::new();
    let mut in_code = false;
    let flush = |paragraph: &mut Vec<Line>, found: &mut Vec<Passage>| {
        push(found, kind, &std::mem::take(paragraph));
    };
    for (number, line) in lines {
        let line = line.trim().trim_start_matches('>').trim_start();
        let is_fence = line.starts_with("```") || line.starts_with("~~~");
        if is_fence || in_code || line.is_empty() {
            flush(&mut paragraph, &mut found);
            in_code ^= is_fence;
        } else if line.starts_with('#') && line.trim_start_matches('#').starts_with(' ') {
            flush(&mut paragraph, &mut found);
            push(&mut found, Kind::Heading, &[(*number, line.trim_start_matches('#').to_owned())]);
        } else if line.starts_with('|') {
            flush(&mut paragraph, &mut found);
            for cell in cells(line) {
                push(&mut found, Kind::Cell, &[(*number, cell)]);
            }
        } else if let Some(item) = list_item(line) {
            flush(&mut paragraph, &mut found);
            paragraph.push((*number, item.to_owned()));
        } else {
            paragraph.push((*number, line.to_owned()));
        }
    }
    flush(&mut paragraph, &mut found);
    found
}

/// Splits a table row at the bars outside inline code.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut in_code = false;
    for char in row.chars() {
        in_code ^= char == '`';
        match (char, cells.last_mut()) {
            ('|', _) if !in_code => cells.push(String::new()),
            (_, Some(cell)) => cell.push(char),
            (_, None) => {}
        }
    }
    cells
}

/// Returns the text of a list item without its marker.
fn list_item(line: &str) -> Option<&str> {
    let bullet = ["* ", "- ", "+ "].iter().find_map(|marker| line.strip_prefix(marker));
    let number = || {
        let rest = line.trim_start_matches(|char: char| char.is_ascii_digit());
        rest.strip_prefix(". ").filter(|_| rest.len() < line.len())
    };
    bullet.or_else(number)
}

fn push(found: &mut Vec<Passage>, kind: Kind, lines: &[Line]) {
    let words = words(lines);
    if !words.is_empty() {
        found.push(Passage { kind, words });
    }
}

/// Splits lines into words. Inline code becomes one word, and link targets are dropped.
fn words(lines: &[Line]) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut in_code = false;
    let mut in_target = false;
    for (number, line) in lines {
        let mut plain = String::new();
        let mut before = ' ';
        for char in line.chars() {
            match char {
                '`' if in_code => plain.push('`'),
                '`' => {}
                _ if in_code => {}
                '(' if before == ']' => in_target = true,
                ')' if in_target => in_target = false,
                _ if in_target => {}
                _ => plain.push(char),
            }
            in_code ^= char == '`';
            before = char;
        }
        for token in plain.split_whitespace() {
            let is_edge = |char: char| !char.is_alphanumeric() && char != '`';
            let text = token.trim_matches(is_edge);
            let is_punctuation = |char: &char| ".,;:!?".contains(*char);
            let after = |rest: &str| rest.chars().filter(is_punctuation).collect::<String>();
            if text.is_empty() {
                let dash = if token.contains(['–', '—']) { ";" } else { "" };
                if let Some(last) = words.last_mut() {
                    last.after.push_str(&after(token));
                    last.after.push_str(dash);
                }
                continue;
            }
            words.push(Word {
                text: text.to_lowercase(),
                is_capitalised: text.starts_with(char::is_uppercase),
                after: after(token.rsplit(text).next().unwrap_or_default()),
                line: *number,
            });
        }
    }
    words
}

/// Extracts comments that begin with `marker` at the start of a line or after a blank.
fn line_comments(text: &str, marker: &str) -> Vec<Passage> {
    let mut found = Vec::new();
    let mut block: Vec<Line> = Vec::new();
    for (number, line) in numbered(text) {
        let trimmed = line.trim_start();
        match trimmed.strip_prefix(marker).filter(|_| !trimmed.starts_with("#!")) {
            Some(comment) => block.push((number, comment.trim_start_matches('#').to_owned())),
            None => {
                found.extend(markdown(&std::mem::take(&mut block), Kind::Text));
                if let Some((_, comment)) = line.split_once(&format!(" {marker} ")) {
                    push(&mut found, Kind::Text, &[(number, comment.to_owned())]);
                }
            }
        }
    }
    found.extend(markdown(&block, Kind::Text));
    found
}

/// Extracts `description` and `summary` of an OpenAPI document with one member per line.
fn descriptions(text: &str) -> Vec<Passage> {
    let mut found = Vec::new();
    for (number, line) in numbered(text) {
        for member in ["\"description\": \"", "\"summary\": \""] {
            for rest in line.split(member).skip(1) {
                let value = rest.replace("\\\"", "'");
                let value = value.split('"').next().unwrap_or_default().to_owned();
                push(&mut found, Kind::Text, &[(number, value)]);
            }
        }
    }
    found
}

/// Calls whose string arguments are read by users: log lines, metric HELP and command-line help.
const CALLS: [&str; 13] = [
    "trace!",
    "debug!",
    "info!",
    "warn!",
    "error!",
    ".counter",
    ".gauge",
    ".histogram",
    ".help",
    ".long_help",
    ".about",
    ".long_about",
    ".after_help",
];
/// Assignments whose string is read by users.
const ASSIGNMENTS: [&str; 5] =
    ["help = ", "long_help = ", "about = ", "long_about = ", "after_help = "];

/// Extracts comments and user-facing strings of a Rust file.
fn rust(text: &str) -> Vec<Passage> {
    let mut scanner = Rust { rest: text, line: 1, code: String::new(), calls: Vec::new() };
    let mut found = Vec::new();
    let mut block: Vec<Line> = Vec::new();
    let mut block_marker = "";
    while !scanner.rest.is_empty() {
        if scanner.rest.starts_with("//") {
            let line = scanner.line;
            let comment = scanner.take_until("\n");
            let markers = ["///", "//!", "//"];
            let marker = markers.into_iter().find(|marker| comment.starts_with(marker));
            let marker = marker.unwrap_or("//");
            let is_next = block.last().is_some_and(|(last, _)| last + 1 == line);
            if !is_next || marker != block_marker {
                found.extend(markdown(&std::mem::take(&mut block), comment_kind(block_marker)));
            }
            block_marker = marker;
            block.push((line, comment.get(marker.len()..).unwrap_or_default().to_owned()));
        } else if scanner.rest.starts_with("/*") {
            let line = scanner.line;
            let comment = scanner.take_until("*/");
            let comment = comment.trim_start_matches("/*");
            let lines: Vec<_> = numbered(comment)
                .into_iter()
                .map(|(number, comment)| (number + line - 1, comment))
                .collect();
            found.extend(markdown(&lines, Kind::Text));
        } else if let Some((line, string, is_for_users)) = scanner.take_string() {
            if is_for_users {
                let lines: Vec<_> = numbered(&string)
                    .into_iter()
                    .map(|(number, text)| (number + line - 1, text.replace('\\', " ")))
                    .collect();
                push(&mut found, Kind::Text, &lines);
            }
        } else {
            scanner.take_code();
        }
    }
    found.extend(markdown(&block, comment_kind(block_marker)));
    found
}

fn comment_kind(marker: &str) -> Kind {
    if marker == "//" { Kind::Text } else { Kind::Doc }
}

/// Separates comments, strings and code of a Rust file.
struct Rust<'a> {
    rest: &'a str,
    line: usize,
    /// The code since the last string, statement or block.
    code: String,
    /// For each open parenthesis, whether it belongs to one of [`CALLS`].
    calls: Vec<bool>,
}

impl<'a> Rust<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Takes the text before `end`, and `end` itself unless it ends the line.
    fn take_until(&mut self, end: &str) -> &'a str {
        let found = self.rest.find(end).unwrap_or(self.rest.len());
        let taken = self.take(found);
        if end != "\n" {
            self.take(end.len().min(self.rest.len()));
        }
        taken
    }

    fn take_code(&mut self) {
        let mut chars = self.rest.chars();
        let Some(char) = chars.next() else { return };
        match char {
            '(' => self.calls.push(CALLS.iter().any(|call| self.code.ends_with(call))),
            ')' => drop(self.calls.pop()),
            // A character literal may contain a quotation mark; a lifetime has no second apostrophe.
            '\'' => {
                let literal = match (chars.next(), chars.next(), chars.next()) {
                    (Some('\\'), Some(escaped), Some('\'')) => 3 + escaped.len_utf8(),
                    (Some(char), Some('\''), _) => 2 + char.len_utf8(),
                    _ => 1,
                };
                self.take(literal);
                self.code.push('\'');
                return;
            }
            _ => {}
        }
        match char {
            ';' | '{' | '}' => self.code.clear(),
            char if char.is_whitespace() && self.code.ends_with(char::is_whitespace) => {}
            char => self.code.push(char),
        }
        self.take(char.len_utf8());
    }

    /// Takes a string literal: its line, its text, and whether users read it.
    fn take_string(&mut self) -> Option<(usize, String, bool)> {
        // The prefix `b` of a byte string is not part of a name.
        let before = self.code.strip_suffix('b').unwrap_or(&self.code);
        let is_part_of_name = before.ends_with(|char: char| char.is_alphanumeric() || char == '_');
        let hashes = match self.rest.strip_prefix('r').filter(|_| !is_part_of_name) {
            Some(rest) => rest.len() - rest.trim_start_matches('#').len(),
            None => 0,
        };
        let raw = format!("r{}\"", "#".repeat(hashes));
        let is_raw = !is_part_of_name && self.rest.starts_with(&raw);
        if !is_raw && !self.rest.starts_with('"') {
            return None;
        }
        let assigned = ASSIGNMENTS.iter().any(|name| self.code.ends_with(name));
        let is_for_users = assigned || self.calls.iter().any(|call| *call);
        let line = self.line;
        let string = if is_raw {
            self.take(raw.len());
            self.take_until(&format!("\"{}", "#".repeat(hashes))).to_owned()
        } else {
            self.take(1);
            let mut is_escaped = false;
            let end = self.rest.find(|char| {
                let is_end = char == '"' && !is_escaped;
                is_escaped = char == '\\' && !is_escaped;
                is_end
            });
            let string = self.take(end.unwrap_or(self.rest.len())).to_owned();
            self.take(1.min(self.rest.len()));
            string
        };
        self.code.push('"');
        Some((line, string, is_for_users))
    }
}
