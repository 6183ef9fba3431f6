//! `simulate 100..300` runs a range of seeds and lists those that violated a guarantee;
//! `simulate 123` runs one seed and prints its trace. `--store sqlite` before the seeds runs the worlds
//! on a SQLite file instead of in memory. With the feature `mutants`, `--mutant NAME` plants a bug and stops
//! at the first seed that detects it.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use kalends_environment::{Clock, SystemClock};
use kalends_simulation::{SimulationReport, StoreKind, Tracing, simulate};

/// Seeds that run without an argument.
const SEEDS_DEFAULT: u64 = 1_000;

fn main() -> io::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut store = StoreKind::Memory;
    if arguments.next_if(|argument| argument == "--store").is_some() {
        store = match arguments.next().as_deref() {
            Some("sqlite") => StoreKind::Sqlite,
            Some("memory") => StoreKind::Memory,
            _ => return Err(io::Error::other("--store takes memory or sqlite")),
        };
    }
    let mut world = World { store, mutant: None };
    if arguments.next_if(|argument| argument == "--mutant").is_some() {
        world.mutant = Some(arguments.next().unwrap_or_default());
    }
    let argument = arguments.next();
    let mut output = io::stdout().lock();
    match argument.as_deref().map(str::parse::<u64>) {
        Some(Ok(seed)) => run_one(seed, &world, &mut output),
        _ => {
            let (from, to) =
                argument.as_deref().and_then(parse_range).unwrap_or((0, SEEDS_DEFAULT));
            run_range((from, to), &world, &mut output)
        }
    }
}

fn parse_range(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once("..")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// The worlds to run.
struct World {
    store: StoreKind,
    /// Name of a planted bug.
    mutant: Option<String>,
}

impl World {
    fn simulate(&self, seed: u64, tracing: Tracing) -> io::Result<SimulationReport> {
        match &self.mutant {
            None => Ok(simulate(seed, self.store, tracing)),
            #[cfg(feature = "mutants")]
            Some(name) => {
                let mut mutants = kalends_simulation::Mutant::ALL.into_iter();
                let mutant = mutants.find(|mutant| format!("{mutant:?}") == *name);
                let mutant = mutant.ok_or_else(|| io::Error::other(format!("no mutant {name}")))?;
                Ok(kalends_simulation::simulate_mutant(seed, self.store, tracing, mutant))
            }
            #[cfg(not(feature = "mutants"))]
            Some(_) => Err(io::Error::other("--mutant needs the feature `mutants`")),
        }
    }
}

fn run_one(seed: u64, world: &World, output: &mut impl Write) -> io::Result<ExitCode> {
    let report = world.simulate(seed, Tracing::On)?;
    for line in report.trace.iter().chain(&report.violations) {
        writeln!(output, "{line}")?;
    }
    Ok(exit_code(report.violations.is_empty()))
}

fn run_range(
    (from, to): (u64, u64),
    world: &World,
    output: &mut impl Write,
) -> io::Result<ExitCode> {
    let began = SystemClock.now();
    let (mut failed, mut occurrences, mut calls) = (0_u64, 0_u64, 0_u64);
    let mut simulated = Duration::ZERO;
    for seed in from..to {
        let report = world.simulate(seed, Tracing::Off)?;
        occurrences += report.occurrences;
        calls += report.calls;
        simulated += report.simulated;
        if let Some(first) = report.violations.first() {
            failed += 1;
            let more = report.violations.len() - 1;
            writeln!(
                output,
                "seed {seed}: {first} (and {more} more)\n  make simulate SEEDS={seed}"
            )?;
            if world.mutant.is_some() {
                break;
            }
        }
    }
    let took = SystemClock.now().duration_since(began).as_secs_f64();
    let seeds = to.saturating_sub(from);
    let years = simulated.as_secs_f64() / (365.25 * 86_400.0);
    writeln!(
        output,
        "{seeds} seeds in {took:.1} s ({:.0} a second): {years:.2} years, {occurrences} occurrences, {calls} calls; {failed} failed",
        seeds as f64 / took.max(0.001),
    )?;
    Ok(exit_code(failed == 0))
}

fn exit_code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
