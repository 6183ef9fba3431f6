//! A local identity provider where users sign in: the authorization code flow with PKCE.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use percent_encoding::percent_decode_str;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::identity_provider::{SigningKey, encode};
use crate::oidc::now;

pub(crate) const CLIENT: &str = "kalends console";
pub(crate) const CLIENT_SECRET: &str = "s3cret:&";

/// A provider whose only user signs in without being asked.
pub(crate) struct SignInProvider {
    pub(crate) issuer: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Changes to the claims of the next ID tokens; null removes a claim.
    changes: HashMap<String, Value>,
    /// Authorization requests by their code, which is used once.
    codes: HashMap<String, HashMap<String, String>>,
}

impl SignInProvider {
    pub(crate) fn start() -> SignInProvider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let (key, state) = (SigningKey::p256(), Arc::<Mutex<State>>::default());
        let provider = SignInProvider { issuer: issuer.clone(), state: Arc::clone(&state) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut stream = BufReader::new(stream);
                let Some(request) = Request::read(&mut stream) else { continue };
                let response = respond(&issuer, &key, &mut state.lock().unwrap(), &request);
                let _ = stream.get_mut().write_all(response.as_bytes());
            }
        });
        provider
    }

    /// Changes a claim of the next ID tokens.
    pub(crate) fn set_claim(&self, name: &str, value: Value) {
        self.state.lock().unwrap().changes.insert(name.to_owned(), value);
    }

    pub(crate) fn reset_claims(&self) {
        self.state.lock().unwrap().changes.clear();
    }

    /// Opens a URL of the provider as a browser does, and returns where it redirects to.
    pub(crate) fn visit(&self, url: &str) -> String {
        let target = url.strip_prefix(&self.issuer).unwrap_or_else(|| panic!("{url}"));
        let address = self.issuer.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let location = response.lines().find_map(|line| line.strip_prefix("Location: "));
        location.unwrap_or_else(|| panic!("{response}")).to_owned()
    }
}

struct Request {
    path: String,
    authorization: String,
    parameters: HashMap<String, String>,
}

impl Request {
    fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
        let lines = stream.by_ref().lines().map_while(Result::ok);
        let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        let target = head.first()?.split(' ').nth(1)?.to_owned();
        let header = |name: &str| {
            let found = head.iter().filter_map(|line| line.split_once(": "));
            let mut found = found.filter(|(other, _)| other.eq_ignore_ascii_case(name));
            found.next().map_or(String::new(), |(_, value)| value.to_owned())
        };
        let length = header("Content-Length").parse().unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let body = String::from_utf8(body).ok()?;
        let parameters = if body.is_empty() { parse(query) } else { parse(&body) };
        Some(Request { path: path.to_owned(), authorization: header("Authorization"), parameters })
    }
}

/// Parameters of a query or a form.
pub(crate) fn parse(text: &str) -> HashMap<String, String> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), decode(value))).collect()
}

fn respond(issuer: &str, key: &SigningKey, state: &mut State, request: &Request) -> String {
    let json = |status: &str, body: Value| {
        let body = body.to_string();
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
    };
    match request.path.as_str() {
        "/.well-known/openid-configuration" => json(
            "200 OK",
            json!({
                "issuer": issuer, "jwks_uri": format!("{issuer}/keys"),
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
            }),
        ),
        "/keys" => json("200 OK", json!({"keys": [key.public("k")]})),
        "/authorize" => {
            let asked = &request.parameters;
            assert_eq!(asked["response_type"], "code");
            assert_eq!(asked["client_id"], CLIENT);
            assert_eq!(asked["scope"], "openid profile email");
            assert_eq!(asked["code_challenge_method"], "S256");
            let code = format!("code-{}", state.codes.len());
            state.codes.insert(code.clone(), asked.clone());
            let (to, value) = (&asked["redirect_uri"], &asked["state"]);
            format!(
                "HTTP/1.1 302 Found\r\nLocation: {to}?code={code}&state={value}\r\n\
                 Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
        }
        "/token" => match id_token(issuer, key, state, request) {
            Some(token) => json("200 OK", json!({"id_token": token, "token_type": "Bearer"})),
            None => json("400 Bad Request", json!({"error": "invalid_grant"})),
        },
        _ => json("404 Not Found", json!({})),
    }
}

/// The ID token of a code; `None` if the request does not prove that it may have it.
fn id_token(
    issuer: &str,
    key: &SigningKey,
    state: &mut State,
    request: &Request,
) -> Option<String> {
    use base64::Engine as _;
    let basic = request.authorization.strip_prefix("Basic ")?;
    let basic = base64::engine::general_purpose::STANDARD.decode(basic).ok()?;
    let basic = String::from_utf8(basic).ok()?;
    let (client, secret) = basic.split_once(':')?;
    let decode = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let sent = &request.parameters;
    let asked = state.codes.get_mut(sent.get("code")?)?;
    let challenge = encode(digest(&SHA256, sent.get("code_verifier")?.as_bytes()));
    let is_proved = decode(client) == CLIENT
        && decode(secret) == CLIENT_SECRET
        && sent.get("grant_type")? == "authorization_code"
        && sent.get("redirect_uri") == asked.get("redirect_uri")
        && asked.get("code_challenge") == Some(&challenge);
    // A code is used once.
    asked.remove("code_challenge");
    if !is_proved {
        return None;
    }
    let mut claims = json!({
        "iss": issuer, "aud": CLIENT, "sub": "user-7", "name": "Ann", "email": "ann@example.org",
        "roles": ["Kalends.Reader"], "exp": now() + 300, "iat": now(), "nonce": asked["nonce"],
    });
    for (name, value) in &state.changes {
        claims.as_object_mut()?.remove(name);
        if !value.is_null() {
            claims.as_object_mut()?.insert(name.clone(), value.clone());
        }
    }
    Some(key.sign(&json!({"alg": key.algorithm(), "kid": "k", "typ": "JWT"}), &claims))
}
