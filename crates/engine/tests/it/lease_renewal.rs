//! Renewal of leases when a commit fails.

use std::sync::atomic::Ordering;

use kalends_store::ApiStore;

use crate::world::{Response, World, at, job, run};

#[test]
fn a_failed_renewal_is_retried_before_the_renewals_of_younger_claims() {
    run(async {
        let mut world = World::new().await;
        let store = world.start_engine_on_faulty_store();
        world.respond(&[Response::Hang, Response::Hang]);
        let older = world.put("older", job(&at(10), None)).await;
        world.put("younger", job(&at(14), None)).await;
        world.pass(14).await;
        assert_eq!(world.calls().len(), 2);
        let lease_until = async || {
            let open = world.store.open_runs(older.key).await.unwrap();
            open[0].claim.unwrap().lease_until
        };
        let first = lease_until().await;
        // The lease of the older claim is half expired; its renewal fails once.
        store.next_commit_fails.store(true, Ordering::Relaxed);
        world.pass(1).await;
        assert!(!store.next_commit_fails.load(Ordering::Relaxed), "a renewal was committed");
        assert_eq!(lease_until().await, first);
        world.pass(2).await;
        assert!(lease_until().await > first, "the younger claim is not renewed before 19 s");
    });
}
