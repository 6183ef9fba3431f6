//! `simulate 100..300` makes worlds of seeds and says which broke a promise; `simulate 123` makes
//! one, and tells everything that happens in it.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use kalends_environment::{Clock, SystemClock};
use kalends_simulation::{Tracing, simulate};

/// As many worlds are made where nothing else is asked for.
const SEEDS: u64 = 1_000;

fn main() -> io::Result<ExitCode> {
    let asked = std::env::args().nth(1);
    let mut output = io::stdout().lock();
    match asked.as_deref().map(str::parse::<u64>) {
        Some(Ok(seed)) => one(seed, &mut output),
        _ => {
            let (from, to) = asked.as_deref().and_then(range).unwrap_or((0, SEEDS));
            many(from, to, &mut output)
        }
    }
}

fn range(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once("..")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

fn one(seed: u64, output: &mut impl Write) -> io::Result<ExitCode> {
    let ending = simulate(seed, Tracing::On);
    for line in ending.trace.iter().chain(&ending.broken) {
        writeln!(output, "{line}")?;
    }
    Ok(verdict(ending.broken.is_empty()))
}

fn many(from: u64, to: u64, output: &mut impl Write) -> io::Result<ExitCode> {
    let began = SystemClock.now();
    let (mut broken, mut occurrences, mut calls) = (0_u64, 0_u64, 0_u64);
    let mut lasted = Duration::ZERO;
    for seed in from..to {
        let ending = simulate(seed, Tracing::Off);
        occurrences += ending.occurrences;
        calls += ending.calls;
        lasted += ending.lasted;
        if let Some(first) = ending.broken.first() {
            broken += 1;
            let more = ending.broken.len() - 1;
            writeln!(
                output,
                "seed {seed}: {first} (and {more} more)\n  make simulate SEEDS={seed}"
            )?;
        }
    }
    let took = SystemClock.now().duration_since(began).as_secs_f64();
    let seeds = to.saturating_sub(from);
    let years = lasted.as_secs_f64() / (365.25 * 86_400.0);
    writeln!(
        output,
        "{seeds} seeds in {took:.1} s ({:.0} a second): {years:.2} years, {occurrences} occurrences, {calls} calls; {broken} broken",
        seeds as f64 / took.max(0.001),
    )?;
    Ok(verdict(broken == 0))
}

fn verdict(kept: bool) -> ExitCode {
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
