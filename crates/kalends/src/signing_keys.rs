//! `kalends signing-keys`: the keys by which receivers verify signed requests.

use std::io::Write as _;

use anyhow::Context as _;
use kalends_actions::Signer;
use kalends_domain::{CollectionName, CollectionPath, GroupName, GroupPath, SubscriptionId};

use crate::location::Location;
use crate::serve::{SIGNING, SigningSettings};

/// Show the keys by which receivers verify the signed requests of a collection.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// SUBSCRIPTION/GROUP/COLLECTION, or the whole path of the collection
    #[arg(value_name = "COLLECTION", value_parser = collection)]
    collection: CollectionPath,

    #[command(flatten)]
    location: Location,

    #[command(flatten)]
    signing: SigningSettings,
}

pub(crate) fn collection(text: &str) -> Result<CollectionPath, String> {
    let parts: Vec<_> = text.split('/').filter(|part| !part.is_empty()).collect();
    let (subscription, group, collection) = match parts.as_slice() {
        [subscription, group, collection] => (subscription, group, collection),
        [_, subscription, _, group, _, _, _, collection] => (subscription, group, collection),
        _ => return Err("expected SUBSCRIPTION/GROUP/COLLECTION".into()),
    };
    let named = || {
        let subscription = SubscriptionId::new(subscription)?;
        let group = GroupPath { subscription, group: GroupName::new(group)? };
        Ok(CollectionPath { group, collection: CollectionName::new(collection)? })
    };
    named().map_err(|error: kalends_domain::NameError| error.to_string())
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let key = arguments.location.key().context("cannot read the key of the installation")?;
    let root = key.derive(SIGNING);
    let signer = Signer::new(&root, arguments.signing.epochs()?);
    let [present, previous] = signer.keys(&arguments.collection);
    let mut output = std::io::stdout();
    writeln!(output, "present   {}", *present.reveal())?;
    writeln!(output, "previous  {}", *previous.reveal())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_named_in_short_or_by_its_path() {
        let short = collection("6c55a6f0-6593-472f-9b3e-a51a9a757b40/rg/jc").unwrap();
        let path = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections/jc";
        assert_eq!(collection(path), Ok(short));
        assert!(collection("rg/jc").is_err());
        assert!(collection("a/b/not a name").is_err());
    }
}
