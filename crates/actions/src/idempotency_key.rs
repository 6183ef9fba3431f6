//! The execution tag: one for all attempts of an occurrence, another for its error action, and another
//! for a run that somebody asked for at the very same instant.

use kalends_domain::{ActionRole, Cause};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use crate::executor::AttemptRequest;

/// The namespace of our tags, drawn once.
const NAMESPACE: [u8; 16] = [
    0x6b, 0x61, 0x6c, 0x65, 0x6e, 0x64, 0x40, 0x73, 0x8f, 0x1d, 0x52, 0x9a, 0xc3, 0x04, 0x77, 0xe1,
];

/// A name-based UUID (version 5) of job, edit, instant, role and cause, as 32 hexadecimal digits.
pub fn idempotency_key(order: &AttemptRequest) -> String {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(&NAMESPACE);
    context.update(&order.uid);
    context.update(&order.generation.to_be_bytes());
    context.update(&order.scheduled.ticks().to_be_bytes());
    context.update(match order.role {
        ActionRole::Main => b"main",
        ActionRole::Error => b"error",
    });
    match order.cause {
        Cause::Scheduled => {}
        Cause::Manual => context.update(b" manual"),
    }
    let digest = context.finish();
    let mut tag = String::with_capacity(32);
    for (position, byte) in digest.as_ref().iter().take(16).enumerate() {
        let byte = match position {
            6 => byte & 0x0f | 0x50,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
        tag.push(digit(byte >> 4));
        tag.push(digit(byte & 0x0f));
    }
    tag
}
