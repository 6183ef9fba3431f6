//! Names that are refused before anybody is asked for their addresses.

/// Whose name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// A name of the internet.
    Public,
    /// A name of the machine or its neighbours.
    Local,
    /// Where machines tell about themselves.
    Metadata,
}

const METADATA: [&str; 6] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
];
/// These and all below them.
const LOCAL: [&str; 5] = ["localhost", "local", "internal", "home.arpa", "localdomain"];

/// Whose a name is. Case and a dot at the end play no part.
pub(super) fn kind(name: &str) -> NameKind {
    let name = folded(name);
    if METADATA.contains(&name.as_str()) {
        return NameKind::Metadata;
    }
    match !name.contains('.') || LOCAL.iter().any(|local| is_at_or_below(&name, local)) {
        true => NameKind::Local,
        false => NameKind::Public,
    }
}

/// The form by which names are compared.
pub(super) fn folded(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a folded name is `above` or below it.
pub(super) fn is_at_or_below(name: &str, above: &str) -> bool {
    let rest = name.strip_suffix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for (expected, names) in [
            (NameKind::Public, ["example.com", "local.example.com", "notlocal.dev", "a.b."]),
            (NameKind::Local, ["localhost", "a.LOCALHOST.", "printer.local", "x.internal"]),
            (NameKind::Local, ["db", "db.", "router.home.arpa", ""]),
            (
                NameKind::Metadata,
                ["metadata", "Metadata.Google.Internal.", "instance-data", "metadata.goog"],
            ),
        ] {
            for name in names {
                assert_eq!(kind(name), expected, "{name}");
            }
        }
    }
}
