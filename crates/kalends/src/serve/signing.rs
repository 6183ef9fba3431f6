//! Settings of request signing: the key version of each collection.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use kalends_actions::SigningKeyVersions;
use kalends_domain::CollectionPath;

use crate::signing_keys::collection;

/// Key versions for signed requests.
#[derive(clap::Args)]
#[command(next_help_heading = "Request signing")]
pub(crate) struct SigningSettings {
    /// Version of the signing keys. Increase it by one to rotate the keys of all collections without
    /// a version of their own
    #[arg(long, alias = "signing-epoch", env = "KALENDS_SIGNING_KEY_VERSION", value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    signing_key_version: u32,

    /// Key version of a single collection: SUBSCRIPTION/GROUP/COLLECTION=NUMBER. Start with one more
    /// than --signing-key-version and increase it by one to rotate the keys; can be repeated
    #[arg(
        long,
        alias = "signing-epoch-of",
        env = "KALENDS_SIGNING_KEY_VERSION_FOR",
        value_name = "ENTRY",
        value_delimiter = ','
    )]
    signing_key_version_for: Vec<CollectionKeyVersion>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CollectionKeyVersion {
    collection: CollectionPath,
    version: u32,
}

impl FromStr for CollectionKeyVersion {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<CollectionKeyVersion> {
        let expected = "must be SUBSCRIPTION/GROUP/COLLECTION=NUMBER, where NUMBER is at least 1";
        let (path, version) = text.trim().rsplit_once('=').context(expected)?;
        let version = version.parse().ok().filter(|version| *version >= 1).context(expected)?;
        Ok(CollectionKeyVersion { collection: collection(path)?, version })
    }
}

impl fmt::Display for CollectionKeyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CollectionPath { group, collection } = &self.collection;
        write!(f, "{}/{}/{collection}={}", group.subscription, group.group, self.version)
    }
}

impl SigningSettings {
    /// The key version of every collection; an error if a collection has two.
    pub(crate) fn key_versions(&self) -> anyhow::Result<SigningKeyVersions> {
        let mut versions = SigningKeyVersions::all(self.signing_key_version);
        for entry in &self.signing_key_version_for {
            if !versions.set(entry.collection.clone(), entry.version) {
                bail!("--signing-key-version-for: {entry} is a second entry for its collection");
            }
        }
        Ok(versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_has_one_key_version_of_at_least_one() {
        let text = "6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc=2";
        let entry: CollectionKeyVersion = text.parse().unwrap();
        assert_eq!((entry.version, entry.to_string()), (2, text.to_owned()));
        for text in ["", "rg/jc=2", "6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc"] {
            assert!(text.parse::<CollectionKeyVersion>().is_err(), "{text}");
        }
        for number in ["0", "-1", "", "4294967296", "x"] {
            let text = format!("6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc={number}");
            assert!(text.parse::<CollectionKeyVersion>().is_err(), "{text}");
        }
        let twice = SigningSettings {
            signing_key_version: 1,
            signing_key_version_for: vec![entry.clone(), entry],
        };
        assert!(twice.key_versions().is_err());
    }
}
