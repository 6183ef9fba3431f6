//! The properties of a message, with what is filled in, as both transports send them.

use std::time::Duration;

use kalends_domain::{BrokeredProperties, ServiceBusMessage, TimeToLive};
use kalends_recurrence::Instant;

use super::failure::Failure;

/// What goes with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Properties<'a> {
    /// The job's own, or the execution tag: all attempts of an occurrence have the same, and the
    /// broker drops the second.
    pub(super) message_id: &'a str,
    pub(super) brokered: Option<&'a BrokeredProperties>,
    pub(super) time_to_live: Option<Duration>,
    pub(super) sent_at: Instant,
    pub(super) custom: &'a [(String, String)],
}

impl<'a> Properties<'a> {
    pub(super) fn of(
        message: &'a ServiceBusMessage,
        tag: &'a str,
        now: Instant,
    ) -> Result<Properties<'a>, Failure> {
        let brokered = message.brokered.as_ref();
        let own_id = brokered.and_then(|brokered| brokered.message_id.as_deref());
        let life = brokered.and_then(|brokered| brokered.time_to_live.as_ref());
        let time_to_live = match life {
            None => None,
            Some(TimeToLive::For(life)) => Some(*life.value()),
            Some(TimeToLive::Until(until)) => {
                let ticks =
                    u64::try_from(until.ticks() - now.ticks()).ok().filter(|left| *left > 0);
                let ticks = ticks.ok_or_else(|| {
                    Failure::Unsendable(format!(
                        "the message was to live until {until}, which is past"
                    ))
                })?;
                Some(Duration::from_nanos(ticks.saturating_mul(100)))
            }
        };
        Ok(Properties {
            message_id: own_id.filter(|id| !id.is_empty()).unwrap_or(tag),
            brokered,
            time_to_live,
            sent_at: now,
            custom: message.custom.as_deref().unwrap_or_default(),
        })
    }

    /// A property that the job gives.
    pub(super) fn text(
        &self,
        member: impl FnOnce(&'a BrokeredProperties) -> &'a Option<String>,
    ) -> Option<&'a str> {
        self.brokered.and_then(|brokered| member(brokered).as_deref())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use kalends_domain::Verbatim;

    use super::*;

    /// A message with every property.
    pub(in crate::service_bus) fn message(life: TimeToLive) -> ServiceBusMessage {
        let text = |text: &str| Some(text.to_owned());
        ServiceBusMessage {
            entity: text("orders"),
            namespace: text("contoso-ns"),
            transport: None,
            authentication: None,
            message: text("hello"),
            brokered: Some(BrokeredProperties {
                content_type: text("text/x"),
                correlation_id: text("correlation"),
                force_persistence: Some(true),
                label: text("labül\"\\"),
                message_id: None,
                partition_key: text("session"),
                reply_to: text("answers"),
                reply_to_session_id: text("theirs"),
                scheduled_enqueue_time_utc: Some("2027-01-02T03:04:05Z".parse().unwrap()),
                session_id: text("session"),
                time_to_live: Some(life),
                to: text("there"),
                via_partition_key: text("via"),
            }),
            custom: Some(vec![("color".into(), "blü \"e".into()), ("size".into(), "9".into())]),
        }
    }

    pub(in crate::service_bus) fn two_days() -> TimeToLive {
        TimeToLive::For(Verbatim::new("P2D", Duration::from_secs(172_800)))
    }

    #[test]
    fn a_life_may_be_a_span_or_a_date_and_the_identity_is_the_tag() {
        let now: Instant = "2026-11-15T12:00:00Z".parse().unwrap();
        let life = |life| {
            let message = message(life);
            let properties = Properties::of(&message, "tag", now)?;
            assert_eq!(properties.message_id, "tag");
            Ok::<_, Failure>(properties.time_to_live)
        };
        assert_eq!(life(two_days()), Ok(Some(Duration::from_secs(172_800))));
        let until = |text: &str| TimeToLive::Until(text.parse().unwrap());
        assert_eq!(life(until("2026-11-15T12:00:01.5Z")), Ok(Some(Duration::from_millis(1_500))));
        assert!(matches!(life(until("2026-11-15T12:00:00Z")), Err(Failure::Unsendable(_))));
        let mut own = message(two_days());
        own.brokered.as_mut().unwrap().message_id = Some("mine".into());
        assert_eq!(Properties::of(&own, "tag", now).unwrap().message_id, "mine");
    }
}
