//! Tables and goals.

use std::fmt::{self, Write as _};

use crate::recurrence::case::{Asks, Case, Count};
use crate::recurrence::contender::Contender;
use crate::recurrence::instants::Distance;
use crate::rounds::ROUNDS;

/// Maximum ratio of Kalends to hand-written code.
const BY_HAND_RATIO_MAX: f64 = 1.0;
/// Minimum ratio of the crate `cron` to Kalends.
const CRON_RATIO_MIN: f64 = 2.0;
/// Maximum ratio of a time far from the start time to a near one.
const FAR_RATIO_MAX: f64 = 1.5;
/// Maximum nanoseconds to count a year of a minutely rule.
const COUNT_NANOSECONDS_MAX: f64 = 1_000.0;

/// A case and its results.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The case.
    pub case: Case,
    /// Nanoseconds per call of each contender that takes part.
    pub nanoseconds: Vec<(Contender, f64)>,
}

impl Timed {
    fn of(&self, contender: Contender) -> Option<f64> {
        self.nanoseconds.iter().find(|(who, _)| *who == contender).map(|(_, took)| *took)
    }

    /// Ratio of the times of two contenders.
    fn ratio(&self, one: Contender, other: Contender) -> Option<f64> {
        Some(self.of(one)? / self.of(other)?)
    }

    fn fastest_peer_ratio(&self) -> Option<f64> {
        let ratios = Contender::PEERS.map(|peer| self.ratio(peer, Contender::Kalends));
        ratios.into_iter().flatten().min_by(f64::total_cmp)
    }
}

/// Markdown: three tables, then the goals.
pub fn report(timed: &[Timed]) -> Result<String, fmt::Error> {
    let mut text = String::new();
    writeln!(text, "Nanoseconds per call, medians of {ROUNDS} interleaved rounds.\n")?;
    write_next(&mut text, timed)?;
    write_counts(&mut text, timed)?;
    write_builds(&mut text, timed)?;
    write_goals(&mut text, timed)?;
    Ok(text)
}

fn write_next(text: &mut String, timed: &[Timed]) -> fmt::Result {
    writeln!(text, "## Next occurrence after an instant\n")?;
    writeln!(
        text,
        "| schedule | zone | from the anchor | kalends | by hand | cron | croner | rrule \
         | kalends ÷ by hand | fastest peer ÷ kalends |"
    )?;
    writeln!(text, "|---|---|---|--:|--:|--:|--:|--:|--:|--:|")?;
    for line in timed {
        let Asks::Next(schedule, place, distance) = line.case.0 else {
            continue;
        };
        let head = [schedule.in_words(), place.zone_name(), distance.word()];
        write!(text, "| {} ", head.join(" | "))?;
        write_nanoseconds(text, line, &Contender::ALL)?;
        let by_hand = line.ratio(Contender::Kalends, Contender::ByHand);
        writeln!(text, "| {} | {} |", ratio(by_hand), ratio(line.fastest_peer_ratio()))?;
    }
    writeln!(text)
}

fn write_counts(text: &mut String, timed: &[Timed]) -> fmt::Result {
    writeln!(text, "## How many occurrences\n")?;
    writeln!(text, "| counted | kalends |\n|---|--:|")?;
    for line in timed {
        let Asks::Count(count) = line.case.0 else {
            continue;
        };
        write!(text, "| {} ", count.in_words())?;
        write_nanoseconds(text, line, &[Contender::Kalends])?;
        writeln!(text, "|")?;
    }
    writeln!(text)
}

fn write_builds(text: &mut String, timed: &[Timed]) -> fmt::Result {
    const PARTS: [Contender; 4] =
        [Contender::Kalends, Contender::Cron, Contender::Croner, Contender::Rrule];
    writeln!(text, "## Making a rule\n")?;
    writeln!(
        text,
        "| schedule | zone | kalends | cron | croner | rrule | fastest peer ÷ kalends |"
    )?;
    writeln!(text, "|---|---|--:|--:|--:|--:|--:|")?;
    for line in timed {
        let Asks::Build(schedule, place) = line.case.0 else {
            continue;
        };
        write!(text, "| {} | {} ", schedule.in_words(), place.zone_name())?;
        write_nanoseconds(text, line, &PARTS)?;
        writeln!(text, "| {} |", ratio(line.fastest_peer_ratio()))?;
    }
    writeln!(text)
}

fn write_nanoseconds(text: &mut String, line: &Timed, parts: &[Contender]) -> fmt::Result {
    for &contender in parts {
        match line.of(contender) {
            Some(took) if took < 100.0 => write!(text, "| {took:.1} ")?,
            Some(took) => write!(text, "| {took:.0} ")?,
            None => write!(text, "| – ")?,
        }
    }
    Ok(())
}

fn ratio(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio < 10.0 => format!("{ratio:.2}"),
        Some(ratio) => format!("{ratio:.0}"),
        None => "–".to_owned(),
    }
}

fn write_goals(text: &mut String, timed: &[Timed]) -> fmt::Result {
    writeln!(text, "## Goals\n")?;
    let next = || timed.iter().filter(|line| matches!(line.case.0, Asks::Next(..)));
    let by_hand = next().filter_map(|line| {
        let ratio = line.ratio(Contender::Kalends, Contender::ByHand)?;
        Some((line.case.name(), ratio, ratio <= BY_HAND_RATIO_MAX))
    });
    write_goal(text, "every rule ≤ 1.00 × the code written by hand", by_hand)?;
    let cron = next().filter_map(|line| {
        let ratio = line.ratio(Contender::Cron, Contender::Kalends)?;
        Some((line.case.name(), ratio, ratio >= CRON_RATIO_MIN))
    });
    write_goal(text, "the crate cron ≥ 2.00 × every rule", cron)?;
    let far = next().filter_map(|far| {
        let Asks::Next(schedule, place, Distance::Far) = far.case.0 else {
            return None;
        };
        let near = Asks::Next(schedule, place, Distance::Near);
        let near = next().find(|line| line.case.0 == near)?;
        let ratio = far.of(Contender::Kalends)? / near.of(Contender::Kalends)?;
        Some((far.case.name(), ratio, ratio <= FAR_RATIO_MAX))
    });
    write_goal(text, "far ≤ 1.50 × near", far)?;
    let counts = timed.iter().filter_map(|line| match line.case.0 {
        Asks::Count(Count::YearOfMinutes | Count::YearOfMinutesOfHours) => {
            let took = line.of(Contender::Kalends)?;
            Some((line.case.name(), took, took <= COUNT_NANOSECONDS_MAX))
        }
        _ => None,
    });
    write_goal(text, "counting a year of a minutely rule ≤ 1,000 ns", counts)
}

/// Writes one line: the range of the ratios, and the cases that miss the goal.
fn write_goal(
    text: &mut String,
    goal: &str,
    figures: impl Iterator<Item = (String, f64, bool)>,
) -> fmt::Result {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut missed = Vec::new();
    for (name, figure, met) in figures {
        least = least.min(figure);
        most = most.max(figure);
        if !met {
            missed.push(format!("{name} {figure:.2}"));
        }
    }
    let verdict = if missed.is_empty() { "PASS" } else { "MISS" };
    write!(text, "* {verdict}: {goal}; measured {least:.2} to {most:.2}")?;
    match missed.as_slice() {
        [] => writeln!(text),
        missed => writeln!(text, "; missed by {}", missed.join(", ")),
    }
}
