//! Selecting a server and a token.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use super::User;
use crate::test_server::TestServer;
use crate::tls_and_http2::write_certificate;

const TOKEN: &str = "kal_0123456789abcdef_0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn a_context_names_a_server_and_keeps_its_token_secret() {
    let server = TestServer::start();
    let user = User::new();
    let url = format!("http://{}", server.address);
    let created =
        user.run_with(&["context", "create", "lab", "--server", &url, "--token-stdin"], TOKEN);
    assert_eq!(created.status, 0, "{created:?}");
    assert_eq!(created.stdout, "context lab created, and is the current context\n");
    let mode = std::fs::metadata(user.config_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let status = user.ok(&["status"]);
    assert!(status.contains(&url) && status.contains("ready"), "{status}");
    user.ok(&["context", "create", "far", "--server", "https://kalends.example.com"]);
    let list = user.ok(&["context", "list"]);
    assert_eq!(
        list,
        format!(
            "CURRENT  NAME  SERVER{:width$}  TOKEN\n         far   https://kalends.example.com  none\n*        lab   {url:<27}  saved\n",
            "",
            width = 27 - "SERVER".len()
        )
    );
    for format in ["table", "wide", "json", "yaml", "name"] {
        let shown = user.ok(&["context", "list", "-o", format])
            + &user.ok(&["context", "show", "-o", format]);
        assert!(!shown.contains(TOKEN) && shown.contains("lab"), "{shown}");
    }
    user.ok(&["context", "use", "far"]);
    assert_eq!(user.ok(&["context", "show", "-o", "name"]), "far\n");
    user.ok(&["context", "delete", "far"]);
    user.fails(&["context", "show"], 2, "no context is selected");
    user.fails(
        &["status", "--context", "far"],
        2,
        "there is no context \"far\"; the contexts are lab",
    );
    std::fs::set_permissions(user.config_file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let warned = user.run(&["context", "list"]);
    assert!(warned.stderr.contains("other users can read the tokens"), "{warned:?}");
}

#[test]
fn the_configuration_directory_of_the_desktop_is_respected() {
    let user = User::new();
    let elsewhere = user.home().join("elsewhere");
    let user = user.with("XDG_CONFIG_HOME", elsewhere.to_str().unwrap());
    user.ok(&["context", "create", "lab", "--server", "http://127.0.0.1:1"]);
    assert!(elsewhere.join("kalends/config.toml").exists() && !user.config_file().exists());
}

#[test]
fn a_token_is_never_sent_over_plain_http_to_another_machine_unless_the_user_says_so() {
    // An address of this machine that is not the loopback interface.
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let name = std::fs::read_to_string("/etc/hostname").unwrap();
    let url = format!("http://{}:{port}", name.trim());
    let user = User::new().with("KALENDS_CLIENT_TOKEN", TOKEN);
    let message = user.fails(&["job", "list", "--server", &url], 2, "plain HTTP");
    assert!(message.contains("--allow-plain-http") && !message.contains(TOKEN), "{message}");
    assert!(listener.accept().is_err(), "nothing connected");
}

#[test]
fn the_owner_token_of_the_server_is_not_a_token_of_the_client() {
    let server = TestServer::start_with(|command, _| {
        command.env("KALENDS_TOKEN", TOKEN);
    });
    let user = User::of(&server);
    let message = user.fails(&["job", "list"], 4, "");
    assert!(message.contains("hint: set a valid token in KALENDS_CLIENT_TOKEN"), "{message}");
    let user = user.with("KALENDS_TOKEN", TOKEN);
    user.fails(&["job", "list"], 4, "");
    let user = user.with("KALENDS_CLIENT_TOKEN", TOKEN);
    user.ok(&["job", "list"]);
    let file = user.home().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let other = User::of(&server);
    other.ok(&["job", "list", "--token-file", file.to_str().unwrap()]);
}

#[test]
fn a_server_that_cannot_be_reached_has_its_own_exit_status() {
    let user = User::new();
    // The port of a listener that no longer exists.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let message = user.fails(&["job", "list", "--server", &url], 5, &format!("cannot reach {url}"));
    assert!(message.contains("hint: start a server with `kalends serve`"), "{message}");
    user.fails(&["status", "--server", "127.0.0.1:8080"], 2, "http://HOST:PORT");
}

#[test]
fn a_server_with_a_private_certificate_authority_needs_a_ca_file() {
    let server = TestServer::start_with(|command, folder| {
        write_certificate(folder);
        command.arg("--tls-cert").arg(folder.join("tls.pem"));
        command.arg("--tls-key").arg(folder.join("tls.key"));
    });
    let port = server.address.port();
    let (url, authority) = (format!("https://localhost:{port}"), server.folder().join("tls.pem"));
    let user = User::new().with("KALENDS_CLIENT_TOKEN", TOKEN);
    let message =
        user.fails(&["status", "--server", &url], 5, "certificate of the server is not trusted");
    assert!(
        message.contains("hint: name the CA certificate of the server with --ca-file"),
        "{message}"
    );
    let authority = authority.to_str().unwrap();
    user.ok(&["status", "--server", &url, "--ca-file", authority]);
    user.ok(&["context", "create", "tls", "--server", &url, "--ca-file", authority]);
    user.ok(&["status"]);
    let plain = format!("http://localhost:{port}");
    user.fails(&["status", "--server", &plain], 5, "cannot reach");
}
