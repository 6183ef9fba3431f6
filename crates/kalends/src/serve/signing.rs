//! Settings of signatures: which keys requests are signed with.

use std::fmt;
use std::str::FromStr;

use kalends_actions::SigningKeyVersions;
use kalends_domain::CollectionPath;

use crate::signing_keys::collection;

/// Which keys requests are signed with.
#[derive(clap::Args)]
pub(crate) struct SigningSettings {
    /// Which keys requests are signed with: raise it by one to change those of every collection that
    /// has no number of its own
    #[arg(long, env = "KALENDS_SIGNING_EPOCH", value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    signing_epoch: u32,

    /// The number of one collection alone: SUBSCRIPTION/GROUP/COLLECTION=NUMBER; raise it by one to
    /// change the keys of that one. The first is one more than signing-epoch; may be repeated
    #[arg(long, env = "KALENDS_SIGNING_EPOCH_OF", value_name = "ENTRY", value_delimiter = ',')]
    signing_epoch_of: Vec<Own>,
}

/// The number of one collection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Own {
    collection: CollectionPath,
    epoch: u32,
}

impl FromStr for Own {
    type Err = String;

    fn from_str(text: &str) -> Result<Own, String> {
        let expected = "expected SUBSCRIPTION/GROUP/COLLECTION=NUMBER, with a number from 1 on";
        let (path, epoch) = text.trim().rsplit_once('=').ok_or(expected)?;
        let epoch = epoch.parse().ok().filter(|epoch| *epoch >= 1).ok_or(expected)?;
        Ok(Own { collection: collection(path)?, epoch })
    }
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CollectionPath { group, collection } = &self.collection;
        write!(f, "{}/{}/{collection}={}", group.subscription, group.group, self.epoch)
    }
}

impl SigningSettings {
    /// Which keys each collection has; an error where one has two numbers.
    pub(crate) fn epochs(&self) -> anyhow::Result<SigningKeyVersions> {
        let mut epochs = SigningKeyVersions::all(self.signing_epoch);
        for own in &self.signing_epoch_of {
            if !epochs.set(own.collection.clone(), own.epoch) {
                anyhow::bail!("--signing-epoch-of: {own} is the second number of its collection");
            }
        }
        Ok(epochs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_has_one_number_from_one_on() {
        let text = "6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc=2";
        let own: Own = text.parse().unwrap();
        assert_eq!((own.epoch, own.to_string()), (2, text.to_owned()));
        for text in ["", "rg/jc=2", "6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc"] {
            assert!(text.parse::<Own>().is_err(), "{text}");
        }
        for number in ["0", "-1", "", "4294967296", "x"] {
            let text = format!("6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc={number}");
            assert!(text.parse::<Own>().is_err(), "{text}");
        }
        let twice = SigningSettings { signing_epoch: 1, signing_epoch_of: vec![own.clone(), own] };
        assert!(twice.epochs().is_err());
    }
}
