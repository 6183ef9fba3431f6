//! The caller of a request.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use kalends_domain::{AccessScope, Grant, NoteAuthor, Permission, Role};
use kalends_recurrence::Instant;
use kalends_store::{SessionHash, TokenId, TokenRecord};

/// An authenticated caller and its grants.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Unique id: the key of rate limits and the `who` of the audit log.
    pub(crate) id: Arc<str>,
    /// Display name for the audit log.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) credential: Credential,
    /// When the credential expires; `None` if it does not.
    pub(crate) expires: Option<Instant>,
    pub(super) grants: Arc<[Grant]>,
}

/// The credential that authenticated a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The caller was not authenticated.
    None,
    /// The token that the server was started with.
    StartToken,
    /// A static token of the store.
    Token(TokenId),
    /// A token of an identity provider.
    Oidc {
        /// The claim `iss`.
        issuer: Arc<str>,
        /// The claim `sub`, unique for one issuer.
        subject: Arc<str>,
    },
    /// The cookie of a session.
    Session(SessionHash),
}

impl Credential {
    /// The name in `GET /api/me`.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Credential::None => "None",
            Credential::StartToken | Credential::Token(_) => "Token",
            Credential::Oidc { .. } => "Oidc",
            Credential::Session(_) => "Session",
        }
    }
}

impl Caller {
    /// The user of a server without authentication.
    pub(crate) fn single_user() -> Caller {
        static CALLER: LazyLock<Caller> = LazyLock::new(|| {
            Caller::new("single-user".into(), None, Credential::None, [everything()].into())
        });
        CALLER.clone()
    }

    /// The caller of a route that requires no token.
    pub(crate) fn anonymous() -> Caller {
        Caller::new("nobody".into(), None, Credential::None, [].into())
    }

    /// The holder of the token that the server was started with; an owner.
    pub(crate) fn start_token() -> Caller {
        Caller::new("start-token".into(), None, Credential::StartToken, [everything()].into())
    }

    /// The holder of a static token of the store.
    pub(crate) fn of_token(token: &TokenRecord) -> Caller {
        let name = Some(token.name.as_str()).filter(|name| !name.is_empty());
        let (id, credential) =
            (Caller::id_of_token(&token.id), Credential::Token(token.id.clone()));
        let caller = Caller::new(id, name.map(Arc::from), credential, [token.grant.clone()].into());
        Caller { expires: token.expires, ..caller }
    }

    /// The user of an identity provider with these claims `iss` and `sub`.
    pub(crate) fn of_subject(
        issuer: &str,
        subject: &str,
        name: Option<&str>,
        grants: Arc<[Grant]>,
    ) -> Caller {
        let id = format!("oidc:{issuer}#{subject}").into();
        let credential = Credential::Oidc { issuer: issuer.into(), subject: subject.into() };
        Caller::new(id, name.map(Arc::from), credential, grants)
    }

    /// The caller, authenticated by a session.
    pub(crate) fn in_session(self, hash: SessionHash, expires: Instant) -> Caller {
        Caller { credential: Credential::Session(hash), expires: Some(expires), ..self }
    }

    /// The caller id of a static token.
    pub(crate) fn id_of_token(id: &TokenId) -> Arc<str> {
        format!("token:{id}").into()
    }

    fn new(
        id: Arc<str>,
        name: Option<Arc<str>>,
        credential: Credential,
        grants: Arc<[Grant]>,
    ) -> Caller {
        Caller { id, name, credential, expires: None, grants }
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

    /// The caller as the author of a note.
    pub(crate) fn note_author(&self) -> NoteAuthor {
        NoteAuthor { id: self.id.to_string(), name: self.name.as_deref().map(str::to_owned) }
    }

    pub(crate) fn may(&self, permission: Permission, scope: &AccessScope) -> bool {
        self.grants.iter().any(|grant| grant.allows(permission, scope))
    }

    /// The scopes that the caller may read.
    pub(crate) fn readable_scopes(&self) -> Vec<AccessScope> {
        match self.may(Permission::Read, &AccessScope::Everything) {
            true => vec![AccessScope::Everything],
            false => self.grants.iter().map(|grant| grant.scope.clone()).collect(),
        }
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
