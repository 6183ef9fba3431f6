//! Kalends and other schedulers in one run; see bench/README.md.
//!
//! ```text
//! scripts/with-postgres --durable peers [--quick] [--rounds N] [--burst COUNT] [--seconds N]
//!                                       [--only NAME] …
//! ```
//!
//! `--only` selects contenders whose name contains a text. `KALENDS` sets the path of the binary,
//! `PEERS` the folder in which `bench/peers/install` installed the other schedulers.

mod measure;
mod report;

use anyhow::{Context as _, bail};
use kalends_bench::engine::sink;
use kalends_bench::engine::sink::Sink;
use kalends_bench::peers::contender::{Contender, Programs, all};
use kalends_bench::peers::database::Postgres;
use kalends_bench::peers::workload::Load;
use kalends_bench::peers::{floor, machine, now};

use crate::measure::Bench;

/// Settings of a run.
struct Options {
    is_quick: bool,
    rounds: usize,
    burst: usize,
    seconds: usize,
    only: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sink"] => sink::serve(),
        // The protocol of contenders; see bench/peers/README.md.
        ["load", ..] => Ok(()),
        ["work", count, first, spacing] => {
            let load =
                Load { count: count.parse()?, first: first.parse()?, spacing: spacing.parse()? };
            floor::run(&std::env::var("SINK")?, load)
        }
        words => {
            let options = options(words)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(compare(&options))
        }
    }
}

fn options(words: &[&str]) -> anyhow::Result<Options> {
    let is_quick = words.contains(&"--quick");
    let mut options = Options {
        is_quick,
        rounds: if is_quick { 1 } else { 3 },
        burst: if is_quick { 3_000 } else { 50_000 },
        seconds: if is_quick { 3 } else { 10 },
        only: vec![],
    };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word {
            "--quick" => {}
            "--rounds" => options.rounds = value()?.parse()?,
            "--burst" => options.burst = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--only" => options.only.push((*value()?).to_owned()),
            _ => bail!("unknown argument {word}"),
        }
    }
    Ok(options)
}

async fn compare(options: &Options) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("kalends-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let machine = machine::describe(&folder)?;
    let programs = Programs::from_environment();
    let is_selected = |contender: &Contender| {
        options.only.is_empty() || options.only.iter().any(|text| contender.name.contains(text))
    };
    let contenders: Vec<_> = all().into_iter().filter(is_selected).collect();
    let sink = Sink::start()?;
    let postgres = Postgres::connect().await?;
    let mut bench = Bench::new(programs, sink, postgres, folder.clone());
    let mut results = report::Results::new(machine, now());
    // In each round every contender is measured once, so that a disturbance affects all alike.
    for round in 1..=options.rounds {
        results.wrk.push(bench.wrk()?);
        for contender in &contenders {
            eprint!("round {round}, {}: ", contender.name);
            match bench.burst(contender, options.burst).await {
                Ok(burst) => {
                    eprintln!("{:.0} runs/s", burst.runs_per_second());
                    results.of(contender).bursts.push(burst);
                }
                Err(error) => {
                    eprintln!("{error:#}");
                    results.of(contender).failures.push(format!("burst: {error:#}"));
                    continue;
                }
            }
            // A short lateness measurement once is enough for a quick run.
            if options.is_quick && round > 1 {
                continue;
            }
            eprint!("round {round}, {}: ", contender.name);
            match bench.steady(contender, options.seconds).await {
                Ok(steady) => {
                    eprintln!("late by {:.2} / {:.2} ms", steady.p50, steady.p99);
                    results.of(contender).steady.push(steady);
                }
                Err(error) => {
                    eprintln!("{error:#}");
                    results.of(contender).failures.push(format!("steady: {error:#}"));
                }
            }
        }
    }
    for contender in &contenders {
        results.of(contender).describe(contender, &bench)?;
    }
    results.write(options.is_quick)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
