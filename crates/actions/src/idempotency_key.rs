//! The idempotency key of an attempt. All attempts of an occurrence share it; the error action, and a
//! manual run with the same scheduled time, have another one.

use kalends_domain::{ActionRole, Cause};
use kalends_recurrence::Instant;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use crate::executor::AttemptRequest;

/// UUID namespace of the keys, generated once.
const NAMESPACE: [u8; 16] = [
    0x6b, 0x61, 0x6c, 0x65, 0x6e, 0x64, 0x40, 0x73, 0x8f, 0x1d, 0x52, 0x9a, 0xc3, 0x04, 0x77, 0xe1,
];

/// The members of a run that its idempotency key is made of.
#[derive(Clone, Copy, Debug)]
pub struct RunIdentity {
    /// Globally unique id of the job.
    pub uid: [u8; 16],
    /// Generation of the run.
    pub generation: u64,
    /// Scheduled time.
    pub scheduled: Instant,
    /// Main or error action.
    pub role: ActionRole,
    /// Schedule or manual run.
    pub cause: Cause,
}

impl From<&AttemptRequest<'_>> for RunIdentity {
    fn from(attempt: &AttemptRequest<'_>) -> RunIdentity {
        let &AttemptRequest { uid, generation, scheduled, role, cause, .. } = attempt;
        RunIdentity { uid, generation, scheduled, role, cause }
    }
}

/// A name-based UUID (version 5) of job, generation, scheduled time, role and cause, as 32
/// hexadecimal digits. It is sent as `Idempotency-Key` and `x-ms-execution-tag`.
pub fn idempotency_key(run: impl Into<RunIdentity>) -> String {
    let run = run.into();
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(&NAMESPACE);
    context.update(&run.uid);
    context.update(&run.generation.to_be_bytes());
    context.update(&run.scheduled.ticks().to_be_bytes());
    context.update(match run.role {
        ActionRole::Main => b"main",
        ActionRole::Error => b"error",
    });
    match run.cause {
        Cause::Scheduled => {}
        Cause::Manual => context.update(b" manual"),
    }
    let digest = context.finish();
    let mut key = String::with_capacity(32);
    for (position, byte) in digest.as_ref().iter().take(16).enumerate() {
        let byte = match position {
            6 => byte & 0x0f | 0x50,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        let digit =
            |value: u8| char::from(if value < 10 { b'0' + value } else { b'a' + value - 10 });
        key.push(digit(byte >> 4));
        key.push(digit(byte & 0x0f));
    }
    key
}
