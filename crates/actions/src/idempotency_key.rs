//! The idempotency key of an attempt. All attempts of an occurrence share it; the error action, and a
//! manual run with the same scheduled time, have another one.

use std::io::Write as _;

use kalends_domain::{ActionRole, Cause};
use kalends_recurrence::Instant;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

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

/// An idempotency key: 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdempotencyKey([u8; 32]);

impl IdempotencyKey {
    /// A name-based UUID (version 5) of job, generation, scheduled time, role and cause.
    pub(crate) fn of(run: impl Into<RunIdentity>) -> IdempotencyKey {
        let run = run.into();
        let role = match run.role {
            ActionRole::Main => &b"main"[..],
            ActionRole::Error => &b"error"[..],
        };
        let cause = match run.cause {
            Cause::Scheduled => &b""[..],
            Cause::Manual => &b" manual"[..],
        };
        let (generation, ticks) =
            (run.generation.to_be_bytes(), run.scheduled.ticks().to_be_bytes());
        // One call of the hash for all parts takes half as long as one for each.
        let mut name = [0; NAME_BYTES_MAX];
        let mut rest = name.as_mut_slice();
        for part in [&NAMESPACE[..], &run.uid, &generation, &ticks, role, cause] {
            // The longest name fits.
            let _ = rest.write_all(part);
        }
        let length = NAME_BYTES_MAX - rest.len();
        let name = name.get(..length).unwrap_or_default();
        let mut key = [0; 16];
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, name);
        key.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
        let [.., version, _, variant, _, _, _, _, _, _, _] = &mut key;
        *version = *version & 0x0f | 0x50;
        *variant = *variant & 0x3f | 0x80;
        IdempotencyKey(hex_digits(&key))
    }

    /// The digits.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The digits as a text.
    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The longest name: that of a manual error action.
const NAME_BYTES_MAX: usize = 16 + 16 + 8 + 8 + 5 + 7;

/// Hexadecimal digits of bytes, in lower case.
pub(crate) fn hex_digits<const BYTES: usize, const DIGITS: usize>(
    bytes: &[u8; BYTES],
) -> [u8; DIGITS] {
    const { assert!(DIGITS == 2 * BYTES) };
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
    let mut digits = [0; DIGITS];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        if let [high, low] = pair {
            (*high, *low) = (digit(byte >> 4), digit(byte & 0x0f));
        }
    }
    digits
}

/// The idempotency key of a run, as 32 hexadecimal digits. It is sent as `Idempotency-Key` and
/// `x-ms-execution-tag`.
pub fn idempotency_key(run: impl Into<RunIdentity>) -> String {
    IdempotencyKey::of(run).as_str().to_owned()
}
