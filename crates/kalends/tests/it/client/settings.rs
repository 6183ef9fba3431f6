//! `kalends config` and the state of a server.

use super::User;
use crate::test_server::TestServer;

#[test]
fn settings_are_shown_as_the_server_prints_them_and_files_are_checked() {
    let user = User::new();
    std::fs::write(user.home().join("k.toml"), "listen = \"127.0.0.1:9999\"\n").unwrap();
    let shown = user.ok(&["config", "show", "--config", "k.toml", "--hold"]);
    assert_eq!(shown, user.ok(&["serve", "--print-config", "--config", "k.toml", "--hold"]));
    assert!(shown.contains("listen = \"127.0.0.1:9999\" # k.toml:1"), "{shown}");
    assert_eq!(user.ok(&["config", "check", "k.toml"]), "k.toml is valid\n");
    std::fs::write(user.home().join("k.toml"), "lisen = 1\n").unwrap();
    user.fails(
        &["config", "check", "k.toml"],
        2,
        "k.toml:1: lisen: unknown setting; did you mean listen?",
    );
    user.fails(&["config", "check", "nothing.toml"], 2, "nothing.toml");
}

#[test]
fn the_status_shows_a_server_on_hold() {
    let server = TestServer::start();
    let user = User::of(&server);
    let status = user.json(&["status"]);
    assert_eq!((&status["ready"], &status["collections"]), (&true.into(), &0.into()));
    assert!(status["readiness"].as_str().unwrap().contains("on hold"), "{status}");
    assert_eq!(status["apiVersion"], "2026-11-01");
}
