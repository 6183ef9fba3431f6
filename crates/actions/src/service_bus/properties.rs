//! The properties of a message, with defaults applied, for both transports.

use std::time::Duration;

use kalends_domain::{BrokeredProperties, ServiceBusMessage, TimeToLive};
use kalends_recurrence::Instant;

use super::error::ServiceBusError;

/// The properties of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Properties<'a> {
    /// The job's own id, or the idempotency key: it is the same for all attempts of an occurrence, so
    /// that the broker's duplicate detection drops repetitions.
    pub(super) message_id: &'a str,
    pub(super) brokered: Option<&'a BrokeredProperties>,
    pub(super) time_to_live: Option<Duration>,
    pub(super) sent_at: Instant,
    pub(super) custom: &'a [(String, String)],
}

impl<'a> Properties<'a> {
    pub(super) fn of(
        message: &'a ServiceBusMessage,
        idempotency_key: &'a str,
        now: Instant,
    ) -> Result<Properties<'a>, ServiceBusError> {
        let brokered = message.brokered.as_deref();
        let own_id = brokered.and_then(|brokered| brokered.message_id.as_deref());
        let life = brokered.and_then(|brokered| brokered.time_to_live.as_ref());
        let time_to_live = match life {
            None => None,
            Some(TimeToLive::For(life)) => Some(*life.value()),
            Some(TimeToLive::Until(until)) => {
                let ticks =
                    u64::try_from(until.ticks() - now.ticks()).ok().filter(|left| *left > 0);
                let ticks = ticks.ok_or(ServiceBusError::Expired(*until))?;
                Some(Duration::from_nanos(ticks.saturating_mul(100)))
            }
        };
        Ok(Properties {
            message_id: own_id.filter(|id| !id.is_empty()).unwrap_or(idempotency_key),
            brokered,
            time_to_live,
            sent_at: now,
            custom: message.custom.as_deref().unwrap_or_default(),
        })
    }

    /// A text property of the job, if it has one.
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

    /// A message with all properties.
    pub(in crate::service_bus) fn message(life: TimeToLive) -> ServiceBusMessage {
        let text = |text: &str| Some(text.to_owned());
        ServiceBusMessage {
            entity: text("orders"),
            namespace: text("contoso-ns"),
            transport: None,
            authentication: None,
            message: text("hello"),
            brokered: Some(Box::new(BrokeredProperties {
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
            })),
            custom: Some(vec![("color".into(), "blü \"e".into()), ("size".into(), "9".into())]),
        }
    }

    pub(in crate::service_bus) fn two_days() -> TimeToLive {
        TimeToLive::For(Verbatim::new("P2D", Duration::from_secs(172_800)))
    }

    #[test]
    fn time_to_live_is_a_duration_or_a_time_and_the_id_defaults_to_the_idempotency_key() {
        let now: Instant = "2026-11-15T12:00:00Z".parse().unwrap();
        let life = |life| {
            let message = message(life);
            let properties = Properties::of(&message, "tag", now)?;
            assert_eq!(properties.message_id, "tag");
            Ok::<_, ServiceBusError>(properties.time_to_live)
        };
        assert_eq!(life(two_days()).unwrap(), Some(Duration::from_secs(172_800)));
        let until = |text: &str| TimeToLive::Until(text.parse().unwrap());
        let left = life(until("2026-11-15T12:00:01.5Z")).unwrap();
        assert_eq!(left, Some(Duration::from_millis(1_500)));
        assert!(matches!(life(until("2026-11-15T12:00:00Z")), Err(ServiceBusError::Expired(_))));
        let mut own = message(two_days());
        own.brokered.as_mut().unwrap().message_id = Some("mine".into());
        assert_eq!(Properties::of(&own, "tag", now).unwrap().message_id, "mine");
    }
}
