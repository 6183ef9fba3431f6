//! Invalid definitions: error code, member, and the allowed values in the message.

use kalends_wire::ErrorCode;

use crate::rule;

const CREATED: &str = "2029-12-01T00:00:00Z";

/// Compares the first error of a definition.
fn check(text: &str, code: ErrorCode, path: &str, phrase: &str) {
    let errors = rule(text, CREATED).map(|rule| rule.describe()).expect_err(text);
    let first = errors.iter().next().expect("a mistake");
    assert_eq!((first.code, first.path.as_str()), (code, path), "{text}: {first}");
    assert!(first.message.contains(phrase), "{text}: {first}");
}

fn recurrence(members: &str) -> String {
    format!(r#"{{"startTime":"2030-01-01T00:00:00Z","recurrence":{{{members}}}}}"#)
}

fn schedule(frequency: &str, members: &str) -> String {
    recurrence(&format!(r#""frequency":"{frequency}","schedule":{{{members}}}"#))
}

#[test]
fn bodies_of_another_type_are_rejected() {
    for text in ["null", "[]", "\"x\"", "123"] {
        check(text, ErrorCode::InvalidRequestContent, "", "must be an object with");
    }
    check(
        r#"{"properties":"x"}"#,
        ErrorCode::InvalidRequestContent,
        "properties",
        "found a string",
    );
    check(r#"{"recurrence":5}"#, ErrorCode::InvalidRequestContent, "recurrence", "(found 5)");
    let nested = r#"{"properties":{"recurrence":{"frequency":"day","interval":0}}}"#;
    check(nested, ErrorCode::InvalidRecurrence, "recurrence.interval", "between 1 and 548");
}

#[test]
fn invalid_start_times_are_rejected() {
    let start = |value: &str| format!(r#"{{"startTime":{value}}}"#);
    for value in [
        r#""yesterday""#,
        r#""""#,
        "123",
        r#""2030-02-30T00:00Z""#,
        r#""2030-13-01""#,
        r#""2030-01-01T24:00:00Z""#,
        r#""2030-01-01T23:59:60Z""#,
        r#""2030-01-01T00:00:00+25:00""#,
        r#""0000-01-01T00:00:00Z""#,
        r#""+12030-01-01""#,
    ] {
        check(&start(value), ErrorCode::InvalidDateTime, "startTime", "");
    }
    for value in [r#""2031-06-01T00:00:00.0000001Z""#, r#""9999-12-31T23:59:59Z""#] {
        check(&start(value), ErrorCode::StartTimeOutOfRange, "startTime", "18 months");
    }
    assert!(rule(&start(r#""2031-06-01T00:00:00Z""#), CREATED).is_ok());
}

#[test]
fn invalid_frequencies_intervals_and_counts_are_rejected() {
    check(&recurrence(""), ErrorCode::MissingRequiredProperty, "recurrence.frequency", "minute");
    for frequency in [r#""Second""#, r#""fortnight""#, r#""""#, "1", r#""day ""#] {
        let text = recurrence(&format!(r#""frequency":{frequency}"#));
        check(&text, ErrorCode::InvalidRecurrence, "recurrence.frequency", "");
    }
    for interval in ["0", "-1", "1.5", "\"1\"", "true", "1e3", "99999999999999999999"] {
        let text = recurrence(&format!(r#""frequency":"day","interval":{interval}"#));
        check(&text, ErrorCode::InvalidRecurrence, "recurrence.interval", "must be ");
    }
    let limits =
        [("Minute", 1000), ("Hour", 1000), ("Day", 548), ("Week", 78), ("Month", 18), ("Year", 1)];
    for (frequency, max) in limits {
        let text =
            |interval| recurrence(&format!(r#""frequency":"{frequency}","interval":{interval}"#));
        assert!(rule(&text(max), CREATED).is_ok(), "{frequency}");
        let allowed = format!("between 1 and {max}");
        check(&text(max + 1), ErrorCode::RecurrenceSpanExceeded, "recurrence.interval", &allowed);
    }
    assert!(rule(&recurrence(r#""frequency":"day","interval":null"#), CREATED).is_ok());
    for count in ["0", "-1", "1.5", "\"5\"", "1000000000000000000", "2147483648"] {
        let text = recurrence(&format!(r#""frequency":"day","count":{count}"#));
        check(&text, ErrorCode::InvalidRecurrence, "recurrence.count", "must be ");
    }
    assert!(rule(&recurrence(r#""frequency":"minute","count":2147483647"#), CREATED).is_ok());
}

#[test]
fn invalid_schedules_are_rejected() {
    let check_schedule = |frequency: &str, members: &str, member: &str, phrase: &str| {
        let path = format!("recurrence.schedule{member}");
        check(&schedule(frequency, members), ErrorCode::InvalidSchedule, &path, phrase);
    };
    check_schedule("day", "", "", "must have minutes, hours");
    check_schedule("day", r#""hours":null"#, "", "must have minutes, hours");
    check_schedule("day", r#""hours":[24]"#, ".hours[0]", "write 0 for midnight");
    check_schedule("day", r#""hours":[1,-1]"#, ".hours[1]", "between 0 and 23");
    check_schedule("day", r#""minutes":[60]"#, ".minutes[0]", "between 0 and 59");
    check_schedule("day", r#""minutes":60"#, ".minutes[0]", "between 0 and 59");
    check_schedule("day", r#""minutes":[]"#, ".minutes", "between 1 and 60 entries (found 0)");
    check_schedule("day", r#""minutes":["1"]"#, ".minutes[0]", "whole number");
    let too_many = format!(r#""hours":[{}0]"#, "0,".repeat(24));
    check_schedule("day", &too_many, ".hours", "(found 25)");
    for number in ["0", "32", "-32"] {
        let members = format!(r#""monthDays":[{number}]"#);
        check_schedule("month", &members, ".monthDays[0]", "between 1 and 31");
    }
    check_schedule("month", r#""monthDays":[1.5]"#, ".monthDays[0]", "whole number");
    check_schedule("month", r#""monthDays":[]"#, ".monthDays", "(found 0)");
    check_schedule(
        "day",
        r#""monthDays":[1]"#,
        ".monthDays",
        "requires frequency \"month\" or \"year\"",
    );
    check_schedule("week", r#""monthDays":[1]"#, ".monthDays", "(found \"week\")");
    check_schedule(
        "month",
        r#""weekDays":["monday"]"#,
        ".weekDays",
        "requires frequency \"week\" (found \"month\")",
    );
    let monday = r#""monthlyOccurrences":[{"day":"monday"}]"#;
    check_schedule(
        "week",
        monday,
        ".monthlyOccurrences",
        "requires frequency \"month\" or \"year\"",
    );
    let both = format!(r#""monthDays":[1],{monday}"#);
    check_schedule("month", &both, ".monthlyOccurrences", "combined with monthDays");
    check_schedule("week", r#""weekDays":["Funday"]"#, ".weekDays[0]", "Sunday, Monday");
    let eight = format!(r#""weekDays":[{}"monday"]"#, r#""monday","#.repeat(7));
    check_schedule("week", &eight, ".weekDays", "(found 8)");
    for wanted in ["0", "6", "-6"] {
        let members = format!(r#""monthlyOccurrences":[{{"day":"monday","occurrence":{wanted}}}]"#);
        check_schedule("month", &members, ".monthlyOccurrences[0].occurrence", "between 1 and 5");
    }
    let no_day = r#""monthlyOccurrences":[{"occurrence":1}]"#;
    check_schedule("month", no_day, ".monthlyOccurrences[0].day", "missing");
    check_schedule(
        "week",
        r#""months":[2]"#,
        ".months",
        "requires frequency \"month\" or \"year\"",
    );
    check_schedule("month", r#""months":[0]"#, ".months[0]", "between 1 and 12");
    check_schedule("year", r#""months":[13]"#, ".months[0]", "between 1 and 12");
}

#[test]
fn duplicates_and_scalars_in_lists_are_accepted() {
    let text = schedule("week", r#""weekDays":["Monday","MONDAY"],"hours":5,"minutes":[0,0]"#);
    let rule = rule(&text, CREATED).unwrap();
    let first: Vec<_> = rule.occurrences().take(2).map(|at| at.to_string()).collect();
    assert_eq!(first, ["2030-01-07T05:00:00Z", "2030-01-14T05:00:00Z"]);
    let interval = rule
        .definition()
        .recurrence
        .as_ref()
        .and_then(kalends_recurrence::Recurrence::interval)
        .unwrap();
    let kept = interval.schedule.as_ref().unwrap();
    assert_eq!(kept.minutes, Some(vec![0, 0]));
}

#[test]
fn unknown_time_zones_are_rejected() {
    let zone = |value: &str| recurrence(&format!(r#""frequency":"day","timeZone":{value}"#));
    check(&zone(r#""Mars/Olympus""#), ErrorCode::InvalidRecurrence, "recurrence.timeZone", "IANA");
    check(
        &zone("1"),
        ErrorCode::InvalidRecurrence,
        "recurrence.timeZone",
        "must be a string (found 1)",
    );
    assert!(rule(&zone(r#""europe/berlin""#), CREATED).is_ok());
}

#[test]
fn a_schedule_that_never_fires_is_rejected_but_one_that_fires_rarely_is_not() {
    let yearly = |start: &str, members: &str| {
        format!(
            r#"{{"startTime":"{start}T00:00:00Z","recurrence":{{"frequency":"month","interval":12,"schedule":{{{members}}}}}}}"#
        )
    };
    for text in [
        yearly("2030-02-01", r#""monthDays":[30]"#),
        yearly("2030-04-01", r#""monthDays":[31]"#),
        yearly("2030-04-01", r#""monthDays":[-31]"#),
        yearly("2030-04-01", r#""monthDays":[1],"months":[5]"#),
        recurrence(r#""frequency":"hour","interval":2,"schedule":{"hours":[1,3,5]}"#),
        recurrence(r#""frequency":"minute","interval":60,"schedule":{"minutes":[30]}"#),
        recurrence(
            r#""frequency":"minute","interval":60,"timeZone":"Europe/Berlin","schedule":{"minutes":[30]}"#,
        ),
    ] {
        check(&text, ErrorCode::RecurrenceNeverFires, "recurrence", "400-year");
    }
    for (text, expected) in [
        (yearly("2030-02-01", r#""monthDays":[29]"#), "2032-02-29T00:00:00Z"),
        (
            yearly("2030-02-01", r#""monthlyOccurrences":[{"day":"Monday","occurrence":5}]"#),
            "2044-02-29T00:00:00Z",
        ),
        // Lord Howe Island shifts by half an hour for DST, which produces occurrences at half past.
        (
            recurrence(
                r#""frequency":"minute","interval":60,"timeZone":"Australia/Lord_Howe","schedule":{"minutes":[30]}"#,
            ),
            "2030-04-06T15:00:00Z",
        ),
    ] {
        let first = rule(&text, CREATED).expect(&text).first().map(|at| at.to_string());
        assert_eq!(first.as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = schedule("day", r#""hours":["x",24],"minutes":[61],"weekDays":["Funday"]"#);
    let errors = rule(&text, CREATED).map(|rule| rule.describe()).unwrap_err();
    let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(paths, ["recurrence.schedule.hours[0]", "recurrence.schedule.weekDays[0]"]);
    let text = schedule("day", r#""hours":[25,24],"minutes":[61],"weekDays":["monday"]"#);
    let errors = rule(&text, CREATED).map(|rule| rule.describe()).unwrap_err();
    assert_eq!(errors.iter().count(), 4);
}
