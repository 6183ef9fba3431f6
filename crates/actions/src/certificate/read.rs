//! From the text in a job to a [`ClientIdentity`].

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
use super::identity::ClientIdentity;
use super::key::SigningKey;
use super::problem::Problem;
use super::subject::write_name;
use super::work::Budget;

const PADDING_OPTIONAL: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

const TICKS_PER_SECOND: i64 = 10_000_000;

/// The identity in a PFX file.
///
/// A file without a MAC and without encryption opens with any password: there is nothing in it to
/// check the password against.
///
/// # Errors
///
/// A [`ValidationError`] of the kind `InvalidClientCertificate` whose message says what is wrong and repeats
/// nothing of the input.
pub fn read_pfx(
    pfx_base64: &Secret,
    password: &Secret,
    limits: &Limits,
) -> Result<ClientIdentity, ValidationError> {
    let file = decode(pfx_base64.reveal(), limits.pfx_bytes_max)?;
    Ok(open(&file, &Password::new(password))?)
}

/// The bytes behind base64 with or without padding; blanks and line breaks do not count.
fn decode(text: &str, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, Problem> {
    let chars_max = bytes_max.div_ceil(3).saturating_mul(4);
    let significant = || text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let count = significant().count();
    if count > chars_max {
        return Err(Problem::TooLarge { bytes_max });
    }
    // Room for all at once in both: a buffer that grows leaves copies behind.
    let mut chars = Zeroizing::new(Vec::with_capacity(count));
    chars.extend(significant());
    let mut bytes = Zeroizing::new(Vec::with_capacity(count.div_ceil(4) * 3));
    let decoder = GeneralPurpose::new(&base64::alphabet::STANDARD, PADDING_OPTIONAL);
    decoder.decode_vec(&chars, &mut bytes).map_err(|_| Problem::NotBase64)?;
    if bytes.len() > bytes_max {
        return Err(Problem::TooLarge { bytes_max });
    }
    Ok(bytes)
}

fn open(file: &[u8], password: &Password) -> Result<ClientIdentity, Problem> {
    let container = Container::read(file)?;
    let mut budget = Budget::new();
    container.charge(&mut budget)?;
    if let Some(mac) = &container.mac {
        mac.verify(password)?;
    }
    let parts = container.encrypted.iter().map(|part| part.open(password));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let mut bags = container.bags;
    for part in &parts {
        let hidden = read_bags(part).map_err(after_opening)?;
        charge_keys(&hidden, &mut budget)?;
        bags.extend(hidden);
    }
    let (key, certificates) = sort(bags)?;
    let certificates = read_certificates(&certificates)?;
    let key = open_key(key, password)?;
    let (chain, key) = find_chain(certificates, &key)?;
    let facts = chain.first().and_then(read_facts).ok_or(Problem::Certificate)?;
    let chain = chain.iter().map(|certificate| certificate.der.to_vec()).collect();
    Ok(ClientIdentity::new(facts, chain, key))
}

/// The one key, and the certificates.
fn sort(bags: Vec<Bag<'_>>) -> Result<(KeyBag<'_>, Vec<&[u8]>), Problem> {
    let mut only = None;
    let mut certificates = Vec::new();
    for bag in bags {
        match bag {
            Bag::Certificate(der) => certificates.push(der),
            Bag::Key(key) => {
                if only.replace(key).is_some() {
                    return Err(Problem::ManyKeys);
                }
            }
        }
    }
    Ok((only.ok_or(Problem::NoKey)?, certificates))
}

fn open_key(key: KeyBag<'_>, password: &Password) -> Result<SigningKey, Problem> {
    match key {
        KeyBag::Open(pkcs8) => SigningKey::read(pkcs8),
        KeyBag::Shrouded(key) => SigningKey::read(key.open(password)?).map_err(after_opening),
    }
}

/// What a wrong password opened is noise, and without a MAC this is where it shows.
fn after_opening(problem: Problem) -> Problem {
    match problem {
        Problem::Malformed => Problem::Password,
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
