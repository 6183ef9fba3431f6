//! Cron expressions: five fields, or a shorthand such as `@daily`.
//!
//! Days follow the rule of Vixie cron: if both the day of the month and the day of the week are
//! restricted, either matches. A field that begins with `*` is not restricted.

use std::fmt;
use std::str::FromStr;

use crate::definition::{Frequency, MonthlyOccurrence, Schedule, Weekday};
use crate::expand::Days;

/// Longest accepted expression, in bytes.
const TEXT_MAX: usize = 256;

const ALL_HOURS: u64 = (1 << 24) - 1;
const ALL_MONTH_DAYS: u64 = ((1 << 31) - 1) << 1;
const ALL_MONTHS: u64 = ((1 << 12) - 1) << 1;
const ALL_WEEK_DAYS: u64 = (1 << 7) - 1;

const SHORTHANDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const MONTH_NAMES: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAY_NAMES: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A cron expression.
///
/// ```
/// use kalends_recurrence::Cron;
///
/// let cron: Cron = "30 2 * * MON-FRI".parse().unwrap();
/// assert_eq!(cron.to_string(), "30 2 * * MON-FRI");
/// assert!("61 * * * *".parse::<Cron>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// The expression as it was written.
    text: String,
    /// Bit m: minute m.
    pub(crate) minutes: u64,
    /// Bit h: hour h.
    pub(crate) hours: u32,
    /// Bit m: month m, from 1.
    months: u32,
    /// Bit d: day d of the month, from 1.
    month_days: u32,
    /// Whether the last day of the month is selected (`L`).
    has_last_day: bool,
    /// Bit w: every weekday w, Sunday = 0.
    week_days: u32,
    /// Weekdays of the month, such as the second Monday (`1#2`) or the last Friday (`5L`).
    monthly_occurrences: Vec<MonthlyOccurrence>,
    /// Whether the hour field begins with `*`: the rule follows elapsed time in DST transitions.
    pub(crate) follows_elapsed_time: bool,
    /// How the two day fields select days together.
    day_rule: DayRule,
}

/// How the day of the month and the day of the week select days together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayRule {
    /// A day must match both, one of which begins with `*`.
    Both,
    /// Both are restricted: a day must match one of them.
    Either,
}

/// The error of [`Cron::from_str`]: a sentence without its subject, which is the expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CronError(String);

impl Cron {
    /// The days of each month that the expression selects.
    pub(crate) fn days(&self) -> Days {
        let mut numbers = numbers(self.month_days.into());
        if self.has_last_day {
            numbers.push(-1);
        }
        let month_days = Days::numbered(&numbers);
        let week_days = Days::weekdays(&self.weekday_occurrences());
        match self.day_rule {
            DayRule::Both => month_days.and(&week_days),
            DayRule::Either => month_days.or(&week_days),
        }
    }

    /// Bit m: month m of the year is selected, January = 0.
    pub(crate) fn months_from_zero(&self) -> u32 {
        self.months >> 1
    }

    fn weekday_occurrences(&self) -> Vec<MonthlyOccurrence> {
        let every = self.weekdays().into_iter();
        let every = every.map(|day| MonthlyOccurrence { day, occurrence: None });
        every.chain(self.monthly_occurrences.iter().copied()).collect()
    }

    fn weekdays(&self) -> Vec<Weekday> {
        let all = Weekday::ALL.into_iter();
        all.filter(|&day| self.week_days >> (day as u32) & 1 == 1).collect()
    }

    /// A frequency and a schedule with the same occurrences, if there are such. The interval is 1.
    pub fn to_schedule(&self) -> Option<(Frequency, Schedule)> {
        let all_week_days = u64::from(self.week_days) == ALL_WEEK_DAYS;
        let all_month_days = u64::from(self.month_days) == ALL_MONTH_DAYS;
        let all_months = u64::from(self.months) == ALL_MONTHS;
        let is_every_hour = u64::from(self.hours) == ALL_HOURS;
        let mut schedule = Schedule {
            minutes: Some(numbers(self.minutes)),
            hours: (!(is_every_hour && self.follows_elapsed_time))
                .then(|| numbers(self.hours.into())),
            months: (!all_months).then(|| numbers(self.months.into())),
            ..Schedule::default()
        };
        if all_month_days && all_week_days && all_months {
            return Some((Frequency::Day, schedule));
        }
        if all_month_days && self.monthly_occurrences.is_empty() && all_months {
            schedule.week_days = Some(self.weekdays());
            return Some((Frequency::Week, schedule));
        }
        if all_month_days && !all_week_days && self.day_rule == DayRule::Both {
            schedule.monthly_occurrences = Some(self.weekday_occurrences());
            return Some((Frequency::Month, schedule));
        }
        if all_week_days {
            let last = self.has_last_day.then_some(-1);
            schedule.month_days =
                Some(numbers(self.month_days.into()).into_iter().chain(last).collect());
            return Some((Frequency::Month, schedule));
        }
        None
    }

    /// The days by number and the days by weekday, as schedules.
    pub(crate) fn day_schedules(&self) -> (Schedule, Schedule) {
        let last = self.has_last_day.then_some(-1);
        let month_days = numbers(self.month_days.into()).into_iter().chain(last).collect();
        let common = Schedule {
            minutes: Some(numbers(self.minutes)),
            hours: Some(numbers(self.hours.into())),
            months: (u64::from(self.months) != ALL_MONTHS).then(|| numbers(self.months.into())),
            ..Schedule::default()
        };
        let by_number = Schedule { month_days: Some(month_days), ..common.clone() };
        let occurrences = Some(self.weekday_occurrences());
        (by_number, Schedule { monthly_occurrences: occurrences, ..common })
    }

    /// Whether a day must match the day of the month as well as the day of the week.
    pub(crate) fn needs_both_days(&self) -> bool {
        self.day_rule == DayRule::Both
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Cron, CronError> {
        if text.len() > TEXT_MAX {
            let found = text.len();
            return Err(CronError(format!("is longer than {TEXT_MAX} characters (found {found})")));
        }
        let expanded = expand_shorthand(text.trim())?;
        let fields: Vec<_> = expanded.split_ascii_whitespace().collect();
        let [minute, hour, month_day, month, week_day] = fields[..] else {
            return Err(wrong_number_of_fields(text, fields.len()));
        };
        let minutes = MINUTE.parse(minute)?;
        let hours = HOUR.parse(hour)?;
        let months = MONTH.parse(month)?;
        let month_days = MONTH_DAY.parse(month_day)?;
        let week_days = WEEK_DAY.parse(week_day)?;
        let is_open = |field: &str| field.starts_with('*');
        let day_rule = match is_open(month_day) || is_open(week_day) {
            true => DayRule::Both,
            false => DayRule::Either,
        };
        // 7 is Sunday, like 0.
        let week_day_bits = (week_days.bits | week_days.bits >> 7) & ALL_WEEK_DAYS;
        Ok(Cron {
            text: text.to_owned(),
            minutes: minutes.bits,
            hours: hours.bits as u32,
            months: months.bits as u32,
            month_days: month_days.bits as u32,
            has_last_day: month_days.has_last,
            week_days: week_day_bits as u32,
            monthly_occurrences: week_days.occurrences,
            follows_elapsed_time: is_open(hour),
            day_rule,
        })
    }
}

fn expand_shorthand(text: &str) -> Result<&str, CronError> {
    if !text.starts_with('@') {
        return Ok(text);
    }
    let found = SHORTHANDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, fields)| *fields).ok_or_else(|| {
        let names: Vec<_> = SHORTHANDS.iter().map(|(name, _)| *name).collect();
        CronError(format!(
            "has an unknown shorthand (found \"{}\"); allowed are {}",
            shortened(text),
            names.join(", ")
        ))
    })
}

fn wrong_number_of_fields(text: &str, number: usize) -> CronError {
    let hint = match number {
        6 => "; a field for seconds is not supported",
        7 => "; fields for seconds and years are not supported",
        _ if text.contains("TZ=") => "; set recurrence.timeZone instead of TZ",
        _ => "",
    };
    CronError(format!(
        "must have five fields: minute, hour, day of month, month, day of week (found {number} in \"{}\"){hint}",
        shortened(text)
    ))
}

/// The values that a field selects.
#[derive(Default)]
struct Selection {
    /// Bit n: value n.
    bits: u64,
    /// Whether the day of the month has `L`.
    has_last: bool,
    /// Weekdays of the month, from `#` and `L`.
    occurrences: Vec<MonthlyOccurrence>,
}

/// The syntax of one field.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names of the values from `names_from`.
    names: &'static [&'static str],
    names_from: u32,
}

const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[], names_from: 0 };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[], names_from: 0 };
const MONTH_DAY: Field = Field { name: "day of month", min: 1, max: 31, names: &[], names_from: 0 };
const MONTH: Field = Field { name: "month", min: 1, max: 12, names: &MONTH_NAMES, names_from: 1 };
/// 7 is Sunday as well as 0.
const WEEK_DAY: Field =
    Field { name: "day of week", min: 0, max: 7, names: &WEEKDAY_NAMES, names_from: 0 };

impl Field {
    fn parse(&self, text: &str) -> Result<Selection, CronError> {
        let mut selection = Selection::default();
        for item in text.split(',') {
            self.parse_item(item, &mut selection)?;
        }
        Ok(selection)
    }

    fn parse_item(&self, item: &str, selection: &mut Selection) -> Result<(), CronError> {
        if self.is_week_day() {
            if let Some((day, number)) = item.split_once('#') {
                let day = self.weekday(day, item)?;
                let number = number.parse().ok().filter(|number| (1..=5).contains(number));
                let number = number.ok_or_else(|| {
                    self.error("needs a number from 1 to 5 after #, such as MON#2", item)
                })?;
                let occurrence = Some(number);
                selection.occurrences.push(MonthlyOccurrence { day, occurrence });
                return Ok(());
            }
            if let Some(day) = item.strip_suffix(['L', 'l']).filter(|day| !day.is_empty()) {
                let day = self.weekday(day, item)?;
                selection.occurrences.push(MonthlyOccurrence { day, occurrence: Some(-1) });
                return Ok(());
            }
        }
        if item.eq_ignore_ascii_case("l") {
            if self.name != MONTH_DAY.name {
                return Err(self.error(
                    "has an L without a weekday; allowed are L for the last day of the month, or a weekday before it, such as 5L for the last Friday",
                    item,
                ));
            }
            selection.has_last = true;
            return Ok(());
        }
        let (range, step) = match item.split_once('/') {
            None => (item, None),
            Some((range, step)) => {
                let step: Option<u32> = step.parse().ok().filter(|step| (1..=60).contains(step));
                let step =
                    step.ok_or_else(|| self.error("needs a step of at least 1 after /", item))?;
                (range, Some(step))
            }
        };
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (self.min, self.last_of_star()),
            (_, Some((first, last))) => self.range(first, last, item)?,
            (value, None) => {
                let value = self.value(value, item)?;
                // `5/15` begins at 5 and goes on to the end.
                (value, if step.is_some() { self.last_of_star().max(value) } else { value })
            }
        };
        let step = usize::try_from(step.unwrap_or(1)).unwrap_or(1);
        for value in (first..=last).step_by(step) {
            selection.bits |= 1 << value;
        }
        Ok(())
    }

    fn range(&self, first: &str, last: &str, item: &str) -> Result<(u32, u32), CronError> {
        let (first, mut last) = (self.value(first, item)?, self.value(last, item)?);
        // SAT-SUN and 6-0.
        if self.is_week_day() && last == 0 && first > 0 {
            last = 7;
        }
        if first > last {
            let problem = format!(
                "has a range that ends before it begins; write it as two ranges, such as {first}-{},{}-{last}",
                self.last_of_star(),
                self.min
            );
            return Err(self.error(&problem, item));
        }
        Ok((first, last))
    }

    fn value(&self, text: &str, item: &str) -> Result<u32, CronError> {
        let by_name = self.names.iter().zip(self.names_from..);
        let by_name = by_name.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        if let Some((_, value)) = by_name {
            return Ok(value);
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().ok().filter(|_| is_number);
        value.filter(|value| (self.min..=self.max).contains(value)).ok_or_else(|| {
            let names = match self.names {
                [first, .., last] => {
                    format!(" or {}-{}", first.to_uppercase(), last.to_uppercase())
                }
                _ => String::new(),
            };
            let unsupported = match text {
                "?" => "; ? is not supported, write *",
                _ if text.eq_ignore_ascii_case("h") => "; H is not supported, use jitter",
                _ if text.ends_with(['W', 'w']) => "; W is not supported",
                _ => "",
            };
            let problem = format!("must be {}-{}{names}{unsupported}", self.min, self.max);
            self.error(&problem, item)
        })
    }

    fn weekday(&self, text: &str, item: &str) -> Result<Weekday, CronError> {
        let value = self.value(text, item)?;
        let day = Weekday::ALL.into_iter().find(|&day| day as u32 == value % 7);
        day.ok_or_else(|| self.error("must be a weekday", item))
    }

    fn is_week_day(&self) -> bool {
        self.name == WEEK_DAY.name
    }

    /// The last value of `*`: 6 for weekdays.
    fn last_of_star(&self) -> u32 {
        if self.is_week_day() { 6 } else { self.max }
    }

    fn error(&self, problem: &str, item: &str) -> CronError {
        CronError(format!("{} {problem} (found \"{}\")", self.name, shortened(item)))
    }
}

/// The numbers of the bits that are set, ascending.
pub(crate) fn numbers(bits: u64) -> Vec<i64> {
    (0..64).filter(|bit| bits >> bit & 1 == 1).collect()
}

/// At most 64 characters of a text from a user, without control characters.
fn shortened(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str) -> Option<(Frequency, Schedule)> {
        text.parse::<Cron>().unwrap().to_schedule()
    }

    fn error(text: &str) -> String {
        text.parse::<Cron>().unwrap_err().to_string()
    }

    #[test]
    fn fields_are_parsed_with_names_lists_ranges_and_steps() {
        let cron: Cron = "*/20,1-3 8-18/5,23 1,15 jan-MAR,12 MON-fri".parse().unwrap();
        assert_eq!(numbers(cron.minutes), [0, 1, 2, 3, 20, 40]);
        assert_eq!(numbers(cron.hours.into()), [8, 13, 18, 23]);
        assert_eq!(numbers(cron.month_days.into()), [1, 15]);
        assert_eq!(numbers(cron.months.into()), [1, 2, 3, 12]);
        assert_eq!(numbers(cron.week_days.into()), [1, 2, 3, 4, 5]);
        assert_eq!(cron.day_rule, DayRule::Either);
        assert_eq!(numbers("5/15 * * * *".parse::<Cron>().unwrap().minutes), [5, 20, 35, 50]);
    }

    #[test]
    fn sunday_is_0_and_7() {
        for (text, expected) in [
            ("0 0 * * 0", vec![0]),
            ("0 0 * * 7", vec![0]),
            ("0 0 * * SAT-SUN", vec![0, 6]),
            ("0 0 * * 5-7", vec![0, 5, 6]),
            ("0 0 * * 5-0", vec![0, 5, 6]),
            ("0 0 * * *", vec![0, 1, 2, 3, 4, 5, 6]),
            ("0 0 * * */2", vec![0, 2, 4, 6]),
            ("0 0 * * 1/2", vec![1, 3, 5]),
        ] {
            assert_eq!(numbers(text.parse::<Cron>().unwrap().week_days.into()), expected, "{text}");
        }
    }

    #[test]
    fn shorthands_are_expanded_and_kept_as_written() {
        let daily: Cron = "@Daily".parse().unwrap();
        assert_eq!(daily.to_string(), "@Daily");
        assert_eq!(daily.to_schedule(), schedule("0 0 * * *"));
        assert!(error("@reboot").contains("allowed are @yearly, @annually, @monthly"));
    }

    #[test]
    fn expressions_have_equal_schedules_where_the_schedule_can_express_them() {
        let (frequency, every_hour) = schedule("15 * * * *").unwrap();
        assert_eq!((frequency, every_hour.hours), (Frequency::Day, None));
        let (frequency, weekly) = schedule("0 2 * * 1-5").unwrap();
        assert_eq!((frequency, weekly.week_days.unwrap().len()), (Frequency::Week, 5));
        let (frequency, monthly) = schedule("0 2 1,L 6 *").unwrap();
        assert_eq!((frequency, monthly.month_days), (Frequency::Month, Some(vec![1, -1])));
        assert_eq!(monthly.months, Some(vec![6]));
        let (frequency, second) = schedule("0 2 * * MON#2,5L").unwrap();
        let occurrences = second.monthly_occurrences.unwrap();
        assert_eq!((frequency, occurrences.len()), (Frequency::Month, 2));
        assert_eq!(schedule("0 2 13 * 5"), None);
        assert_eq!(schedule("0 2 */2 * 5"), None);
    }

    #[test]
    fn errors_name_the_field_the_value_and_the_remedy() {
        assert_eq!(error("61 * * * *"), "minute must be 0-59 (found \"61\")");
        assert!(
            error("* * * * FOO").contains("day of week must be 0-7 or SUN-SAT (found \"FOO\")")
        );
        assert!(error("0 0 2 * * *").contains("a field for seconds is not supported"));
        assert!(
            error("CRON_TZ=UTC 0 2 * * *").contains("seconds")
                || error("TZ=UTC 0 2 * *").contains("five")
        );
        assert!(error("0 0 ? * MON").contains("? is not supported, write *"));
        assert!(error("H * * * *").contains("H is not supported"));
        assert!(error("0 0 15W * *").contains("W is not supported"));
        assert!(error("0 22-2 * * *").contains("such as 22-23,0-2"));
        assert!(error("*/0 * * * *").contains("a step of at least 1"));
        assert!(error("0 0 * * L").contains("5L for the last Friday"));
        assert!(error("0 0 * * MON#6").contains("from 1 to 5"));
        assert!(error("").contains("found 0"));
        assert!(error("-1 * * * *").contains("minute must be"));
        assert!(error("+1 * * * *").contains("minute must be"));
        assert!(error(&"1".repeat(300)).contains("longer than 256"));
    }
}
