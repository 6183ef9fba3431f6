//! Parses arbitrary bytes as a line of `kalends next --jsonl` and checks the resulting rule.

#![no_main]

use kalends_recurrence::{Instant, Rule, Settings};
use kalends_wire::NextRequest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let Some(now) = Instant::from_ticks(17_948_000_000_000_000) else { return };
    let Ok(request) = NextRequest::read(line, now) else { return };
    let Ok(rule) = Rule::new(request.definition, &Settings::default()) else { return };
    kalends_fuzz::check_rule(&rule, request.after.unwrap_or(now));
});
