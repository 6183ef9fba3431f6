//! Maps errors of the AMQP library and the broker to [`ServiceBusError`].

use fe2o3_amqp::connection::OpenError;
use fe2o3_amqp::link::{
    DetachError, LinkStateError, ReceiverAttachError, RecvError, SendError, SenderAttachError,
};
use fe2o3_amqp::session::BeginError;
use fe2o3_amqp::types::definitions::{AmqpError, Error, ErrorCondition, LinkError};
use fe2o3_amqp::types::messaging::Outcome;

use crate::service_bus::error::ServiceBusError;

/// The result of a message that was sent, from its delivery outcome.
pub(super) fn check_outcome(outcome: Result<Outcome, SendError>) -> Result<(), ServiceBusError> {
    match outcome {
        Ok(Outcome::Accepted(_)) => Ok(()),
        Ok(Outcome::Rejected(rejected)) => Err(match rejected.error {
            Some(error) => broker_error(&error),
            None => ServiceBusError::Rejected("Rejected The broker gives no reason".into()),
        }),
        Ok(Outcome::Released(_) | Outcome::Modified(_)) => Err(ServiceBusError::Rejected(
            "Released The broker has no place for the message".into(),
        )),
        Err(error) => Err(match remote_error(&error) {
            Some(remote) => match broker_error(remote) {
                ServiceBusError::Rejected(message) => ServiceBusError::Indeterminate(message),
                known => known,
            },
            None => ServiceBusError::Indeterminate(format!("ReceiveFailure {error}")),
        }),
    }
}

/// The error for a message that was not sent.
pub(super) fn not_sent(error: &SendError) -> ServiceBusError {
    if let SendError::MessageSizeExceeded(size) = error {
        return ServiceBusError::QuotaExceeded(format!(
            "The message has {} bytes; the queue or topic takes {}",
            size.size, size.max_size
        ));
    }
    remote_error(error)
        .map_or_else(|| ServiceBusError::Unreachable(format!("SendFailure {error}")), broker_error)
}

/// The error with which the broker closed a link.
fn remote_error(error: &SendError) -> Option<&Error> {
    match error {
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

/// The broker closed the connection before the message was sent.
pub(super) fn closed_before_send() -> ServiceBusError {
    ServiceBusError::Unreachable("ConnectFailure The broker closed the connection".into())
}

/// The broker closed the connection while the message was in flight.
pub(super) fn closed_in_flight() -> ServiceBusError {
    ServiceBusError::Indeterminate("ReceiveFailure The broker closed the connection".into())
}

pub(super) fn open_error(error: OpenError) -> ServiceBusError {
    match error {
        OpenError::SaslError { code, .. } => {
            ServiceBusError::Unauthorized(format!("the broker refuses the key ({code:?})"))
        }
        OpenError::RemoteClosedWithError(error) => broker_error(&error),
        error => ServiceBusError::Unreachable(format!("ConnectFailure {error}")),
    }
}

pub(super) fn begin_error(error: BeginError) -> ServiceBusError {
    match error {
        BeginError::RemoteEndedWithError(error) => broker_error(&error),
        error => ServiceBusError::Unreachable(format!("ConnectFailure {error}")),
    }
}

pub(super) fn attach_error(error: SenderAttachError) -> ServiceBusError {
    match error {
        SenderAttachError::RemoteClosedWithError(error) => broker_error(&error),
        error => ServiceBusError::Unreachable(format!("ConnectFailure {error}")),
    }
}

pub(super) fn receiver_attach_error(error: ReceiverAttachError) -> ServiceBusError {
    match error {
        ReceiverAttachError::RemoteClosedWithError(error) => broker_error(&error),
        error => ServiceBusError::Unreachable(format!("ConnectFailure {error}")),
    }
}

pub(super) fn receive_error(error: &RecvError) -> ServiceBusError {
    ServiceBusError::Unreachable(format!("ReceiveFailure {error}"))
}

/// Maps an AMQP error condition, including those of Service Bus.
fn broker_error(error: &Error) -> ServiceBusError {
    let message = error.description.clone().unwrap_or_default();
    match &error.condition {
        ErrorCondition::AmqpError(AmqpError::UnauthorizedAccess) => {
            ServiceBusError::Unauthorized(message)
        }
        ErrorCondition::AmqpError(AmqpError::NotFound) => ServiceBusError::NotFound(message),
        ErrorCondition::AmqpError(AmqpError::ResourceLimitExceeded)
        | ErrorCondition::LinkError(LinkError::MessageSizeExceeded) => {
            ServiceBusError::QuotaExceeded(message)
        }
        ErrorCondition::Custom(name) => match name.as_str() {
            "com.microsoft:auth-failed" => ServiceBusError::Unauthorized(message),
            "com.microsoft:entity-disabled" => ServiceBusError::NotFound(message),
            "com.microsoft:server-busy" => ServiceBusError::Busy { message, retry_after: None },
            "com.microsoft:timeout" => ServiceBusError::Indeterminate(format!("Timeout {message}")),
            other => ServiceBusError::Rejected(format!("{other} {message}")),
        },
        condition => ServiceBusError::Rejected(format!("{condition:?} {message}")),
    }
}

#[cfg(test)]
mod tests {
    use fe2o3_amqp::types::messaging::{Accepted, Rejected, Released};
    use fe2o3_amqp::types::primitives::Symbol;

    use super::*;

    #[test]
    fn error_conditions_are_distinguished() {
        let rejected = |condition: ErrorCondition| {
            let error = Error::new(condition, "why".to_owned(), None);
            check_outcome(Ok(Outcome::Rejected(Rejected { error: Some(error) })))
                .unwrap_err()
                .to_string()
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
        assert!(check_outcome(Ok(Outcome::Accepted(Accepted {}))).is_ok());
        assert!(check_outcome(Ok(Outcome::Released(Released {}))).is_err());
    }

    #[test]
    fn an_error_after_the_message_was_sent_is_indeterminate() {
        let broken = SendError::LinkStateError(LinkStateError::RemoteClosed);
        assert!(matches!(check_outcome(Err(broken)), Err(ServiceBusError::Indeterminate(_))));
    }
}
