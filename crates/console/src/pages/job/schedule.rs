//! The tab "Schedule": a year of days, past and coming.

use std::time::Duration;

use jiff::ToSpan as _;
use jiff::civil::Date;
use kalends_recurrence::Instant;
use serde_json::Value;

use super::Job;
use super::runs::occurrences;
use crate::api::{Api, ApiFailure, Json as _};
use crate::chart::{Calendar, CalendarData, DailyRate};
use crate::view::{PageRequest, View};

/// Weeks before the present one, unless the URL says otherwise.
const WEEKS_BEFORE: i64 = 13;
/// Weeks that the links move the calendar by.
const WEEKS_MOVED: i64 = 26;
/// Pages of 100 occurrences that are read for the past, and for the coming.
const PAGES_MAX: u32 = 20;
/// A job with a shorter time between two occurrences runs often.
const OFTEN: Duration = Duration::from_secs(3 * 3_600);

pub(super) struct Schedule {
    pub(super) calendar: Calendar,
    /// The days that the calendar leaves out, in a sentence.
    pub(super) limit: String,
    pub(super) earlier: String,
    pub(super) later: String,
    pub(super) is_default: bool,
}

impl Schedule {
    pub(super) async fn load(
        job: &Job<'_>,
        request: &PageRequest<'_>,
        view: &View,
        api: &dyn Api,
    ) -> Result<Schedule, ApiFailure> {
        let today = Calendar::date_of(view.now, view);
        let wanted = request.parameter("from").parse::<Date>().ok();
        let default = Calendar::first_day(today, -WEEKS_BEFORE);
        let first = wanted.map_or(default, |date| Calendar::first_day(date, 0));
        let (start, end) = Calendar::span(first, view);
        let rate = daily_rate(job, today, view, api).await;
        // Occurrences are read oldest first: of a job with many, the newest past ones.
        let readable = job.interval().map(|interval| interval * (PAGES_MAX * 90));
        let past_end = view.now.min(end);
        let past_start = match readable {
            Some(readable) => past_end.saturating_sub(readable).max(start),
            None => start,
        };
        let past_start = past_start.max(job.created().unwrap_or(start).min(past_end));
        let coming_start = view.now.next_tick().max(start);
        let pages = PAGES_MAX as usize;
        let mut rows = Vec::new();
        let mut known = (past_start, end);
        let mut limits = Vec::new();
        if past_start < past_end {
            let past = occurrences(job, past_start, past_end, pages, api).await;
            if past_start > start.max(job.created().unwrap_or(start)) {
                limits.push(format!("the past from {}", view.date_time(past_start)));
            }
            rows.extend(past.rows);
        }
        if coming_start < end && rate.is_none() {
            let coming = occurrences(job, coming_start, end, pages, api).await;
            let last = coming.rows.last().and_then(|row| row.time("scheduledTime"));
            if let Some(last) = last.filter(|_| coming.has_more) {
                known.1 = last;
                limits.push(format!("coming runs until {}", view.date_time(last)));
            }
            rows.extend(coming.rows);
        }
        let limit = match limits.is_empty() {
            true => String::new(),
            false => format!("This job has many occurrences: shown are {}.", limits.join(" and ")),
        };
        let moved = |weeks| format!("?tab=schedule&from={}", Calendar::first_day(first, weeks));
        let data = CalendarData { rows: &rows, known, first, today, rate };
        Ok(Schedule {
            calendar: Calendar::new(&data, view),
            limit,
            earlier: moved(-WEEKS_MOVED),
            later: moved(WEEKS_MOVED),
            is_default: first == default,
        })
    }
}

/// The coming runs per day of a job that runs often and each day alike, as counted tomorrow. Its
/// occurrences are too many to read.
async fn daily_rate(job: &Job<'_>, today: Date, view: &View, api: &dyn Api) -> Option<DailyRate> {
    let recurrence = job.job.member("properties.recurrence");
    let is_coming = job.coming.iter().any(|row| row.text("disposition") == "Scheduled");
    let is_often = job.interval().is_some_and(|interval| interval <= OFTEN);
    if !is_coming || !is_often || !repeats_daily(recurrence) || recurrence.has("count") {
        return None;
    }
    let day = |days: i64| Calendar::span(today.saturating_add(days.days()), view).0;
    let tomorrow = occurrences(job, day(1), day(2).previous_tick(), PAGES_MAX as usize, api).await;
    let runs = tomorrow.rows.len() as u64;
    let until = recurrence.time("endTime").unwrap_or(Instant::MAX);
    (runs > 0 && !tomorrow.has_more).then_some(DailyRate { runs, until })
}

/// Whether a schedule has no restriction to certain days.
fn repeats_daily(recurrence: &Value) -> bool {
    let cron = recurrence.text("cron");
    match cron.is_empty() {
        false => cron.split_whitespace().skip(2).eq(["*", "*", "*"]),
        true => {
            let frequency = recurrence.text("frequency").to_ascii_lowercase();
            let days = ["weekDays", "monthDays", "monthlyOccurrences", "months"];
            let has_days = days.iter().any(|name| recurrence.has(&format!("schedule.{name}")));
            matches!(frequency.as_str(), "minute" | "hour" | "day") && !has_days
        }
    }
}
