//! Checks that all contenders return the same results before they are timed.

use anyhow::{Context, Result, ensure};

use crate::recurrence::case::{Asks, Case};
use crate::recurrence::contender::Contender;
use crate::recurrence::kalends;

/// Fails unless all contenders return the same results for a case.
pub fn check(case: Case) -> Result<()> {
    let name = case.name();
    let ours = case.question(Contender::Kalends)?.context("Kalends takes part in every case")?;
    let ours = ours.answers();
    ensure!(ours.iter().all(Option::is_some), "{name}: kalends has no answer");
    for contender in Contender::ALL {
        let Some(question) = case.question(contender)? else {
            continue;
        };
        for (number, (theirs, ours)) in question.answers().into_iter().zip(&ours).enumerate() {
            ensure!(
                theirs == *ours,
                "{name}, input {number}: {} says {theirs:?}, kalends {ours:?}",
                contender.word()
            );
        }
    }
    if let Asks::Count(count) = case.0 {
        let walked = i64::try_from(kalends::count_one_by_one(count)?)?;
        ensure!(ours == [Some(walked)], "{name}: counted {ours:?}, but one by one {walked}");
    }
    Ok(())
}
