//! `kalends signing-keys`: prints the keys with which receivers verify signed requests.

use std::io::Write as _;

use anyhow::{Context as _, bail};
use kalends_actions::Signer;
use kalends_domain::{CollectionName, CollectionPath, GroupName, GroupPath, SubscriptionId};

use crate::derived_keys::signing_key;
use crate::serve::SigningSettings;
use crate::store_location::StoreLocation;

/// Print the keys with which receivers verify the signed requests of a collection
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Collection: SUBSCRIPTION/GROUP/COLLECTION, or its full resource path
    #[arg(value_name = "COLLECTION", value_parser = collection)]
    collection: CollectionPath,

    #[command(flatten)]
    location: StoreLocation,

    #[command(flatten)]
    signing: SigningSettings,
}

/// Parses a collection from `SUBSCRIPTION/GROUP/COLLECTION` or from its resource path.
pub(crate) fn collection(text: &str) -> anyhow::Result<CollectionPath> {
    let parts: Vec<_> = text.split('/').filter(|part| !part.is_empty()).collect();
    let (subscription, group, collection) = match parts.as_slice() {
        [subscription, group, collection] => (subscription, group, collection),
        [_, subscription, _, group, _, _, _, collection] => (subscription, group, collection),
        _ => bail!("must be SUBSCRIPTION/GROUP/COLLECTION"),
    };
    let subscription = SubscriptionId::new(subscription)?;
    let group = GroupPath { subscription, group: GroupName::new(group)? };
    Ok(CollectionPath { group, collection: CollectionName::new(collection)? })
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = signing_key(&arguments.location).context("cannot read the key of the store")?;
    let signer = Signer::new(&root, arguments.signing.key_versions()?);
    let [current, previous] = signer.keys(&arguments.collection);
    let mut output = std::io::stdout();
    writeln!(output, "present   {}", *current.reveal())?;
    writeln!(output, "previous  {}", *previous.reveal())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_given_in_short_form_or_by_resource_path() {
        let short = collection("6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc").unwrap();
        let path = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc";
        assert_eq!(collection(path).unwrap(), short);
        assert!(collection("rg/jc").is_err());
        assert!(collection("a/b/not a name").is_err());
    }
}
