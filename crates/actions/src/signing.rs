//! Signatures by which a receiver knows that a request is ours and whole: the headers of "Standard
//! Webhooks".
//!
//! Keys are not stored. They follow from the key of the installation, the collection and a number,
//! the epoch, that an operator raises to change them: all, or those of one collection. Requests are signed with the keys of the
//! present epoch and of the one before it, so receivers change to the new key in their own time.

use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kalends_domain::CollectionPath;
use ring::hmac;
use zeroize::Zeroizing;

/// Which epoch each collection is in, from 1 on.
#[derive(Clone, Debug)]
pub struct SigningKeyVersions {
    usual: u32,
    own: HashMap<CollectionPath, u32>,
}

impl SigningKeyVersions {
    /// All are in the same.
    pub fn all(epoch: u32) -> SigningKeyVersions {
        SigningKeyVersions { usual: epoch.max(1), own: HashMap::new() }
    }

    /// One is in another; `false` where it had one of its own.
    pub fn set(&mut self, collection: CollectionPath, epoch: u32) -> bool {
        self.own.insert(collection, epoch.max(1)).is_none()
    }

    fn of(&self, collection: &CollectionPath) -> u32 {
        self.own.get(collection).copied().unwrap_or(self.usual)
    }
}

/// Signs for every collection.
#[derive(Clone)]
pub struct Signer {
    root: hmac::Key,
    epochs: SigningKeyVersions,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({:?})", self.epochs)
    }
}

/// The key of a collection in an epoch. It cannot be printed and is wiped when it goes.
pub struct SigningKey(Zeroizing<[u8; 32]>);

impl SigningKey {
    /// The key as receivers' libraries take it: `whsec_` and base64. Each use is a place to look at
    /// when keys leak.
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
    /// Signs with keys that follow from `root`.
    pub fn new(root: &[u8; 32], epochs: SigningKeyVersions) -> Signer {
        Signer { root: hmac::Key::new(hmac::HMAC_SHA256, root), epochs }
    }

    /// The key of the present epoch, and the one before it.
    pub fn keys(&self, collection: &CollectionPath) -> [SigningKey; 2] {
        let epoch = self.epochs.of(collection);
        [self.key(collection, epoch), self.key(collection, epoch - 1)]
    }

    fn key(&self, collection: &CollectionPath, epoch: u32) -> SigningKey {
        let CollectionPath { group, collection } = collection;
        // Names cannot hold the separator; their case plays no part.
        let place = [group.subscription.key(), group.group.key(), collection.key()].join("\n");
        let mut context = hmac::Context::with_key(&self.root);
        context.update(b"kalends webhook signing key\n");
        context.update(place.as_bytes());
        context.update(&epoch.to_be_bytes());
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
    fn each_collection_has_two_keys_and_the_newer_becomes_the_older() {
        let signer =
            |root: u8, epoch: u32| Signer::new(&[root; 32], SigningKeyVersions::all(epoch));
        let (first, second) = (signer(7, 1), signer(7, 2));
        let [new, old] = reveal(&first, "jc");
        assert_ne!(new, old);
        assert_eq!(reveal(&second, "JC")[1], new, "case plays no part");
        assert_ne!(reveal(&first, "other")[0], new);
        assert_ne!(reveal(&signer(8, 1), "jc")[0], new);
    }

    #[test]
    fn a_collection_changes_its_keys_alone() {
        let before = Signer::new(&[7; 32], SigningKeyVersions::all(3));
        let mut epochs = SigningKeyVersions::all(3);
        assert!(epochs.set(collection("JC"), 4));
        assert!(!epochs.set(collection("jc"), 5), "case plays no part");
        epochs = SigningKeyVersions::all(3);
        epochs.set(collection("JC"), 4);
        let after = Signer::new(&[7; 32], epochs.clone());
        assert_eq!(reveal(&after, "jc")[1], reveal(&before, "jc")[0], "the newer is the older");
        assert_ne!(reveal(&after, "jc")[0], reveal(&before, "jc")[0]);
        assert_eq!(reveal(&after, "other"), reveal(&before, "other"));
        // All others go on without it.
        let all = SigningKeyVersions { usual: 4, ..epochs };
        assert_eq!(reveal(&Signer::new(&[7; 32], all), "jc"), reveal(&after, "jc"));
    }

    /// The example of the standard's own documents.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let bytes = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let text = b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}";
        let known = STANDARD.encode(hmac::sign(&key, text));
        assert_eq!(known, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        // Ours differ only in the length of the key.
        let own = SigningKey(Zeroizing::new([7; 32]));
        let ours =
            signature(&own, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b"{\"test\": 2432232314}");
        let again = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), text);
        assert_eq!(ours, format!("v1,{}", STANDARD.encode(again)));
    }
}
