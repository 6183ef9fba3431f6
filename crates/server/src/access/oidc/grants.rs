//! From what a token says to what its holder may do.

use kalends_domain::{AccessScope, AccessScopeError, Grant, Role};

use crate::access::oidc::jwt::Claims;

/// Who has a value in a claim has a role in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimGrant {
    claim: String,
    value: String,
    pub(super) grant: Grant,
}

/// Why a text is no [`ClaimGrant`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimGrantError {
    /// It has another form.
    Form,
    /// Its role is none.
    Role(String),
    /// Its place is none.
    AccessScope(AccessScopeError),
}

impl std::fmt::Display for ClaimGrantError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClaimGrantError::Form => {
                f.write_str("expected claim=value:role:scope, such as roles=Jobs.Admin:owner:/")
            }
            ClaimGrantError::Role(role) => {
                let known = Role::ALL.map(Role::as_str).join(", ");
                write!(f, "{role} is no role; roles are {known}")
            }
            ClaimGrantError::AccessScope(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClaimGrantError {}

impl ClaimGrant {
    /// Reads `claim=value:role:scope`. The value may hold colons.
    pub fn parse(text: &str) -> Result<ClaimGrant, ClaimGrantError> {
        let form = || ClaimGrantError::Form;
        let (rest, place) = text.rsplit_once(':').ok_or_else(form)?;
        let (pair, role) = rest.rsplit_once(':').ok_or_else(form)?;
        let (claim, value) = pair.split_once('=').ok_or_else(form)?;
        if claim.is_empty() || value.is_empty() {
            return Err(form());
        }
        let role = Role::named(role).ok_or_else(|| ClaimGrantError::Role(role.to_owned()))?;
        let place = AccessScope::parse(place).map_err(ClaimGrantError::AccessScope)?;
        let grant = Grant { role, scope: place };
        Ok(ClaimGrant { claim: claim.to_owned(), value: value.to_owned(), grant })
    }

    /// What holds where an operator says nothing: the app roles `Kalends.Owner` and so on, everywhere.
    pub fn of_app_roles() -> Vec<ClaimGrant> {
        let names = ["Kalends.Reader", "Kalends.Operator", "Kalends.Contributor", "Kalends.Owner"];
        let grant = |(role, name): (Role, &str)| ClaimGrant {
            claim: "roles".into(),
            value: name.into(),
            grant: Grant { role, scope: AccessScope::Everything },
        };
        Role::ALL.into_iter().zip(names).map(grant).collect()
    }

    pub(super) fn fits(&self, claims: &Claims) -> bool {
        claims.has(&self.claim, &self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::oidc::jwt::tests::claims;

    #[test]
    fn a_grant_is_read_with_colons_in_its_value() {
        let group = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/g";
        let grant = ClaimGrant::parse(&format!("groups=urn:a:b:operator:{group}")).unwrap();
        assert_eq!(grant.grant.role, Role::Operator);
        assert_eq!(grant.grant.scope.to_string(), group);
        assert!(grant.fits(&claims(r#"{"groups":["x","urn:a:b"]}"#)));
        assert!(!grant.fits(&claims(r#"{"groups":["urn:a"]}"#)));
        for text in ["", "a", "a=b", "a=b:owner", "=b:owner:/", "a=:owner:/", "b:owner:/"] {
            assert_eq!(ClaimGrant::parse(text), Err(ClaimGrantError::Form), "{text}");
        }
        assert!(matches!(ClaimGrant::parse("a=b:root:/"), Err(ClaimGrantError::Role(_))));
        assert!(matches!(ClaimGrant::parse("a=b:owner:x"), Err(ClaimGrantError::AccessScope(_))));
    }

    #[test]
    fn app_roles_hold_where_nothing_is_said() {
        let held = claims(r#"{"roles":["Kalends.Operator"]}"#);
        let grants = ClaimGrant::of_app_roles();
        let fit: Vec<_> = grants.iter().filter(|grant| grant.fits(&held)).collect();
        assert_eq!(fit.len(), 1);
        assert_eq!(fit[0].grant, Grant { role: Role::Operator, scope: AccessScope::Everything });
    }
}
