//! Times queries on recurrences, or runs one of them a given number of times for a profiler.
//!
//! ```text
//! recurrence                                        check, time, and print tables and goals
//! recurrence --list                                 cases and contenders, with two numbers of calls
//! recurrence --callgrind-case NAME CONTENDER CALLS  one case, so many calls, and nothing else
//! ```

use std::env;

use anyhow::{Context, Result, bail};
use kalends_bench::recurrence::{Case, Contender, Timed, check, report};
use kalends_bench::rounds::{Work, median_nanoseconds};

/// `rrule` needs up to two billion instructions per call, and a profiler is slow.
const CALLS_OF_RRULE: (usize, usize) = (1, 3);

fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => time_all(),
        ["--list"] => list(),
        ["--callgrind-case", name, contender, calls] => {
            let (case, contender) = (Case::named(name)?, Contender::named(contender)?);
            let work = case.work(contender)?.context("it does not take part in this case")?;
            work.run(calls.parse()?);
            Ok(())
        }
        _ => bail!("expected nothing, --list, or --callgrind-case NAME CONTENDER CALLS"),
    }
}

fn time_all() -> Result<()> {
    let cases = Case::all();
    for &case in &cases {
        check(case)?;
    }
    println!("All contenders gave the same answers in {} cases.\n", cases.len());
    let mut parts = Vec::new();
    for &case in &cases {
        for contender in Contender::ALL {
            if let Some(work) = case.work(contender)? {
                parts.push((case, contender, work));
            }
        }
    }
    let works: Vec<&dyn Work> = parts.iter().map(|(_, _, work)| work.as_ref()).collect();
    let mut figures = parts.iter().zip(median_nanoseconds(&works)).peekable();
    let mut timed = Vec::new();
    for case in cases {
        let mut nanoseconds = Vec::new();
        while let Some(((_, contender, _), took)) = figures.next_if(|((of, ..), _)| *of == case) {
            nanoseconds.push((*contender, took));
        }
        timed.push(Timed { case, nanoseconds });
    }
    print!("{}", report(&timed)?);
    Ok(())
}

/// The two numbers of calls differ by whole passes over the inputs, except for `rrule`.
fn list() -> Result<()> {
    for case in Case::all() {
        for contender in Contender::ALL {
            let Some(work) = case.work(contender)? else {
                continue;
            };
            let (few, many) = match contender {
                Contender::Rrule => CALLS_OF_RRULE,
                _ if work.pass() == 1 => (64, 192),
                _ => (work.pass(), 2 * work.pass()),
            };
            println!("{} {} {few} {many}", case.name(), contender.word());
        }
    }
    Ok(())
}
