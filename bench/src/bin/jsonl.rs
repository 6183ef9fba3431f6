//! Throughput of `kalends next --jsonl`, compared with a program that only parses the lines as JSON.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

const LINES: usize = 200_000;
const ROUNDS: usize = 5;
/// Goal in lines per second.
const GOAL: f64 = 100_000.0;

fn main() -> anyhow::Result<()> {
    let input = lines();
    let mut answered = Vec::new();
    let mut parsed = Vec::new();
    for _ in 0..ROUNDS {
        answered.push(time_answers(&input)?);
        parsed.push(time_parsing(&input)?);
    }
    let (answered, parsed) = (lines_a_second(answered), lines_a_second(parsed));
    let verdict = if answered >= GOAL { "PASS" } else { "MISS" };
    println!("| lines a second | |\n|---|--:|");
    println!("| `kalends next --jsonl`, 10 occurrences a line | {answered:.0} |");
    println!("| reading the lines as JSON, nothing more | {parsed:.0} |");
    println!("| ratio | {:.2} |", answered / parsed);
    println!("\n* {verdict}: {GOAL:.0} lines a second");
    Ok(())
}

/// A fixed mixture of all frequencies, with and without schedule, zone and count.
fn lines() -> String {
    let mut state = 1_u64;
    let mut below = move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    let mut text = String::new();
    for _ in 0..LINES {
        let frequency = ["minute", "hour", "day", "week", "month", "year"][below(6) as usize];
        let interval = if frequency == "year" { 1 } else { below(12) + 1 };
        let mut schedule = Vec::new();
        if below(5) < 3 {
            schedule.push(format!(r#""hours":[{},{}]"#, below(24), below(24)));
        }
        if below(2) == 0 {
            schedule.push(format!(r#""minutes":[{},{}]"#, below(60), below(60)));
        }
        match frequency {
            "week" => schedule.push(r#""weekDays":["monday","friday"]"#.to_owned()),
            "month" if below(2) == 0 => schedule.push(r#""monthDays":[1,-1]"#.to_owned()),
            "month" => schedule
                .push(r#""monthlyOccurrences":[{"day":"friday","occurrence":-1}]"#.to_owned()),
            _ => {}
        }
        let schedule = match schedule.is_empty() {
            true => String::new(),
            false => format!(r#","schedule":{{{}}}"#, schedule.join(",")),
        };
        let zone = ["", r#","timeZone":"Europe/Berlin""#, r#","timeZone":"America/New_York""#];
        let zone = zone[below(3) as usize];
        let count =
            if below(3) == 0 { format!(r#","count":{}"#, below(1_000) + 1) } else { String::new() };
        let (day, minute) = (below(28) + 1, below(60));
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            r#"{{"startTime":"2026-01-{day:02}T10:{minute:02}:00Z","createdAt":"2026-01-01T00:00:00Z","after":"2026-11-15T00:00:00Z","recurrence":{{"frequency":"{frequency}","interval":{interval}{schedule}{zone}{count}}}}}"#
        );
    }
    text
}

fn time_answers(input: &str) -> anyhow::Result<Duration> {
    let binary = std::env::var_os("KALENDS").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/kalends");
    let binary = binary.unwrap_or_else(beside);
    let begin = now();
    let mut child = Command::new(&binary)
        .args(["next", "--jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} (build it with `make run`)", binary.display()))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output()
    })?;
    let passed = begin.elapsed();
    let answers = output.stdout.iter().filter(|&&byte| byte == b'\n').count();
    ensure!(answers == LINES, "{answers} answers to {LINES} lines");
    Ok(passed)
}

fn time_parsing(input: &str) -> anyhow::Result<Duration> {
    let begin = now();
    for line in input.lines() {
        std::hint::black_box(serde_json::from_str::<serde_json::Value>(line)?);
    }
    Ok(begin.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}

fn lines_a_second(mut durations: Vec<Duration>) -> f64 {
    durations.sort();
    LINES as f64 / durations[ROUNDS / 2].as_secs_f64()
}
