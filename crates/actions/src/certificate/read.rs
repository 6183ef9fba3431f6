//! Reads a [`ClientIdentity`] from a base64-encoded PFX file.

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use kalends_domain::{CertificateFacts, Limits, Secret, ValidationError};
use kalends_recurrence::Instant;
use ring::digest;
use zeroize::Zeroizing;

use super::chain::{Certificate, find_chain, read_certificates};
use super::container::{Bag, Container, KeyBag, charge_keys, read_bags};
use super::derivation::Password;
use super::error::PfxError;
use super::identity::ClientIdentity;
use super::iterations::IterationBudget;
use super::key::ParsedKey;
use super::subject::write_name;

const PADDING_OPTIONAL: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

const TICKS_PER_SECOND: i64 = 10_000_000;

/// Reads the client identity in a PFX file, for validation of a job.
///
/// A file without a MAC and without encryption accepts any password: nothing in it depends on the
/// password.
///
/// # Errors
///
/// A [`ValidationError`] of the kind `InvalidClientCertificate`. Its message contains none of the
/// input.
pub fn read_pfx(
    pfx_base64: &Secret,
    password: &Secret,
    limits: &Limits,
) -> Result<ClientIdentity, ValidationError> {
    Ok(open_pfx(pfx_base64, password, limits)?)
}

/// Reads the client identity in a PFX file, for use in a TLS handshake.
pub(crate) fn open_pfx(
    pfx_base64: &Secret,
    password: &Secret,
    limits: &Limits,
) -> Result<ClientIdentity, PfxError> {
    let file = decode(pfx_base64.reveal(), limits.pfx_bytes_max)?;
    open(&file, &Password::new(password))
}

/// Decodes base64 with or without padding and ignores white space.
fn decode(text: &str, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, PfxError> {
    let chars_max = bytes_max.div_ceil(3).saturating_mul(4);
    let significant = || text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let count = significant().count();
    if count > chars_max {
        return Err(PfxError::TooLarge { bytes_max });
    }
    // Both are allocated at full size: a growing buffer leaves copies in freed memory.
    let mut chars = Zeroizing::new(Vec::with_capacity(count));
    chars.extend(significant());
    let mut bytes = Zeroizing::new(Vec::with_capacity(count.div_ceil(4) * 3));
    let decoder = GeneralPurpose::new(&base64::alphabet::STANDARD, PADDING_OPTIONAL);
    decoder.decode_vec(&chars, &mut bytes).map_err(|_| PfxError::NotBase64)?;
    if bytes.len() > bytes_max {
        return Err(PfxError::TooLarge { bytes_max });
    }
    Ok(bytes)
}

fn open(file: &[u8], password: &Password) -> Result<ClientIdentity, PfxError> {
    let container = Container::read(file)?;
    let mut budget = IterationBudget::new();
    container.charge(&mut budget)?;
    if let Some(mac) = &container.mac {
        mac.verify(password)?;
    }
    let parts = container.encrypted.iter().map(|part| part.decrypt(password));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let mut bags = container.bags;
    for part in &parts {
        let hidden = read_bags(part).map_err(after_decryption)?;
        charge_keys(&hidden, &mut budget)?;
        bags.extend(hidden);
    }
    let (key, certificates) = partition(bags)?;
    let certificates = read_certificates(&certificates)?;
    let key = decrypt_key(key, password)?;
    let (chain, key) = find_chain(certificates, &key)?;
    let facts = chain.first().and_then(read_facts).ok_or(PfxError::Certificate)?;
    let chain = chain.iter().map(|certificate| certificate.der.to_vec()).collect();
    Ok(ClientIdentity::new(facts, chain, key))
}

/// Separates the key from the certificates. Exactly one key is required.
fn partition(bags: Vec<Bag<'_>>) -> Result<(KeyBag<'_>, Vec<&[u8]>), PfxError> {
    let mut only = None;
    let mut certificates = Vec::new();
    for bag in bags {
        match bag {
            Bag::Certificate(der) => certificates.push(der),
            Bag::Key(key) => {
                if only.replace(key).is_some() {
                    return Err(PfxError::ManyKeys);
                }
            }
        }
    }
    Ok((only.ok_or(PfxError::NoKey)?, certificates))
}

fn decrypt_key(key: KeyBag<'_>, password: &Password) -> Result<ParsedKey, PfxError> {
    match key {
        KeyBag::Plain(pkcs8) => ParsedKey::read(pkcs8),
        KeyBag::Encrypted(key) => ParsedKey::read(key.decrypt(password)?).map_err(after_decryption),
    }
}

/// A wrong password decrypts to noise. Without a MAC, malformed plaintext is the first sign of it.
fn after_decryption(error: PfxError) -> PfxError {
    match error {
        PfxError::Malformed => PfxError::Password,
        other => other,
    }
}

fn read_facts(certificate: &Certificate<'_>) -> Option<CertificateFacts> {
    let fields = certificate.fields.tbs_certificate();
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, certificate.der);
    let seconds = fields.validity().not_after.to_unix_duration().as_secs();
    let ticks = i64::try_from(seconds).ok()?.checked_mul(TICKS_PER_SECOND)?;
    Some(CertificateFacts {
        thumbprint: hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect(),
        expiration: Instant::from_ticks(ticks)?,
        subject_name: write_name(fields.subject()),
    })
}
