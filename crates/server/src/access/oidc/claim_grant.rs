//! Grants that follow from the claims of a token.

use kalends_domain::{AccessScope, AccessScopeError, Grant, Role};

use crate::access::oidc::jwt::Claims;

/// Grants a role in a scope to the holders of tokens that have a value in a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimGrant {
    claim: String,
    value: String,
    pub(super) grant: Grant,
}

/// A text that is not a valid [`ClaimGrant`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimGrantError {
    /// The text does not have the form `claim=value:role:scope`.
    #[error("must be claim=value:role:scope, such as roles=Jobs.Admin:owner:/")]
    Form,
    /// The role does not exist.
    #[error("must have one of the roles {roles} (found {0:?})", roles = Role::ALL.map(Role::as_str).join(", "))]
    Role(String),
    /// The scope is invalid.
    #[error(transparent)]
    Scope(#[from] AccessScopeError),
}

impl ClaimGrant {
    /// Parses `claim=value:role:scope`. The value may contain colons.
    pub fn parse(text: &str) -> Result<ClaimGrant, ClaimGrantError> {
        let form = || ClaimGrantError::Form;
        let (rest, scope) = text.rsplit_once(':').ok_or_else(form)?;
        let (pair, role) = rest.rsplit_once(':').ok_or_else(form)?;
        let (claim, value) = pair.split_once('=').ok_or_else(form)?;
        if claim.is_empty() || value.is_empty() {
            return Err(form());
        }
        let role = Role::named(role).ok_or_else(|| ClaimGrantError::Role(role.to_owned()))?;
        let grant = Grant { role, scope: AccessScope::parse(scope)? };
        Ok(ClaimGrant { claim: claim.to_owned(), value: value.to_owned(), grant })
    }

    /// The default without `--oidc-grant`: each of the app roles `Kalends.Reader`, `Kalends.Operator`,
    /// `Kalends.Contributor` and `Kalends.Owner` grants its role everywhere.
    pub fn default_app_roles() -> Vec<ClaimGrant> {
        let names = ["Kalends.Reader", "Kalends.Operator", "Kalends.Contributor", "Kalends.Owner"];
        let grant = |(role, name): (Role, &str)| ClaimGrant {
            claim: "roles".into(),
            value: name.into(),
            grant: Grant { role, scope: AccessScope::Everything },
        };
        Role::ALL.into_iter().zip(names).map(grant).collect()
    }

    pub(super) fn matches(&self, claims: &Claims) -> bool {
        claims.has(&self.claim, &self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::oidc::jwt::tests::claims;

    #[test]
    fn the_value_of_a_grant_may_contain_colons() {
        let group = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/g";
        let grant = ClaimGrant::parse(&format!("groups=urn:a:b:operator:{group}")).unwrap();
        assert_eq!(grant.grant.role, Role::Operator);
        assert_eq!(grant.grant.scope.to_string(), group);
        assert!(grant.matches(&claims(r#"{"groups":["x","urn:a:b"]}"#)));
        assert!(!grant.matches(&claims(r#"{"groups":["urn:a"]}"#)));
        for text in ["", "a", "a=b", "a=b:owner", "=b:owner:/", "a=:owner:/", "b:owner:/"] {
            assert_eq!(ClaimGrant::parse(text), Err(ClaimGrantError::Form), "{text}");
        }
        assert!(matches!(ClaimGrant::parse("a=b:root:/"), Err(ClaimGrantError::Role(_))));
        assert!(matches!(ClaimGrant::parse("a=b:owner:x"), Err(ClaimGrantError::Scope(_))));
    }

    #[test]
    fn app_roles_are_the_default() {
        let held = claims(r#"{"roles":["Kalends.Operator"]}"#);
        let grants = ClaimGrant::default_app_roles();
        let fit: Vec<_> = grants.iter().filter(|grant| grant.matches(&held)).collect();
        assert_eq!(fit.len(), 1);
        assert_eq!(fit[0].grant, Grant { role: Role::Operator, scope: AccessScope::Everything });
    }
}
