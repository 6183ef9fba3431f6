//! Sign-in to the web console at an identity provider.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::access::check_refuses_to_start;
use crate::connection::{Connection, Response};
use crate::sign_in_provider::{CLIENT, CLIENT_SECRET, SignInProvider, parse};
use crate::test_server::{TestServer, database};
use crate::tokens::{SUBSCRIPTION, code, new};

struct Setup {
    provider: SignInProvider,
    /// The issuer with which the server starts.
    issuer: Arc<Mutex<String>>,
    server: TestServer,
    connection: Connection,
}

impl Setup {
    fn new(settings: &[(&str, &str)]) -> Setup {
        let provider = SignInProvider::start();
        let issuer = Arc::new(Mutex::new(provider.issuer.clone()));
        let current = Arc::clone(&issuer);
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings: Vec<_> = settings.iter().map(owned).collect();
        let server = TestServer::start_restartable(move |command, _| {
            command
                .env("KALENDS_OIDC_ISSUER", &*current.lock().unwrap())
                .env("KALENDS_OIDC_CLIENT_ID", CLIENT)
                .env("KALENDS_OIDC_CLIENT_SECRET", CLIENT_SECRET)
                .envs(settings.iter().map(|(name, value)| (name, value)));
        });
        let connection = server.connect();
        Setup { provider, issuer, server, connection }
    }

    /// Starts the server again with this provider.
    fn restart_with(&mut self, provider: SignInProvider) {
        self.issuer.lock().unwrap().clone_from(&provider.issuer);
        self.provider = provider;
        assert!(self.server.stop());
        self.server.restart();
        self.connection = self.server.connect();
    }

    /// Begins a sign-in: the URL at the provider, and the cookie of the browser.
    fn begin(&mut self, to: &str) -> (String, String) {
        let response = self.connection.request("GET", &format!("/sign-in/oidc?to={to}"), None);
        assert_eq!(response.status, 303, "{response:?}");
        let cookie = response.header("Set-Cookie").unwrap();
        let attributes = "; Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax";
        let pair = cookie.strip_suffix(attributes).unwrap_or_else(|| panic!("{cookie}"));
        assert!(pair.starts_with("__Host-kalends-sign-in="), "{cookie}");
        (response.header("Location").unwrap().to_owned(), pair.to_owned())
    }

    /// Opens the callback URL to which the provider redirects.
    fn finish(&mut self, callback: &str, cookie: &str) -> Response {
        let (_, target) = callback.split_once("//").unwrap();
        let target = target.strip_prefix(&self.server.address.to_string()).unwrap().to_owned();
        self.connection.request_with("GET", &target, &[("Cookie", cookie)], None)
    }

    /// Signs in and returns the last response.
    fn sign_in(&mut self) -> Response {
        let (url, cookie) = self.begin("jobs");
        let callback = self.provider.visit(&url);
        self.finish(&callback, &cookie)
    }
}

/// The session cookie that a response sets.
fn session(response: &Response) -> Option<String> {
    let cookies =
        response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let mut cookies = cookies.map(|(_, value)| value.split(';').next().unwrap());
    cookies.find(|pair| pair.starts_with("__Host-kalends=")).map(str::to_owned)
}

#[test]
fn a_user_signs_in_at_the_provider_and_has_the_roles_of_the_claims() {
    let mut setup = Setup::new(&[]);
    let page = setup.connection.request("GET", "/sign-in?to=jobs", None);
    assert!(page.body.contains(r#"href="./sign-in/oidc?to=jobs""#), "{}", page.body);
    let response = setup.sign_in();
    assert_eq!(response.status, 303);
    assert_eq!(response.header("Location"), Some("../sign-in?resume=true&to=jobs"));
    assert_eq!(response.header("Referrer-Policy"), Some("no-referrer"));
    let cleared = "__Host-kalends-sign-in=; Path=/; Max-Age=0";
    assert!(response.headers.iter().any(|(_, value)| value.starts_with(cleared)), "{response:?}");
    let cookie = session(&response).unwrap();
    let page = setup.connection.request("GET", "/sign-in?resume=true&to=jobs", None);
    assert!(page.body.contains(r#"content="0; url=./jobs""#), "{}", page.body);
    let read = |connection: &mut Connection, target: &str| {
        connection.request_with("GET", target, &[("Cookie", &cookie)], None)
    };
    let me: Value = serde_json::from_str(&read(&mut setup.connection, "/api/me").body).unwrap();
    assert_eq!(me["authentication"], "Session");
    assert_eq!(me["name"], "ann@example.org");
    assert_eq!(me["roles"], json!([{"role": "Reader", "scope": "/"}]));
    let target = new(&format!("{SUBSCRIPTION}/resourceGroups"));
    assert_eq!(read(&mut setup.connection, &target).status, 200);
    let audit = std::fs::read_to_string(setup.server.folder().join("audit.log")).unwrap();
    let line: Value = serde_json::from_str(audit.lines().next().unwrap()).unwrap();
    let who = format!("oidc:{}#user-7", setup.provider.issuer);
    assert_eq!((&line["who"], &line["status"]), (&json!(who), &json!(303)));
    assert_eq!(line["operation"], "Microsoft.Scheduler/sessions/write");
    assert_eq!(line["path"], "/sign-in/callback");
}

/// Two issuers may give the same subject to different users.
#[test]
fn a_session_of_another_issuer_ends_and_its_user_is_another_caller() {
    let mut setup = Setup::new(&[]);
    let cookie = session(&setup.sign_in()).unwrap();
    let read = |setup: &mut Setup, cookie: &str| {
        setup.connection.request_with("GET", "/api/me", &[("Cookie", cookie)], None)
    };
    let id = |response: &Response| {
        let me: Value = serde_json::from_str(&response.body).unwrap();
        me["id"].as_str().map(str::to_owned)
    };
    let first = (id(&read(&mut setup, &cookie)), setup.provider.issuer.clone());
    setup.restart_with(SignInProvider::start());
    let response = read(&mut setup, &cookie);
    assert_eq!(code(&response), (401, "ExpiredAuthenticationToken".into()));
    let cookie = session(&setup.sign_in()).unwrap();
    let second = (id(&read(&mut setup, &cookie)), setup.provider.issuer.clone());
    for (id, issuer) in [first, second] {
        assert_eq!(id, Some(format!("oidc:{issuer}#user-7")));
    }
}

#[test]
fn a_callback_that_does_not_belong_to_the_browser_signs_nobody_in() {
    let mut setup = Setup::new(&[]);
    let (url, cookie) = setup.begin("jobs");
    let (_, other_cookie) = setup.begin("jobs");
    let callback = setup.provider.visit(&url);
    let forged = callback.replace("state=", "state=x");
    let foreign = format!("{callback}&iss=https%3A%2F%2Fevil.test");
    for (callback, cookie) in [
        (&callback, ""),
        (&callback, &other_cookie),
        (&callback, "__Host-kalends-sign-in=x"),
        (&forged, &cookie),
    ] {
        let response = setup.finish(callback, cookie);
        let location = response.header("Location").unwrap();
        assert!(location.starts_with("../sign-in?failure=expired&to="), "{location}");
        assert_eq!(response.header("Set-Cookie"), None, "the sign-in in another tab can continue");
    }
    let mixed_up = setup.finish(&foreign, &cookie);
    assert_eq!(mixed_up.header("Location"), Some("../sign-in?failure=rejected&to=jobs"));
    assert_eq!(session(&mixed_up), None);
    assert!(session(&setup.finish(&callback, &cookie)).is_some());
    let again = setup.finish(&callback, &cookie);
    assert_eq!(again.header("Location"), Some("../sign-in?failure=rejected&to=jobs"));
    assert_eq!(session(&again), None, "a code is used once");
}

#[test]
fn errors_of_the_provider_are_shown_in_plain_words_and_logged() {
    let mut setup = Setup::new(&[]);
    for (error, failure, message) in [
        ("access_denied", "denied", "You or the identity provider declined the sign-in."),
        ("server_error", "unavailable", "cannot be reached at the moment"),
        ("%3Cscript%3E", "misconfigured", "does not accept requests of this server"),
    ] {
        let (url, cookie) = setup.begin("jobs");
        let callback = setup.provider.visit(&url);
        let parameters = format!("error={error}&error_description=%3Cb%3E{failure}%0A&x=");
        let response = setup.finish(&callback.replace("code=", &parameters), &cookie);
        let location = format!("../sign-in?failure={failure}&to=jobs");
        assert_eq!(response.header("Location"), Some(location.as_str()));
        assert_eq!(session(&response), None);
        let line = setup.server.line_with("the identity provider returned no code");
        assert!(line.contains(&format!("<b>{failure}\\n")), "{line}");
        // The browser follows a redirect that began at the provider.
        let headers = [("Sec-Fetch-Site", "cross-site")];
        let page = setup.connection.request_with("GET", &location[2..], &headers, None);
        assert!(page.body.contains(message), "{}", page.body);
        assert!(!page.body.contains("http-equiv"), "the message stays: {}", page.body);
    }
}

#[test]
fn a_user_without_a_role_is_told_so_and_has_no_session() {
    let mut setup = Setup::new(&[]);
    setup.provider.set_claim("roles", json!(["Other.Owner"]));
    let response = setup.sign_in();
    assert_eq!(response.header("Location"), Some("../sign-in?failure=no-role&to=jobs"));
    assert_eq!(session(&response), None);
}

#[test]
fn a_session_of_the_provider_lasts_an_hour_unless_the_settings_say_otherwise() {
    for (settings, seconds) in [
        (&[][..], 3_600),
        (&[("KALENDS_OIDC_SESSION_LIFETIME", "PT8H")], 28_800),
        (&[("KALENDS_SESSION_LIFETIME", "PT10M")], 600),
    ] {
        let mut setup = Setup::new(settings);
        let response = setup.sign_in();
        let attributes = format!("; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict");
        let cookie = format!("{}{attributes}", session(&response).unwrap());
        assert!(response.headers.iter().any(|(_, value)| *value == cookie), "{response:?}");
    }
    let too_long = [("KALENDS_OIDC_SESSION_LIFETIME", "P1D")];
    check_refuses_to_start(&[], &too_long, "PT12H");
}

#[test]
fn sign_in_at_the_provider_ends_the_session_that_the_browser_had() {
    let mut setup = Setup::new(&[]);
    let first = session(&setup.sign_in()).unwrap();
    let status = |setup: &mut Setup| {
        let headers = [("Cookie", first.as_str())];
        setup.connection.request_with("GET", "/api/me", &headers, None).status
    };
    // Browsers send the session cookie with the first request and not with the callback.
    let headers = [("Cookie", first.as_str())];
    let begun = setup.connection.request_with("GET", "/sign-in/oidc", &headers, None);
    let cookie = begun.header("Set-Cookie").unwrap().split(';').next().unwrap().to_owned();
    let callback = setup.provider.visit(begun.header("Location").unwrap());
    assert_eq!(status(&mut setup), 200, "until the sign-in is finished");
    let second = session(&setup.finish(&callback, &cookie)).unwrap();
    assert_ne!(first, second);
    assert_eq!(status(&mut setup), 401);
}

#[test]
fn another_node_can_finish_a_sign_in() {
    let Some(database) = database("sign_in") else { return };
    let provider = SignInProvider::start();
    let start = || {
        TestServer::start_in(&database, |command| {
            command
                .env("KALENDS_KEY", crate::postgres::KEY)
                .env("KALENDS_AUDIT_LOG", "off")
                .env("KALENDS_OIDC_ISSUER", &provider.issuer)
                .env("KALENDS_OIDC_CLIENT_ID", CLIENT)
                .env("KALENDS_OIDC_CLIENT_SECRET", CLIENT_SECRET)
                // Of the load balancer.
                .env("KALENDS_OIDC_REDIRECT_URL", "http://localhost/sign-in/callback");
        })
    };
    let nodes = [start(), start()];
    let begun = nodes[0].connect().request("GET", "/sign-in/oidc?to=jobs", None);
    let cookie = begun.header("Set-Cookie").unwrap().split(';').next().unwrap();
    let callback = provider.visit(begun.header("Location").unwrap());
    let target = callback.strip_prefix("http://localhost").unwrap();
    let mut other = nodes[1].connect();
    let response = other.request_with("GET", target, &[("Cookie", cookie)], None);
    let cookie = session(&response).unwrap_or_else(|| panic!("{response:?}"));
    for node in &nodes {
        let me = node.connect().request_with("GET", "/api/me", &[("Cookie", &cookie)], None);
        assert_eq!(me.status, 200);
    }
}

#[test]
fn id_tokens_with_invalid_claims_are_refused() {
    let mut setup = Setup::new(&[("KALENDS_FAILURES_PER_MINUTE", "1000")]);
    for (name, value) in [
        ("nonce", json!("another")),
        ("nonce", Value::Null),
        ("aud", json!("another client")),
        ("aud", json!([CLIENT, "other"])),
        ("azp", json!("another client")),
        ("iss", json!("https://evil.test")),
        ("exp", json!(1_000_000_000)),
        ("sub", Value::Null),
    ] {
        setup.provider.set_claim(name, value.clone());
        let response = setup.sign_in();
        let location = response.header("Location");
        assert_eq!(location, Some("../sign-in?failure=rejected&to=jobs"), "{name} {value}");
        assert_eq!(session(&response), None);
        setup.provider.reset_claims();
    }
    assert!(session(&setup.sign_in()).is_some());
    setup.provider.set_claim("aud", json!([CLIENT, "other"]));
    setup.provider.set_claim("azp", json!(CLIENT));
    assert!(session(&setup.sign_in()).is_some());
}

#[test]
fn the_page_after_a_sign_in_is_one_of_the_console() {
    let mut setup = Setup::new(&[]);
    for to in ["%2F%2Fevil.test", "https%3A%2F%2Fevil.test", "%2F%5Cevil.test"] {
        let (url, cookie) = setup.begin(to);
        let callback = setup.provider.visit(&url);
        let response = setup.finish(&callback, &cookie);
        assert_eq!(response.header("Location"), Some("../sign-in?resume=true&to="), "{to}");
    }
}

#[test]
fn codes_are_limited_per_client_address() {
    let mut setup = Setup::new(&[("KALENDS_FAILURES_PER_MINUTE", "2")]);
    for number in 0..4 {
        let response = setup.sign_in();
        assert_eq!(session(&response).is_some(), number < 2, "{number}");
        if number >= 2 {
            assert_eq!(response.header("Location"), Some("../sign-in?failure=too-many&to=jobs"));
        }
    }
}

#[test]
fn the_callback_url_can_be_set_for_a_server_behind_a_path_prefix() {
    let url = "https://example.org/kalends/sign-in/callback";
    let mut setup = Setup::new(&[("KALENDS_OIDC_REDIRECT_URL", url)]);
    let (location, _) = setup.begin("");
    let (_, query) = location.split_once('?').unwrap();
    assert_eq!(parse(query)["redirect_uri"], url);
    for url in [
        "http://example.org/sign-in/callback",
        "https://example.org/",
        "https://example.org/?x=/sign-in/callback",
        "https://user@example.org/sign-in/callback",
    ] {
        let settings = [
            ("KALENDS_OIDC_ISSUER", "http://127.0.0.1:1"),
            ("KALENDS_OIDC_CLIENT_ID", CLIENT),
            ("KALENDS_OIDC_REDIRECT_URL", url),
        ];
        check_refuses_to_start(&[], &settings, "https://HOST/sign-in/callback");
    }
}

#[test]
fn an_issuer_with_a_fragment_is_rejected() {
    let settings =
        [("KALENDS_OIDC_ISSUER", "https://idp.example/#a"), ("KALENDS_OIDC_CLIENT_ID", CLIENT)];
    check_refuses_to_start(&[], &settings, "--oidc-issuer must not have a fragment");
}

#[test]
fn the_callback_url_has_only_host_names_of_this_server() {
    let mut setup = Setup::new(&[]);
    let (location, _) = setup.begin("");
    let (_, query) = location.split_once('?').unwrap();
    let own = format!("http://{}/sign-in/callback", setup.server.address);
    assert_eq!(parse(query)["redirect_uri"], own);
    let request = "GET /sign-in/oidc HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    setup.connection.send(request.as_bytes());
    let response = setup.connection.read(true);
    assert_eq!((response.status, response.header("Location")), (421, None));
}

#[test]
fn without_a_client_id_there_is_no_sign_in_at_a_provider() {
    let (server, _) = crate::tokens::guarded(&[]);
    let mut connection = server.connect();
    for path in ["/sign-in/oidc", "/sign-in/callback?code=x&state=y"] {
        assert_eq!(code(&connection.request("GET", path, None)).0, 404, "{path}");
    }
    assert!(!connection.request("GET", "/sign-in", None).body.contains("sign-in/oidc"));
}

#[test]
fn an_unreachable_provider_is_reported_on_the_sign_in_page() {
    let server = TestServer::start_with(|command, _| {
        command
            .env("KALENDS_OIDC_ISSUER", "http://127.0.0.1:1")
            .env("KALENDS_OIDC_CLIENT_ID", CLIENT);
    });
    let response = server.connect().request("GET", "/sign-in/oidc?to=jobs", None);
    assert_eq!(response.header("Location"), Some("../sign-in?failure=unavailable&to=jobs"));
}
