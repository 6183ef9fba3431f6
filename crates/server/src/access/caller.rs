//! Who asks.

use std::sync::{Arc, LazyLock};

use kalends_domain::{AccessScope, Grant, Permission, Role};
use kalends_store::{TokenId, TokenRecord};

/// Who asks, and what he may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// What tells him from all others: limits are counted and the audit log is written by it.
    pub(crate) id: Arc<str>,
    /// What people call him.
    pub(crate) name: Option<Arc<str>>,
    grants: Arc<[Grant]>,
}

impl Caller {
    /// The user of a machine of his own.
    pub(crate) fn single_user() -> Caller {
        static CALLER: LazyLock<Caller> =
            LazyLock::new(|| Caller::new("single-user".into(), None, [everything()].into()));
        CALLER.clone()
    }

    /// Who need not be known.
    pub(crate) fn nobody() -> Caller {
        Caller::new("nobody".into(), None, [].into())
    }

    /// Who holds the token that the server was started with.
    pub(crate) fn of_start() -> Caller {
        Caller::new("start-token".into(), None, [everything()].into())
    }

    /// Who holds a static token.
    pub(crate) fn of_token(token: &TokenRecord) -> Caller {
        let name = Some(token.name.as_str()).filter(|name| !name.is_empty());
        let id = Caller::id_of_token(&token.id);
        Caller::new(id, name.map(Arc::from), [token.grant.clone()].into())
    }

    /// What a static token is called in limits and in the audit log.
    pub(crate) fn id_of_token(id: &TokenId) -> Arc<str> {
        format!("token:{id}").into()
    }

    pub(crate) fn new(id: Arc<str>, name: Option<Arc<str>>, grants: Arc<[Grant]>) -> Caller {
        Caller { id, name, grants }
    }

    /// Whether he may do so there.
    pub(crate) fn may(&self, permission: Permission, place: &AccessScope) -> bool {
        self.grants.iter().any(|grant| grant.allows(permission, place))
    }

    /// The places in `place` that he may read, where that is not all of it.
    pub(crate) fn readable_in<'a>(
        &'a self,
        place: &'a AccessScope,
    ) -> impl Iterator<Item = &'a AccessScope> {
        self.grants.iter().map(|grant| &grant.scope).filter(|inner| place.covers(inner))
    }
}

fn everything() -> Grant {
    Grant { role: Role::Owner, scope: AccessScope::Everything }
}
