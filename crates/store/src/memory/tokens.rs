//! Tokens of the reference store.

use kalends_recurrence::Instant;

use super::{MemoryStore, ready};
use crate::store::Reply;
use crate::tokens::{TOKENS_MAX, TokenId, TokenRecord, Tokens};

impl Tokens for MemoryStore {
    fn put_token(&self, token: TokenRecord) -> Reply<'_, bool> {
        let tokens = &mut self.tables().tokens;
        let is_new = !tokens.contains_key(&token.id) && tokens.len() < TOKENS_MAX;
        if is_new {
            tokens.insert(token.id.clone(), token);
        }
        ready(Ok(is_new))
    }

    fn token(&self, id: TokenId) -> Reply<'_, Option<TokenRecord>> {
        ready(Ok(self.tables().tokens.get(&id).cloned()))
    }

    fn tokens(&self) -> Reply<'_, Vec<TokenRecord>> {
        let mut tokens: Vec<_> = self.tables().tokens.values().cloned().collect();
        tokens.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        ready(Ok(tokens))
    }

    fn revoke_token(&self, id: TokenId, at: Instant) -> Reply<'_, bool> {
        let mut tables = self.tables();
        let token = tables.tokens.get_mut(&id);
        ready(Ok(token.map(|token| token.revoked.get_or_insert(at)).is_some()))
    }

    fn delete_token(&self, id: TokenId) -> Reply<'_, bool> {
        ready(Ok(self.tables().tokens.remove(&id).is_some()))
    }

    fn note_token_use(&self, id: TokenId, at: Instant) -> Reply<'_, ()> {
        if let Some(token) = self.tables().tokens.get_mut(&id) {
            token.last_used = token.last_used.max(Some(at));
        }
        ready(Ok(()))
    }
}
