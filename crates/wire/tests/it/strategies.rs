//! Strategies for random definitions within all limits.

use std::time::Duration;

use kalends_domain::{
    Action, BrokeredProperties, ErrorAction, Extensions, Headers, HttpAuthentication, HttpRequest,
    JobDefinition, Limits, MainAction, MessageFormat, Method, MissedPolicy, MissedRuns, Overlap,
    RetryKind, RetryPolicy, Secret, ServiceBusAuthentication, ServiceBusAuthenticationKind,
    ServiceBusMessage, Signing, StorageQueueMessage, Switch, Target, TimeToLive, Transport, Uri,
    Verbatim,
};
use kalends_recurrence::{
    Frequency, Instant, Interval, MonthlyOccurrence, Recurrence, RecurrencePattern, Schedule,
    Weekday, Zone,
};
use kalends_wire::{parse_duration, write_duration};
use proptest::collection::{hash_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn text() -> impl Strategy<Value = String> {
    "[ -~äß€\u{1f600}\n\t]{0,20}"
}

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9]{5,10}"
}

fn secret() -> impl Strategy<Value = Secret> {
    text().prop_map(Secret::new)
}

pub(crate) fn instant() -> impl Strategy<Value = Instant> {
    let range = Instant::MIN.ticks()..=Instant::MAX.ticks();
    range.prop_map(|ticks| Instant::from_ticks(ticks).unwrap())
}

/// Generates a duration in multiples of 100 ns, in one of its formats.
pub(crate) fn written(seconds: std::ops::RangeInclusive<u64>) -> BoxedStrategy<Verbatim<Duration>> {
    (seconds, prop_oneof![Just(0), 1..10_000_000_u32], any::<bool>())
        .prop_map(|(seconds, ticks, is_iso)| {
            let value = Duration::new(seconds, if seconds > 100 { ticks * 100 } else { 0 });
            let text = if is_iso { write_duration(value) } else { time_span(value) };
            assert_eq!(parse_duration(&text), Some(value), "{text}");
            Verbatim::new(&text, value)
        })
        .boxed()
}

fn time_span(value: Duration) -> String {
    let seconds = value.as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let days = if days > 0 { format!("{days}.") } else { String::new() };
    match value.subsec_nanos() / 100 {
        0 => format!("{days}{clock}"),
        ticks => format!("{days}{clock}.{ticks:07}"),
    }
}

fn pairs(name: &'static str) -> BoxedStrategy<Vec<(String, String)>> {
    // Names are case-insensitive, so they must differ by more than case.
    hash_map(name, "[ -~]{0,20}", 0..5)
        .prop_map(|map| {
            let mut pairs: Vec<(String, String)> = Vec::new();
            for (name, value) in map {
                if pairs.iter().all(|(other, _)| !other.eq_ignore_ascii_case(&name)) {
                    pairs.push((name, value.trim().to_owned()));
                }
            }
            pairs
        })
        .boxed()
}

/// The members that a definition may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Members {
    /// Members of the old versions.
    Old,
    /// All members, including those of the newest version.
    All,
}

fn extension<S>(members: Members, strategy: S) -> BoxedStrategy<Option<S::Value>>
where
    S: Strategy + 'static,
    S::Value: Clone + 'static,
{
    match members {
        Members::Old => Just(None).boxed(),
        Members::All => of(strategy).boxed(),
    }
}

fn authentication() -> BoxedStrategy<HttpAuthentication> {
    prop_oneof![
        (word(), secret()).prop_map(|(username, password)| HttpAuthentication::Basic {
            username: Some(username),
            password: Some(password),
        }),
        (secret(), secret()).prop_map(|(pfx, password)| HttpAuthentication::ClientCertificate {
            pfx: Some(pfx),
            password: Some(password),
            certificate: None,
        }),
        (word(), word(), secret()).prop_map(|(tenant, client, secret)| {
            HttpAuthentication::ActiveDirectoryOAuth {
                tenant: Some(tenant),
                audience: Some("https://example.com/".to_owned()),
                client_id: Some(client),
                secret: Some(secret),
            }
        }),
    ]
    .boxed()
}

fn http() -> BoxedStrategy<(String, Target)> {
    let headers = (pairs("x-[a-z]{1,8}"), of("[!-~]{0,20}")).prop_map(|(mut headers, key)| {
        headers.extend(key.map(|key| ("X-Api-Key".to_owned(), key)));
        Headers::new(headers, &Limits::default()).unwrap()
    });
    let method = select(vec!["GET", "get", "Post", "OPTIONS"]);
    let kind = select(vec!["Http", "http", "HTTPS", "Https"]);
    let path = ("[a-z]{1,8}", "[A-Za-z0-9%${}]{0,8}");
    let parts = (path, method, kind, of(headers), of(text()), of(authentication()));
    parts
        .prop_map(|((path, signature), method, kind, headers, body, authentication)| {
            let uri = format!("https://example.com/{path}?a=%2d&sig={signature}&b=#c");
            let request = HttpRequest {
                uri: Uri::new(&uri, &Limits::default()).unwrap(),
                method: Method::new(method).unwrap(),
                headers,
                body,
                authentication: authentication.map(Box::new),
            };
            (kind.to_owned(), Target::Http(request))
        })
        .boxed()
}

fn storage(members: Members) -> BoxedStrategy<(String, Target)> {
    let format = extension(members, select(vec![MessageFormat::Envelope, MessageFormat::Raw]));
    (word(), word(), secret(), text(), format)
        .prop_map(|(account, queue, token, message, format)| {
            let message = StorageQueueMessage {
                storage_account: Some(account),
                queue_name: Some(queue),
                sas_token: Some(token),
                message: Some(message),
                format: format.unwrap_or_default(),
            };
            ("StorageQueue".to_owned(), Target::StorageQueue(message))
        })
        .boxed()
}

fn brokered() -> BoxedStrategy<BrokeredProperties> {
    let life = prop_oneof![
        written(1..=1_000_000).prop_map(TimeToLive::For),
        instant().prop_map(TimeToLive::Until),
    ];
    let texts = (of(word()), of(word()), of(word()));
    (texts, of(any::<bool>()), of(instant()), of(life))
        .prop_map(
            |((content_type, label, message_id), force_persistence, enqueue, time_to_live)| {
                BrokeredProperties {
                    content_type,
                    label,
                    message_id: message_id.clone(),
                    session_id: message_id,
                    force_persistence,
                    scheduled_enqueue_time_utc: enqueue,
                    time_to_live,
                    ..BrokeredProperties::default()
                }
            },
        )
        .boxed()
}

fn service_bus() -> BoxedStrategy<(String, Target)> {
    use Transport::{Amqp, NetMessaging, NotSpecified};
    let transport = of(select(vec![NotSpecified, NetMessaging, Amqp]));
    let custom = of(pairs("[a-z]{1,8}"));
    let parts = (word(), word(), transport, secret(), text(), of(brokered()), custom);
    (parts, any::<bool>())
        .prop_map(|(parts, is_queue)| {
            let (entity, namespace, transport, key, message, brokered, custom) = parts;
            let message = ServiceBusMessage {
                entity: Some(entity),
                namespace: Some(namespace),
                transport,
                authentication: Some(ServiceBusAuthentication {
                    kind: Some(ServiceBusAuthenticationKind::SharedAccessKey),
                    sas_key_name: Some("key".to_owned()),
                    sas_key: Some(key),
                }),
                message: Some(message),
                brokered: brokered.map(Box::new),
                custom,
            };
            match is_queue {
                true => ("serviceBusQueue".to_owned(), Target::ServiceBusQueue(message)),
                false => ("ServiceBusTopic".to_owned(), Target::ServiceBusTopic(message)),
            }
        })
        .boxed()
}

fn action(members: Members) -> BoxedStrategy<Action> {
    let any = prop_oneof![http(), storage(members), service_bus()];
    any.prop_map(|(type_as_written, target)| Action { type_as_written, target }).boxed()
}

fn retry(members: Members) -> BoxedStrategy<RetryPolicy> {
    let kind = select(match members {
        Members::Old => vec![RetryKind::None, RetryKind::Fixed],
        Members::All => vec![RetryKind::None, RetryKind::Fixed, RetryKind::Exponential],
    });
    let wait = || written(15..=18 * 30 * 86_400);
    let bounds = (extension(members, wait()), extension(members, wait()));
    (kind, of(wait()), of(0..=20_u32), bounds)
        .prop_map(|(kind, interval, count, (interval_max, age_max))| RetryPolicy {
            kind,
            interval,
            count,
            interval_max,
            age_max,
        })
        .boxed()
}

fn schedule() -> BoxedStrategy<Schedule> {
    let weekday = || select(Weekday::ALL.to_vec());
    let occurrence = (weekday(), of(-5..=5_i64))
        .prop_map(|(day, occurrence)| MonthlyOccurrence { day, occurrence });
    let numbers = || of(vec(-31..=59_i64, 0..4));
    (
        numbers(),
        numbers(),
        numbers(),
        numbers(),
        of(vec(weekday(), 0..4)),
        of(vec(occurrence, 0..3)),
    )
        .prop_map(|(minutes, hours, month_days, months, week_days, monthly_occurrences)| Schedule {
            minutes,
            hours,
            month_days,
            months,
            week_days,
            monthly_occurrences,
        })
        .boxed()
}

fn recurrence(members: Members) -> BoxedStrategy<Recurrence> {
    let zone = extension(members, select(vec!["Europe/Berlin", "America/New_York"]));
    let first_day = extension(members, select(Weekday::ALL.to_vec()));
    let frequency = select(Frequency::ALL.to_vec());
    (frequency, 1..100_i64, of(1..100_i64), of(instant()), zone, first_day, of(schedule()))
        .prop_map(|(frequency, interval, count, end, zone, first_day, schedule)| Recurrence {
            pattern: RecurrencePattern::Interval(Interval {
                frequency,
                interval,
                first_day_of_week: first_day.unwrap_or(Weekday::Sunday),
                schedule,
            }),
            count,
            end,
            zone: zone.map(|name| Zone::named(name).unwrap()),
        })
        .boxed()
}

fn extensions(members: Members) -> BoxedStrategy<Extensions> {
    let policy = select(vec![MissedPolicy::Skip, MissedPolicy::Last, MissedPolicy::All]);
    let missed = (policy, of(written(1..=100_000)))
        .prop_map(|(policy, within)| MissedRuns { policy, within });
    (
        extension(members, text()),
        extension(members, pairs("[a-z]{1,8}")),
        extension(members, missed),
        extension(members, select(vec![Overlap::Skip, Overlap::QueueOne, Overlap::Allow])),
        extension(members, written(1..=100_000)),
        extension(members, written(1..=1_799)),
        extension(members, select(vec![Signing::On, Signing::Off])),
    )
        .prop_map(|(description, tags, missed_runs, overlap, jitter, timeout, signing)| {
            Extensions { description, tags, missed_runs, overlap, jitter, timeout, signing }
        })
        .boxed()
}

/// Generates a complete definition, including secrets.
pub(crate) fn job(members: Members) -> BoxedStrategy<JobDefinition> {
    let error = (action(members), of(retry(members)))
        .prop_map(|(action, retry)| ErrorAction { action, retry: retry.map(Box::new) });
    let main = (action(members), of(retry(members)), of(error)).prop_map(
        |(action, retry, error_action)| MainAction {
            action,
            retry: retry.map(Box::new),
            error_action: error_action.map(Box::new),
        },
    );
    let switch = select(vec![Switch::Enabled, Switch::Disabled]);
    let recurrence = of(recurrence(members));
    (of(instant()), main, recurrence, switch, extensions(members))
        .prop_map(|(start, action, recurrence, switch, extensions)| JobDefinition {
            start,
            action,
            recurrence: recurrence.map(Box::new),
            switch,
            extensions,
        })
        .boxed()
}
