//! The caller of a request.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use kalends_domain::{AccessScope, Grant, Permission, Role};
use kalends_store::{TokenId, TokenRecord};

/// An authenticated caller and its grants.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Unique id: the key of rate limits and the `who` of the audit log.
    pub(crate) id: Arc<str>,
    /// Display name for the audit log.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) method: AuthenticationMethod,
    grants: Arc<[Grant]>,
}

/// How a caller was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthenticationMethod {
    /// Not at all.
    None,
    /// By a token of the store, or the token that the server was started with.
    Token,
    /// By an access token of an identity provider.
    Oidc,
}

impl AuthenticationMethod {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            AuthenticationMethod::None => "None",
            AuthenticationMethod::Token => "Token",
            AuthenticationMethod::Oidc => "Oidc",
        }
    }
}

impl Caller {
    /// The user of a server without authentication.
    pub(crate) fn single_user() -> Caller {
        static CALLER: LazyLock<Caller> = LazyLock::new(|| {
            let method = AuthenticationMethod::None;
            Caller::new("single-user".into(), None, method, [everything()].into())
        });
        CALLER.clone()
    }

    /// The caller of a route that requires no token.
    pub(crate) fn anonymous() -> Caller {
        Caller::new("nobody".into(), None, AuthenticationMethod::None, [].into())
    }

    /// The holder of the token that the server was started with; an owner.
    pub(crate) fn start_token() -> Caller {
        let method = AuthenticationMethod::Token;
        Caller::new("start-token".into(), None, method, [everything()].into())
    }

    /// The holder of a static token of the store.
    pub(crate) fn of_token(token: &TokenRecord) -> Caller {
        let name = Some(token.name.as_str()).filter(|name| !name.is_empty());
        let id = Caller::id_of_token(&token.id);
        let method = AuthenticationMethod::Token;
        Caller::new(id, name.map(Arc::from), method, [token.grant.clone()].into())
    }

    /// The caller id of a static token.
    pub(crate) fn id_of_token(id: &TokenId) -> Arc<str> {
        format!("token:{id}").into()
    }

    pub(crate) fn new(
        id: Arc<str>,
        name: Option<Arc<str>>,
        method: AuthenticationMethod,
        grants: Arc<[Grant]>,
    ) -> Caller {
        Caller { id, name, method, grants }
    }

    pub(crate) fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The scopes of the grants as a text. Callers with the same scopes have the same text.
    pub(crate) fn scopes(&self) -> String {
        let scopes = self.grants.iter().map(|grant| grant.scope.to_string().to_ascii_lowercase());
        let scopes: BTreeSet<_> = scopes.collect();
        scopes.into_iter().collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn may(&self, permission: Permission, scope: &AccessScope) -> bool {
        self.grants.iter().any(|grant| grant.allows(permission, scope))
    }

    /// Whether the caller has a permission in any scope.
    pub(crate) fn may_anywhere(&self, permission: Permission) -> bool {
        self.grants.iter().any(|grant| grant.role.permission() >= permission)
    }

    /// The scopes within `scope` that the caller was granted, for a caller that may not read all
    /// of it.
    pub(crate) fn readable_in<'a>(
        &'a self,
        scope: &'a AccessScope,
    ) -> impl Iterator<Item = &'a AccessScope> {
        self.grants.iter().map(|grant| &grant.scope).filter(|inner| scope.covers(inner))
    }
}

fn everything() -> Grant {
    Grant { role: Role::Owner, scope: AccessScope::Everything }
}
