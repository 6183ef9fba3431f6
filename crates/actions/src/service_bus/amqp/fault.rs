//! What the AMQP library and the broker report, as failures of ours.

use fe2o3_amqp::connection::OpenError;
use fe2o3_amqp::link::{
    DetachError, LinkStateError, ReceiverAttachError, RecvError, SendError, SenderAttachError,
};
use fe2o3_amqp::session::BeginError;
use fe2o3_amqp::types::definitions::{AmqpError, Error, ErrorCondition, LinkError};
use fe2o3_amqp::types::messaging::Outcome;

use crate::service_bus::failure::Failure;

/// What became of a message that was handed over.
pub(super) fn judge(outcome: Result<Outcome, SendError>) -> Result<(), Failure> {
    match outcome {
        Ok(Outcome::Accepted(_)) => Ok(()),
        Ok(Outcome::Rejected(rejected)) => Err(match rejected.error {
            Some(error) => broker_failure(&error),
            None => Failure::Refused("Rejected The broker gives no reason".into()),
        }),
        Ok(Outcome::Released(_) | Outcome::Modified(_)) => {
            Err(Failure::Refused("Released The broker has no place for the message".into()))
        }
        Err(why) => Err(match said(&why) {
            Some(error) => match broker_failure(error) {
                Failure::Refused(words) => Failure::Indeterminate(words),
                known => known,
            },
            None => Failure::Indeterminate(format!("ReceiveFailure {why}")),
        }),
    }
}

/// A message that was not handed over.
pub(super) fn unsent(why: &SendError) -> Failure {
    if let SendError::MessageSizeExceeded(size) = why {
        return Failure::Quota(format!(
            "The message has {} bytes; the queue or topic takes {}",
            size.size, size.max_size
        ));
    }
    said(why).map_or_else(|| Failure::Unreachable(format!("SendFailure {why}")), broker_failure)
}

/// What the broker said when it closed a link.
fn said(why: &SendError) -> Option<&Error> {
    match why {
        SendError::LinkStateError(
            LinkStateError::RemoteClosedWithError(error)
            | LinkStateError::RemoteDetachedWithError(error),
        )
        | SendError::Detached(
            DetachError::RemoteClosedWithError(error) | DetachError::RemoteDetachedWithError(error),
        ) => Some(error),
        _ => None,
    }
}

/// The broker closed the connection before anything was handed over.
pub(super) fn closed_failure() -> Failure {
    Failure::Unreachable("ConnectFailure The broker closed the connection".into())
}

/// The broker closed the connection while a message was handed over or waited for.
pub(super) fn cut_off() -> Failure {
    Failure::Indeterminate("ReceiveFailure The broker closed the connection".into())
}

pub(super) fn open_failure(why: OpenError) -> Failure {
    match why {
        OpenError::SaslError { code, .. } => {
            Failure::Unauthorised(format!("the broker refuses the key ({code:?})"))
        }
        OpenError::RemoteClosedWithError(error) => broker_failure(&error),
        why => Failure::Unreachable(format!("ConnectFailure {why}")),
    }
}

pub(super) fn begin_failure(why: BeginError) -> Failure {
    match why {
        BeginError::RemoteEndedWithError(error) => broker_failure(&error),
        why => Failure::Unreachable(format!("ConnectFailure {why}")),
    }
}

pub(super) fn attach_failure(why: SenderAttachError) -> Failure {
    match why {
        SenderAttachError::RemoteClosedWithError(error) => broker_failure(&error),
        why => Failure::Unreachable(format!("ConnectFailure {why}")),
    }
}

pub(super) fn receiver_attach_failure(why: ReceiverAttachError) -> Failure {
    match why {
        ReceiverAttachError::RemoteClosedWithError(error) => broker_failure(&error),
        why => Failure::Unreachable(format!("ConnectFailure {why}")),
    }
}

pub(super) fn receive_failure(why: &RecvError) -> Failure {
    Failure::Unreachable(format!("ReceiveFailure {why}"))
}

fn broker_failure(error: &Error) -> Failure {
    let words = error.description.clone().unwrap_or_default();
    match &error.condition {
        ErrorCondition::AmqpError(AmqpError::UnauthorizedAccess) => Failure::Unauthorised(words),
        ErrorCondition::AmqpError(AmqpError::NotFound) => Failure::Missing(words),
        ErrorCondition::AmqpError(AmqpError::ResourceLimitExceeded)
        | ErrorCondition::LinkError(LinkError::MessageSizeExceeded) => Failure::Quota(words),
        ErrorCondition::Custom(name) => match name.as_str() {
            "com.microsoft:auth-failed" => Failure::Unauthorised(words),
            "com.microsoft:entity-disabled" => Failure::Missing(words),
            "com.microsoft:server-busy" => Failure::Busy { why: words, retry_after: None },
            "com.microsoft:timeout" => Failure::Indeterminate(format!("Timeout {words}")),
            other => Failure::Refused(format!("{other} {words}")),
        },
        condition => Failure::Refused(format!("{condition:?} {words}")),
    }
}

#[cfg(test)]
mod tests {
    use fe2o3_amqp::types::messaging::{Accepted, Rejected, Released};
    use fe2o3_amqp::types::primitives::Symbol;

    use super::*;

    #[test]
    fn what_the_broker_says_is_told_apart() {
        let rejected = |condition: ErrorCondition| {
            let error = Error::new(condition, "why".to_owned(), None);
            judge(Ok(Outcome::Rejected(Rejected { error: Some(error) }))).unwrap_err().to_string()
        };
        let custom = |name: &str| ErrorCondition::Custom(Symbol::from(name));
        assert_eq!(rejected(AmqpError::UnauthorizedAccess.into()), "Unauthorized why");
        assert_eq!(
            rejected(AmqpError::NotFound.into()),
            "NotFound The queue or topic does not exist: why"
        );
        assert_eq!(rejected(AmqpError::ResourceLimitExceeded.into()), "QuotaExceeded why");
        assert_eq!(rejected(custom("com.microsoft:server-busy")), "ServerBusy why");
        assert_eq!(rejected(custom("com.microsoft:odd")), "com.microsoft:odd why");
        assert_eq!(judge(Ok(Outcome::Accepted(Accepted {}))), Ok(()));
        assert!(judge(Ok(Outcome::Released(Released {}))).is_err());
    }

    #[test]
    fn what_breaks_after_a_message_was_handed_over_is_unknown() {
        let broken = SendError::LinkStateError(LinkStateError::RemoteClosed);
        assert!(matches!(judge(Err(broken)), Err(Failure::Indeterminate(_))));
    }
}
