//! Collections, and lists of jobs.

use super::User;
use crate::test_server::TestServer;

#[test]
fn collections_are_created_changed_and_deleted() {
    let server = TestServer::start();
    let user = User::of(&server);
    assert_eq!(
        user.ok(&["collection", "create", "web", "--tag", "team=billing"]),
        "collection web created\n"
    );
    user.fails(
        &["collection", "create", "web"],
        4,
        "exists already; `kalends collection edit web`",
    );
    assert_eq!(
        user.ok(&["collection", "create", "etl", "--dry-run"]),
        "collection etl would be created\n"
    );
    let list = "NAME  STATE    PLAN\nweb   Enabled  Standard\n";
    assert_eq!(user.ok(&["collection", "list"]), list);
    assert_eq!(user.ok(&["collection", "show", "web"]), list);
    user.ok(&["collection", "edit", "web", "--plan", "P10Premium"]);
    assert_eq!(
        user.json(&["collection", "show", "web"])["properties"]["sku"]["name"],
        "P10Premium"
    );
    assert_eq!(user.json(&["collection", "show", "web"])["tags"]["team"], "billing");
    assert_eq!(user.ok(&["collection", "disable", "web"]), "collection web disabled\n");
    assert_eq!(user.json(&["collection", "list"])[0]["properties"]["state"], "Disabled");
    assert_eq!(user.ok(&["collection", "enable", "web", "-q"]), "");
    let message = user.fails(&["collection", "show", "nothing"], 3, "nothing");
    assert!(message.contains("hint: `kalends job list`"), "{message}");
    user.fails(
        &["collection", "show", "../x"],
        2,
        "the name of a collection must begin with a letter",
    );
    assert_eq!(
        user.ok(&["collection", "delete", "web", "--dry-run"]),
        "collection web would be deleted\n"
    );
    assert_eq!(user.ok(&["collection", "delete", "web"]), "collection web deleted\n");
    assert_eq!(user.ok(&["collection", "list", "-o", "name"]), "");
}
