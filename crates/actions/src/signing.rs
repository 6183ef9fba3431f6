//! Request signatures of Standard Webhooks, which let a receiver verify origin and integrity.
//!
//! Keys are not stored. They are derived from the key of the installation, the collection and a key
//! version. The operator increments the version to rotate the keys of all collections or of one.
//! Requests carry signatures with the current and the previous key, so that receivers can switch at
//! any time between two rotations.

use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kalends_domain::CollectionPath;
use ring::hmac;
use zeroize::Zeroizing;

/// The signing key version of each collection, from 1.
#[derive(Clone, Debug)]
pub struct SigningKeyVersions {
    default: u32,
    overrides: HashMap<CollectionPath, u32>,
}

impl SigningKeyVersions {
    /// The same version for all collections.
    pub fn all(version: u32) -> SigningKeyVersions {
        SigningKeyVersions { default: version.max(1), overrides: HashMap::new() }
    }

    /// Sets the version of one collection. Returns `false` if it was set before.
    pub fn set(&mut self, collection: CollectionPath, version: u32) -> bool {
        self.overrides.insert(collection, version.max(1)).is_none()
    }

    fn of(&self, collection: &CollectionPath) -> u32 {
        self.overrides.get(collection).copied().unwrap_or(self.default)
    }
}

/// Signs requests with the keys of their collections.
#[derive(Clone)]
pub struct Signer {
    root: hmac::Key,
    versions: SigningKeyVersions,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({:?})", self.versions)
    }
}

/// A signing key of a collection. It cannot be printed and is zeroized on drop.
pub struct SigningKey(Zeroizing<[u8; 32]>);

impl SigningKey {
    /// Exposes the key in the form of Standard Webhooks libraries: `whsec_` and base64. Audit every
    /// caller for leaks.
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("whsec_{}", STANDARD.encode(*self.0)))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl Signer {
    /// A signer whose keys are derived from `root`.
    pub fn new(root: &[u8; 32], versions: SigningKeyVersions) -> Signer {
        Signer { root: hmac::Key::new(hmac::HMAC_SHA256, root), versions }
    }

    /// The current and the previous key of a collection.
    pub fn keys(&self, collection: &CollectionPath) -> [SigningKey; 2] {
        let version = self.versions.of(collection);
        [self.key(collection, version), self.key(collection, version - 1)]
    }

    fn key(&self, collection: &CollectionPath, version: u32) -> SigningKey {
        let CollectionPath { group, collection } = collection;
        // Names cannot contain the separator; keys are case-folded.
        let path = [group.subscription.key(), group.group.key(), collection.key()].join("\n");
        let mut context = hmac::Context::with_key(&self.root);
        context.update(b"kalends webhook signing key\n");
        context.update(path.as_bytes());
        context.update(&version.to_be_bytes());
        let mut key = Zeroizing::new([0; 32]);
        key.iter_mut().zip(context.sign().as_ref()).for_each(|(to, from)| *to = *from);
        SigningKey(key)
    }

    /// The value of `webhook-signature`: one signature for each key.
    pub(crate) fn sign(
        &self,
        collection: &CollectionPath,
        id: &str,
        timestamp: i64,
        body: &[u8],
    ) -> String {
        let signatures = self.keys(collection).map(|key| signature(&key, id, timestamp, body));
        signatures.join(" ")
    }
}

fn signature(key: &SigningKey, id: &str, timestamp: i64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &*key.0));
    context.update(format!("{id}.{timestamp}.").as_bytes());
    context.update(body);
    format!("v1,{}", STANDARD.encode(context.sign()))
}

#[cfg(test)]
mod tests {
    use kalends_domain::{CollectionName, GroupName, GroupPath, SubscriptionId};

    use super::*;

    fn collection(name: &str) -> CollectionPath {
        let subscription = SubscriptionId::new("6c55a6f0-6593-472f-9b3e-a51a9a757b40").unwrap();
        let group = GroupPath { subscription, group: GroupName::new("rg").unwrap() };
        CollectionPath { group, collection: CollectionName::new(name).unwrap() }
    }

    fn reveal(signer: &Signer, name: &str) -> [String; 2] {
        signer.keys(&collection(name)).map(|key| key.reveal().to_string())
    }

    #[test]
    fn each_collection_has_two_keys_and_rotation_makes_the_current_one_the_previous() {
        let signer =
            |root: u8, version: u32| Signer::new(&[root; 32], SigningKeyVersions::all(version));
        let (first, second) = (signer(7, 1), signer(7, 2));
        let [current, previous] = reveal(&first, "jc");
        assert_ne!(current, previous);
        assert_eq!(reveal(&second, "JC")[1], current, "case-insensitive");
        assert_ne!(reveal(&first, "other")[0], current);
        assert_ne!(reveal(&signer(8, 1), "jc")[0], current);
    }

    #[test]
    fn the_keys_of_one_collection_can_be_rotated() {
        let before = Signer::new(&[7; 32], SigningKeyVersions::all(3));
        let mut versions = SigningKeyVersions::all(3);
        assert!(versions.set(collection("JC"), 4));
        assert!(!versions.set(collection("jc"), 5), "case-insensitive");
        versions = SigningKeyVersions::all(3);
        versions.set(collection("JC"), 4);
        let after = Signer::new(&[7; 32], versions.clone());
        assert_eq!(
            reveal(&after, "jc")[1],
            reveal(&before, "jc")[0],
            "the current key became the previous one"
        );
        assert_ne!(reveal(&after, "jc")[0], reveal(&before, "jc")[0]);
        assert_eq!(reveal(&after, "other"), reveal(&before, "other"));
        // A rotation of all collections does not affect it.
        let all = SigningKeyVersions { default: 4, ..versions };
        assert_eq!(reveal(&Signer::new(&[7; 32], all), "jc"), reveal(&after, "jc"));
    }

    /// The example of the Standard Webhooks documentation.
    #[test]
    fn signatures_match_the_standard_webhooks_example() {
        let bytes = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let text = b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}";
        let known = STANDARD.encode(hmac::sign(&key, text));
        assert_eq!(known, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        // Keys of Kalends differ only in length.
        let own = SigningKey(Zeroizing::new([7; 32]));
        let ours =
            signature(&own, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b"{\"test\": 2432232314}");
        let again = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), text);
        assert_eq!(ours, format!("v1,{}", STANDARD.encode(again)));
    }
}
