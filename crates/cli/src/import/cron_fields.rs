//! Fields of cron expressions in the dialects of the sources.

/// The values of a field and how it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldValues {
    /// Bit n: value n.
    pub(super) bits: u64,
    /// `L` in a day of the month.
    pub(super) has_last: bool,
    /// Weekday and its number in the month, −1 for the last: `3#2`, `5L`.
    pub(super) occurrences: Vec<(u32, i32)>,
    /// Whether the text begins with `*` or is `?`.
    pub(super) begins_with_star: bool,
    /// Whether the text selects every value: `*`, `?`, `*/1`.
    pub(super) is_every: bool,
}

/// The syntax of a field.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) min: u32,
    pub(super) max: u32,
    /// Names of the values from `min`.
    pub(super) names: &'static [&'static str],
    /// `?`, and `L` and `#` with their meaning in Quartz.
    pub(super) has_quartz_syntax: bool,
}

pub(super) const MONTH_NAMES: &[&str] =
    &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
pub(super) const WEEKDAY_NAMES: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    /// Parses a field. The error is a sentence about the expression.
    pub(super) fn parse(&self, text: &str) -> Result<FieldValues, String> {
        let mut values = FieldValues {
            begins_with_star: text.starts_with('*') || text == "?",
            is_every: matches!(text, "*" | "?" | "*/1"),
            ..FieldValues::default()
        };
        for item in text.split(',') {
            self.parse_item(item, &mut values)?;
        }
        Ok(values)
    }

    fn parse_item(&self, item: &str, values: &mut FieldValues) -> Result<(), String> {
        if self.has_quartz_syntax && self.parse_quartz_item(item, values)? {
            return Ok(());
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)),
            None => (item, Some(1)),
        };
        let step: usize = step.ok_or_else(|| self.error(item))?;
        let (first, last) = match range.split_once('-') {
            _ if range == "*" || range == "?" && self.has_quartz_syntax => (self.min, self.max),
            Some((first, last)) => (self.value(first, item)?, self.value(last, item)?),
            None => {
                let value = self.value(range, item)?;
                (value, if item.contains('/') { self.max } else { value })
            }
        };
        if first > last {
            return Err(self.error(item));
        }
        for value in (first..=last).step_by(step) {
            values.bits |= 1 << value;
        }
        Ok(())
    }

    /// Parses `L`, `5L` and `3#2`. Returns `false` for any other item.
    fn parse_quartz_item(&self, item: &str, values: &mut FieldValues) -> Result<bool, String> {
        let is_weekday = self.names.len() == WEEKDAY_NAMES.len();
        if item.eq_ignore_ascii_case("L") {
            match is_weekday {
                // The last day of the week.
                true => values.bits |= 1 << self.max,
                false => values.has_last = true,
            }
            return Ok(true);
        }
        if !is_weekday {
            return match item.to_ascii_uppercase().contains('W') {
                true => Err(format!(
                    "the day of month {item:?} is the weekday nearest to a date, which has no equivalent"
                )),
                false => Ok(false),
            };
        }
        if let Some((day, number)) = item.split_once('#') {
            let number = number.parse().ok().filter(|number| (1..=5).contains(number));
            let number = number.ok_or_else(|| self.error(item))?;
            values.occurrences.push((self.value(day, item)?, number));
            return Ok(true);
        }
        if let Some(day) = item.strip_suffix(['L', 'l']) {
            values.occurrences.push((self.value(day, item)?, -1));
            return Ok(true);
        }
        Ok(false)
    }

    fn value(&self, text: &str, item: &str) -> Result<u32, String> {
        let number = text.parse().ok().filter(|number| (self.min..=self.max).contains(number));
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|position| u32::try_from(position).ok());
        let named = named.map(|position| position + self.min);
        number.or(named).ok_or_else(|| self.error(item))
    }

    fn error(&self, item: &str) -> String {
        let Field { name, min, max, .. } = self;
        format!("the {name} must have values from {min} to {max} (found {item:?})")
    }
}

/// The values of a set of bits, in ascending order.
pub(super) fn numbers(bits: u64) -> Vec<u32> {
    (0..64).filter(|value| bits >> value & 1 == 1).collect()
}
