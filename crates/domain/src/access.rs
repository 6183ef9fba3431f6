//! Access control: permissions, the roles that include them, and the scopes to which roles are granted.

use std::fmt;

use crate::name::{
    CollectionName, CollectionPath, GroupName, GroupPath, NameError, SubscriptionId,
};

/// The permission that a request needs. Each includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Read collections, jobs and their history.
    Read,
    /// Run, enable and disable existing jobs and collections.
    Operate,
    /// Create, change and delete collections and jobs.
    Write,
    /// Delete whole resource groups.
    Own,
}

/// A role that can be granted. Each role has one more [`Permission`] than the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "self-explanatory")]
pub enum Role {
    Reader,
    Operator,
    Contributor,
    Owner,
}

impl Role {
    /// All roles, least privileged first.
    pub const ALL: [Role; 4] = [Role::Reader, Role::Operator, Role::Contributor, Role::Owner];

    /// The lower-case name, as in configuration files and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Operator => "operator",
            Role::Contributor => "contributor",
            Role::Owner => "owner",
        }
    }

    /// Looks up a role by name, ignoring case.
    pub fn named(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str().eq_ignore_ascii_case(text))
    }

    /// The highest permission of the role.
    pub const fn permission(self) -> Permission {
        match self {
            Role::Reader => Permission::Read,
            Role::Operator => Permission::Operate,
            Role::Contributor => Permission::Write,
            Role::Owner => Permission::Own,
        }
    }

    /// The least privileged role with a permission.
    pub const fn needed_for(permission: Permission) -> Role {
        match permission {
            Permission::Read => Role::Reader,
            Permission::Operate => Role::Operator,
            Permission::Write => Role::Contributor,
            Permission::Own => Role::Owner,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A resource and everything below it. A job belongs to the scope of its collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessScope {
    /// The whole installation, written `/`.
    Everything,
    /// A subscription with its resource groups.
    Subscription(SubscriptionId),
    /// A resource group with its collections.
    Group(GroupPath),
    /// A collection with its jobs.
    Collection(CollectionPath),
}

/// Error of parsing an [`AccessScope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessScopeError {
    /// The text is not a path of a supported form.
    #[error(
        "expected /, /subscriptions/S, /subscriptions/S/resourceGroups/G or \
         /subscriptions/S/resourceGroups/G/providers/Microsoft.Scheduler/jobCollections/C"
    )]
    Form,
    /// A name in the path is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl AccessScope {
    /// Parses a path. Keywords ignore case, and the provider segment is optional.
    pub fn parse(text: &str) -> Result<AccessScope, AccessScopeError> {
        let path = text.strip_prefix('/').ok_or(AccessScopeError::Form)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() {
            return Ok(AccessScope::Everything);
        }
        let segments: Vec<&str> = path.split('/').collect();
        let is = |segment: &str, word: &str| segment.eq_ignore_ascii_case(word);
        let (subscriptions, subscription, rest) = match segments.as_slice() {
            [word, name, rest @ ..] => (*word, SubscriptionId::new(name), rest),
            _ => return Err(AccessScopeError::Form),
        };
        if !is(subscriptions, "subscriptions") {
            return Err(AccessScopeError::Form);
        }
        let subscription = subscription?;
        let (group, rest) = match rest {
            [] => return Ok(AccessScope::Subscription(subscription)),
            [word, name, rest @ ..] if is(word, "resourceGroups") => (GroupName::new(name)?, rest),
            _ => return Err(AccessScopeError::Form),
        };
        let group = GroupPath { subscription, group };
        let rest = match rest {
            [] => return Ok(AccessScope::Group(group)),
            [word, provider, rest @ ..]
                if is(word, "providers") && is(provider, "Microsoft.Scheduler") =>
            {
                rest
            }
            rest => rest,
        };
        match rest {
            [word, name] if is(word, "jobCollections") => {
                let collection = CollectionName::new(name)?;
                Ok(AccessScope::Collection(CollectionPath { group, collection }))
            }
            _ => Err(AccessScopeError::Form),
        }
    }

    /// Whether `other` is this scope or below it.
    pub fn covers(&self, other: &AccessScope) -> bool {
        match self {
            AccessScope::Everything => true,
            AccessScope::Subscription(own) => other.subscription() == Some(own),
            AccessScope::Group(own) => other.group() == Some(own),
            AccessScope::Collection(_) => self == other,
        }
    }

    fn subscription(&self) -> Option<&SubscriptionId> {
        match self {
            AccessScope::Everything => None,
            AccessScope::Subscription(subscription) => Some(subscription),
            AccessScope::Group(_) | AccessScope::Collection(_) => {
                self.group().map(|path| &path.subscription)
            }
        }
    }

    fn group(&self) -> Option<&GroupPath> {
        match self {
            AccessScope::Everything | AccessScope::Subscription(_) => None,
            AccessScope::Group(group) => Some(group),
            AccessScope::Collection(collection) => Some(&collection.group),
        }
    }
}

impl fmt::Display for AccessScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == AccessScope::Everything {
            return f.write_str("/");
        }
        if let Some(subscription) = self.subscription() {
            write!(f, "/subscriptions/{subscription}")?;
        }
        if let Some(path) = self.group() {
            write!(f, "/resourceGroups/{}", path.group)?;
        }
        if let AccessScope::Collection(path) = self {
            write!(f, "/providers/Microsoft.Scheduler/jobCollections/{}", path.collection)?;
        }
        Ok(())
    }
}

/// A role granted on a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The granted role.
    pub role: Role,
    /// The resources to which the role applies.
    pub scope: AccessScope,
}

impl Grant {
    /// Whether the grant includes `permission` on `scope`.
    pub fn allows(&self, permission: Permission, scope: &AccessScope) -> bool {
        self.role.permission() >= permission && self.scope.covers(scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: &str = "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40";

    fn scope(text: &str) -> AccessScope {
        AccessScope::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn scopes_ignore_case_and_are_written_in_full() {
        let collection = format!("{S}/resourceGroups/Rg/jobCollections/Jc");
        let whole =
            format!("{S}/resourceGroups/Rg/providers/Microsoft.Scheduler/jobCollections/Jc");
        assert_eq!(scope(&collection).to_string(), whole);
        assert_eq!(scope(&whole.to_uppercase()), scope(&collection));
        for text in ["/", S, &format!("{S}/resourceGroups/rg"), &whole] {
            assert_eq!(scope(text).to_string(), text);
        }
        assert_eq!(scope(&format!("{S}/")), scope(S));
        for text in [
            "",
            "x",
            "/x",
            "/subscriptions",
            &format!("{S}/x"),
            &format!("{S}/resourceGroups"),
            &format!("{collection}/jobs/j"),
            &format!("{S}//resourceGroups/rg"),
        ] {
            assert_eq!(AccessScope::parse(text), Err(AccessScopeError::Form), "{text}");
        }
        assert!(matches!(AccessScope::parse("/subscriptions/1"), Err(AccessScopeError::Name(_))));
    }

    #[test]
    fn a_scope_covers_itself_and_everything_below_it() {
        let group = format!("{S}/resourceGroups/rg");
        let other = "/subscriptions/00000000-0000-0000-0000-000000000000";
        let down = ["/", S, &group, &format!("{group}/jobCollections/jc")];
        for (outer, above) in down.iter().enumerate() {
            for (inner, below) in down.iter().enumerate() {
                let covers = scope(above).covers(&scope(&below.to_uppercase()));
                assert_eq!(covers, outer <= inner, "{above} {below}");
            }
        }
        for (above, below) in [
            (S.to_owned(), other.to_owned()),
            (group.clone(), format!("{other}/resourceGroups/rg")),
            (group.clone(), format!("{S}/resourceGroups/rg2")),
            (format!("{group}/jobCollections/jc"), format!("{group}/jobCollections/jc2")),
            (
                format!("{group}/jobCollections/jc"),
                format!("{S}/resourceGroups/rg2/jobCollections/jc"),
            ),
        ] {
            assert!(!scope(&above).covers(&scope(&below)), "{above} {below}");
        }
    }

    #[test]
    fn a_role_includes_the_permissions_of_lesser_roles() {
        let permissions =
            [Permission::Read, Permission::Operate, Permission::Write, Permission::Own];
        for (rank, role) in Role::ALL.into_iter().enumerate() {
            let grant = Grant { role, scope: AccessScope::Everything };
            for (needed, permission) in permissions.into_iter().enumerate() {
                assert_eq!(grant.allows(permission, &scope(S)), rank >= needed);
            }
            assert_eq!(Role::needed_for(role.permission()), role);
            assert_eq!(Role::named(&role.to_string().to_uppercase()), Some(role));
        }
        assert_eq!(Role::named("root"), None);
    }
}
