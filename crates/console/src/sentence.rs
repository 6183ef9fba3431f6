//! Sentences of the API with the times in them shown like all other times of a page.

use kalends_recurrence::Instant;

use crate::view::{Time, View};

/// A part of a sentence.
pub(crate) enum Part {
    Text(String),
    Time(Time),
}

/// Splits a sentence at its times. Words such as `2026-11-16T01:30:00Z` are times, also before a full
/// stop or comma.
pub(crate) fn sentence(text: &str, view: &View) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end_matches(|c: char| c.is_whitespace() || ".,;:)".contains(c));
        match time_of(bare) {
            Some(at) => {
                parts.push(Part::Text(std::mem::take(&mut plain)));
                parts.push(Part::Time(view.time(at)));
                plain.push_str(word.get(bare.len()..).unwrap_or_default());
            }
            None => plain.push_str(word),
        }
    }
    parts.push(Part::Text(plain));
    parts
}

/// The sentence without markup, with the times in the zone of the page.
pub(crate) fn plain(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Time(time) => &time.absolute,
    });
    texts.collect()
}

fn time_of(word: &str) -> Option<Instant> {
    let is_candidate = word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with('Z');
    is_candidate.then(|| word.parse().ok())?
}
