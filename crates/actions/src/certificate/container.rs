//! Parser of the PFX structures (RFC 7292) that a client identity needs. It derives no keys and
//! decrypts nothing. Each level has its own type, so the grammar bounds the depth.

use der::asn1::{AnyRef, ObjectIdentifier, OctetStringRef};
use der::{Decode, Encode, Sequence};
use x509_cert::spki::AlgorithmIdentifierRef;
use zeroize::Zeroizing;

use super::derivation::Password;
use super::error::PfxError;
use super::iterations::IterationBudget;
use super::mac::{Mac, MacData};
use super::protection::Protection;

const VERSION: u8 = 3;
const DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const ENCRYPTED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.6");
const KEY_BAG: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.10.1.1");
const SHROUDED_KEY_BAG: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.10.1.2");
const CERTIFICATE_BAG: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.10.1.3");
const X509_CERTIFICATE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.22.1");

/// A parsed file, except for its encrypted parts.
pub(crate) struct Container<'a> {
    pub(crate) mac: Option<Mac<'a>>,
    /// Bags in unencrypted parts. A key among them may be encrypted itself.
    pub(crate) bags: Vec<Bag<'a>>,
    /// Encrypted parts, which contain further bags.
    pub(crate) encrypted: Vec<Encrypted<'a>>,
}

/// Ciphertext and its encryption scheme.
pub(crate) struct Encrypted<'a> {
    pub(crate) protection: Protection<'a>,
    pub(crate) ciphertext: &'a [u8],
}

impl Encrypted<'_> {
    pub(crate) fn decrypt(&self, password: &Password) -> Result<Zeroizing<Vec<u8>>, PfxError> {
        self.protection.decrypt(password, self.ciphertext)
    }
}

/// One item of the file.
pub(crate) enum Bag<'a> {
    /// A certificate in DER.
    Certificate(&'a [u8]),
    Key(KeyBag<'a>),
}

/// A private key in PKCS#8 DER.
pub(crate) enum KeyBag<'a> {
    Plain(Zeroizing<Vec<u8>>),
    Encrypted(Encrypted<'a>),
}

impl<'a> Container<'a> {
    pub(crate) fn read(file: &'a [u8]) -> Result<Container<'a>, PfxError> {
        let pfx = Pfx::from_der(file)?;
        if pfx.version != VERSION {
            return Err(PfxError::Malformed);
        }
        let content = pfx.auth_safe.data()?;
        let mac = pfx.mac_data.map(|mac| Mac::read(&mac, content)).transpose()?;
        let mut container = Container { mac, bags: Vec::new(), encrypted: Vec::new() };
        for safe in Vec::<ContentInfo<'_>>::from_der(content)? {
            if safe.content_type == ENCRYPTED_DATA {
                let part: EncryptedData<'_> = safe.content.decode_as()?;
                container.encrypted.push(part.content.read()?);
            } else {
                container.bags.extend(read_bags(safe.data()?)?);
            }
        }
        Ok(container)
    }

    /// Charges the iterations of the MAC, the encrypted parts and the keys to the budget.
    pub(crate) fn charge(&self, budget: &mut IterationBudget) -> Result<(), PfxError> {
        if let Some(mac) = &self.mac {
            budget.charge(mac.iterations)?;
        }
        for part in &self.encrypted {
            budget.charge(part.protection.iterations)?;
        }
        charge_keys(&self.bags, budget)
    }
}

/// Parses the bags of a part. Types that an identity does not need are skipped: revocation lists,
/// secrets and nested safes.
pub(crate) fn read_bags(part: &[u8]) -> Result<Vec<Bag<'_>>, PfxError> {
    let mut bags = Vec::new();
    for bag in Vec::<SafeBag<'_>>::from_der(part)? {
        match bag.kind {
            KEY_BAG => {
                let key = Zeroizing::new(bag.value.to_der()?);
                bags.push(Bag::Key(KeyBag::Plain(key)));
            }
            SHROUDED_KEY_BAG => {
                let key: EncryptedKey<'_> = bag.value.decode_as()?;
                bags.push(Bag::Key(KeyBag::Encrypted(key.read()?)));
            }
            CERTIFICATE_BAG => {
                let certificate: CertificateBag<'_> = bag.value.decode_as()?;
                if certificate.kind == X509_CERTIFICATE {
                    bags.push(Bag::Certificate(certificate.der.as_bytes()));
                }
            }
            _ => {}
        }
    }
    Ok(bags)
}

/// Charges the decryption of encrypted keys to the budget.
pub(crate) fn charge_keys(bags: &[Bag<'_>], budget: &mut IterationBudget) -> Result<(), PfxError> {
    for bag in bags {
        if let Bag::Key(KeyBag::Encrypted(key)) = bag {
            budget.charge(key.protection.iterations)?;
        }
    }
    Ok(())
}

#[derive(Sequence)]
struct Pfx<'a> {
    version: u8,
    auth_safe: ContentInfo<'a>,
    mac_data: Option<MacData<'a>>,
}

#[derive(Sequence)]
struct ContentInfo<'a> {
    content_type: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    content: AnyRef<'a>,
}

impl<'a> ContentInfo<'a> {
    /// Unencrypted content. Signed and public-key-encrypted content is not supported.
    fn data(&self) -> Result<&'a [u8], PfxError> {
        if self.content_type != DATA {
            return Err(PfxError::Protection);
        }
        let octets: &OctetStringRef = self.content.decode_as()?;
        Ok(octets.as_bytes())
    }
}

#[derive(Sequence)]
struct EncryptedData<'a> {
    version: u8,
    content: EncryptedContent<'a>,
}

#[derive(Sequence)]
struct EncryptedContent<'a> {
    content_type: ObjectIdentifier,
    algorithm: AlgorithmIdentifierRef<'a>,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT")]
    ciphertext: &'a OctetStringRef,
}

impl<'a> EncryptedContent<'a> {
    fn read(&self) -> Result<Encrypted<'a>, PfxError> {
        let protection = Protection::read(&self.algorithm)?;
        Ok(Encrypted { protection, ciphertext: self.ciphertext.as_bytes() })
    }
}

#[derive(Sequence)]
struct SafeBag<'a> {
    kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    value: AnyRef<'a>,
    attributes: Option<AnyRef<'a>>,
}

#[derive(Sequence)]
struct CertificateBag<'a> {
    kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    der: &'a OctetStringRef,
}

#[derive(Sequence)]
struct EncryptedKey<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    ciphertext: &'a OctetStringRef,
}

impl<'a> EncryptedKey<'a> {
    fn read(&self) -> Result<Encrypted<'a>, PfxError> {
        let protection = Protection::read(&self.algorithm)?;
        Ok(Encrypted { protection, ciphertext: self.ciphertext.as_bytes() })
    }
}
