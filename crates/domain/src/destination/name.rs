//! Classification of host names, which rejects some before DNS resolution.

/// The class of a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// A public DNS name.
    Public,
    /// A name of this host or of a private network.
    Local,
    /// A cloud metadata service.
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
/// Local domains, with all names below them.
const LOCAL: [&str; 5] = ["localhost", "local", "internal", "home.arpa", "localdomain"];

/// Classifies a host name, ignoring case and a trailing dot.
pub(super) fn kind(name: &str) -> NameKind {
    let name = normalized(name);
    if METADATA.contains(&name.as_str()) {
        return NameKind::Metadata;
    }
    match !name.contains('.') || LOCAL.iter().any(|local| is_at_or_below(&name, local)) {
        true => NameKind::Local,
        false => NameKind::Public,
    }
}

/// Lower case without a trailing dot, for comparisons.
pub(super) fn normalized(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a normalized name is `above` or a subdomain of it.
pub(super) fn is_at_or_below(name: &str, above: &str) -> bool {
    let rest = name.strip_suffix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_classified() {
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
