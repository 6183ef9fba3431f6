//! The 31 example schedules of the retired service's documentation, all with interval 1 and start time
//! Wednesday 2026-03-04 12:25Z: description, first runs, and number of runs in April.

use crate::{instant, rule};

struct Example {
    number: usize,
    frequency: &'static str,
    schedule: &'static str,
    sentence: &'static str,
    first_runs: &'static [&'static str],
    runs_in_april: u64,
}

const fn example(
    number: usize,
    frequency: &'static str,
    schedule: &'static str,
    sentence: &'static str,
    first_runs: &'static [&'static str],
    runs_in_april: u64,
) -> Example {
    Example { number, frequency, schedule, sentence, first_runs, runs_in_april }
}

#[rustfmt::skip]
const EXAMPLES: [Example; 31] = [
    example(1, "Day", r#"{"hours":[5]}"#, "At 05:25 every day", &["03-05 05:25", "03-06 05:25", "03-07 05:25"], 30),
    example(2, "Day", r#"{"minutes":[15],"hours":[5]}"#, "At 05:15 every day", &["03-05 05:15", "03-06 05:15"], 30),
    example(3, "Day", r#"{"minutes":[15],"hours":[5,17]}"#, "At 05:15 and 17:15 every day", &["03-04 17:15", "03-05 05:15", "03-05 17:15"], 60),
    example(4, "Day", r#"{"minutes":[15,45],"hours":[5,17]}"#, "At 05:15, 05:45, 17:15 and 17:45 every day", &["03-04 17:15", "03-04 17:45", "03-05 05:15"], 120),
    example(5, "Day", r#"{"minutes":[0,15,30,45]}"#, "At minutes 0, 15, 30 and 45 of every hour, every day", &["03-04 12:30", "03-04 12:45", "03-04 13:00"], 2880),
    example(6, "Day", r#"{"hours":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23]}"#, "At minute 25 of every hour every day", &["03-04 12:25", "03-04 13:25", "03-04 14:25"], 720),
    example(7, "Day", r#"{"minutes":[0]}"#, "At minute 0 of every hour, every day", &["03-04 13:00", "03-04 14:00"], 720),
    example(8, "Day", r#"{"minutes":[15]}"#, "At minute 15 of every hour, every day", &["03-04 13:15", "03-04 14:15"], 720),
    example(9, "Week", r#"{"hours":[17],"weekDays":["saturday"]}"#, "At 17:25 every Saturday", &["03-07 17:25", "03-14 17:25"], 4),
    example(10, "Week", r#"{"hours":[17],"weekDays":["monday","wednesday","friday"]}"#, "At 17:25 every Monday, Wednesday and Friday", &["03-04 17:25", "03-06 17:25", "03-09 17:25"], 13),
    example(11, "Week", r#"{"minutes":[15,45],"hours":[17],"weekDays":["monday","wednesday","friday"]}"#, "At 17:15 and 17:45 every Monday, Wednesday and Friday", &["03-04 17:15", "03-04 17:45", "03-06 17:15"], 26),
    example(12, "Week", r#"{"hours":[5,17],"weekDays":["monday","wednesday","friday"]}"#, "At 05:25 and 17:25 every Monday, Wednesday and Friday", &["03-04 17:25", "03-06 05:25", "03-06 17:25"], 26),
    example(13, "Week", r#"{"minutes":[15,45],"hours":[5,17],"weekDays":["monday","wednesday","friday"]}"#, "At 05:15, 05:45, 17:15 and 17:45 every Monday, Wednesday and Friday", &["03-04 17:15", "03-04 17:45", "03-06 05:15"], 52),
    example(14, "Week", r#"{"minutes":[0,15,30,45],"weekDays":["monday","tuesday","wednesday","thursday","friday"]}"#, "At minutes 0, 15, 30 and 45 of every hour, every day from Monday to Friday", &["03-04 12:30", "03-04 12:45"], 2112),
    example(15, "Week", r#"{"minutes":[0,15,30,45],"hours":[9,10,11,12,13,14,15,16],"weekDays":["monday","tuesday","wednesday","thursday","friday"]}"#, "At minutes 0, 15, 30 and 45 of hours 9 to 16 every day from Monday to Friday", &["03-04 12:30", "03-04 12:45"], 704),
    example(16, "Week", r#"{"weekDays":["sunday"]}"#, "At 12:25 every Sunday", &["03-08 12:25", "03-15 12:25"], 4),
    example(17, "Week", r#"{"weekDays":["tuesday","thursday"]}"#, "At 12:25 every Tuesday and Thursday", &["03-05 12:25", "03-10 12:25"], 9),
    example(18, "Month", r#"{"minutes":[0],"hours":[6],"monthDays":[28]}"#, "At 06:00 on day 28 of every month", &["03-28 06:00", "04-28 06:00"], 1),
    example(19, "Month", r#"{"minutes":[0],"hours":[6],"monthDays":[-1]}"#, "At 06:00 on the last day of every month", &["03-31 06:00", "04-30 06:00"], 1),
    example(20, "Month", r#"{"minutes":[0],"hours":[6],"monthDays":[1,-1]}"#, "At 06:00 on day 1 and the last day of every month", &["03-31 06:00", "04-01 06:00", "04-30 06:00"], 2),
    example(21, "Month", r#"{"monthDays":[1,-1]}"#, "At 12:25 on day 1 and the last day of every month", &["03-31 12:25", "04-01 12:25"], 2),
    example(22, "Month", r#"{"monthDays":[1,14]}"#, "At 12:25 on day 1 and day 14 of every month", &["03-14 12:25", "04-01 12:25"], 2),
    example(23, "Month", r#"{"monthDays":[2]}"#, "At 12:25 on day 2 of every month", &["04-02 12:25", "05-02 12:25"], 1),
    example(24, "Month", r#"{"minutes":[0],"hours":[5],"monthlyOccurrences":[{"day":"friday","occurrence":1}]}"#, "At 05:00 on the first Friday of every month", &["03-06 05:00", "04-03 05:00"], 1),
    example(25, "Month", r#"{"monthlyOccurrences":[{"day":"friday","occurrence":1}]}"#, "At 12:25 on the first Friday of every month", &["03-06 12:25", "04-03 12:25"], 1),
    example(26, "Month", r#"{"monthlyOccurrences":[{"day":"friday","occurrence":-3}]}"#, "At 12:25 on the third-to-last Friday of every month", &["03-13 12:25", "04-10 12:25"], 1),
    example(27, "Month", r#"{"minutes":[15],"hours":[5],"monthlyOccurrences":[{"day":"friday","occurrence":1},{"day":"friday","occurrence":-1}]}"#, "At 05:15 on the first Friday and the last Friday of every month", &["03-06 05:15", "03-27 05:15", "04-03 05:15"], 2),
    example(28, "Month", r#"{"monthlyOccurrences":[{"day":"friday","occurrence":1},{"day":"friday","occurrence":-1}]}"#, "At 12:25 on the first Friday and the last Friday of every month", &["03-06 12:25", "03-27 12:25"], 2),
    example(29, "Month", r#"{"monthlyOccurrences":[{"day":"friday","occurrence":5}]}"#, "At 12:25 on the fifth Friday of every month", &["05-29 12:25", "07-31 12:25", "10-30 12:25"], 0),
    example(30, "Month", r#"{"minutes":[0,15,30,45],"monthlyOccurrences":[{"day":"friday","occurrence":-1}]}"#, "At minutes 0, 15, 30 and 45 of every hour, on the last Friday of every month", &["03-27 00:00", "03-27 00:15"], 96),
    example(31, "Month", r#"{"minutes":[15,45],"hours":[5,17],"monthlyOccurrences":[{"day":"wednesday","occurrence":3}]}"#, "At 05:15, 05:45, 17:15 and 17:45 on the third Wednesday of every month", &["03-18 05:15", "03-18 05:45", "03-18 17:15", "03-18 17:45"], 4),
];

#[test]
fn the_documented_schedules_run_as_documented() {
    for Example { number, frequency, schedule, sentence, first_runs, runs_in_april } in EXAMPLES {
        let text = format!(
            r#"{{"startTime":"2026-03-04T12:25:00Z","recurrence":{{"frequency":"{frequency}","schedule":{schedule}}}}}"#
        );
        let rule = rule(&text, "2026-03-01T00:00:00Z").expect(schedule);
        let found: Vec<_> = rule.occurrences().take(first_runs.len()).collect();
        let expected: Vec<_> = first_runs.iter().map(|text| instant(text)).collect();
        assert_eq!(found, expected, "example {number}: {schedule}");
        let (march, april) = ("2026-03-31T23:59:59.9999999Z", "2026-04-30T23:59:59.9999999Z");
        let in_april = rule.count_between(march.parse().unwrap(), april.parse().unwrap());
        assert_eq!(in_april, runs_in_april, "example {number}: {schedule}");
        assert_eq!(rule.describe(), format!("{sentence}, UTC"), "example {number}");
    }
}
