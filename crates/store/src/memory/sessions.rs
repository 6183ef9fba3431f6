//! Sessions of the reference store.

use super::{MemoryStore, ready};
use crate::sessions::{SESSIONS_PER_IDENTITY_MAX, SessionHash, SessionRecord, Sessions};
use crate::store::Reply;

impl Sessions for MemoryStore {
    fn put_session(&self, session: SessionRecord) -> Reply<'_, ()> {
        let sessions = &mut self.tables().sessions;
        let identity = session.identity.key();
        sessions.insert(session.hash, session);
        let same = sessions.values().filter(|other| other.identity.key() == identity);
        let mut same: Vec<_> = same.map(|other| (other.created, other.hash)).collect();
        same.sort();
        for (_, hash) in same.iter().rev().skip(SESSIONS_PER_IDENTITY_MAX) {
            sessions.remove(hash);
        }
        ready(Ok(()))
    }

    fn session(&self, hash: SessionHash) -> Reply<'_, Option<SessionRecord>> {
        ready(Ok(self.tables().sessions.get(&hash).cloned()))
    }

    fn delete_session(&self, hash: SessionHash) -> Reply<'_, bool> {
        ready(Ok(self.tables().sessions.remove(&hash).is_some()))
    }
}
