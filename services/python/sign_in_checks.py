"""Sign-in to the web console at an OpenID Connect provider, as a browser does it."""

import http.client
import json
import urllib.parse
import urllib.request

CLIENT = "6c55a6f0-kalends.console"
SECRET = "canary-client~secret:+%"
WRONG_SECRET = "canary-wrong-client-secret"
PUBLIC_CLIENT = "public"
SECRETS = [SECRET, WRONG_SECRET]
CLIENTS = json.dumps({CLIENT: SECRET, PUBLIC_CLIENT: None})
SIGN_IN = "__Host-kalends-sign-in"
SESSION = "__Host-kalends"


def settings(provider, client=CLIENT, secret=SECRET):
    """The settings of a server whose users sign in at the provider."""
    all_settings = {"KALENDS_OIDC_ISSUER": f"http://localhost:{provider.ports['port']}", "KALENDS_OIDC_CLIENT_ID": client}
    return {**all_settings, "KALENDS_OIDC_CLIENT_SECRET": secret} if secret else all_settings


def register(provider, url):
    """Registers the redirect URI of a server."""
    control = f"http://127.0.0.1:{provider.ports['control']}/"
    urllib.request.urlopen(control, f"{url}/sign-in/callback".encode()).close()


class Browser:
    """Keeps the cookies of each server, and follows no redirect by itself."""

    def __init__(self, url):
        self.url = url.rstrip("/")
        self.jars = {}

    def cookies(self):
        """The cookies of the console."""
        return self.jars.setdefault(urllib.parse.urlsplit(self.url).netloc, {})

    def ask(self, method, url, form=None, headers=()):
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(f"{self.url}/", url))
        jar = self.jars.setdefault(parts.netloc, {})
        connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
        sent = {"Host": parts.netloc, "Cookie": "; ".join(f"{name}={value}" for name, value in jar.items()), **dict(headers)}
        if form is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        data = None if form is None else urllib.parse.urlencode(form)
        connection.request(method, parts.path + (f"?{parts.query}" if parts.query else ""), data, sent)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        for cookie in answer.headers.get_all("Set-Cookie", []):
            name, value = cookie.split(";")[0].split("=", 1)
            jar[name] = value
            if not value or "max-age=0" in cookie.lower() or "01 jan 1970" in cookie.lower():
                del jar[name]
        location = answer.headers["Location"]
        answer.to = location and urllib.parse.urljoin(parts.geturl(), location)
        connection.close()
        return answer

    def begin(self, to="jobs"):
        """Begins a sign-in; returns the URL at the provider."""
        return self.ask("GET", f"/sign-in/oidc?to={to}").to

    def visit_provider(self, url, user="reader", answers=("continue", "continue")):
        """Answers the pages of the provider; returns the URL to which it leads back."""
        remaining = list(answers)
        while not url.startswith(self.url):
            page = self.ask("GET", url)
            if page.status == 200:
                page = self.ask("POST", url, {"user": user, "answer": remaining.pop(0)})
            if not page.to:
                raise AssertionError(f"{url}: {page.status} {page.text}")
            url = page.to
        return url

    def finish(self, callback):
        """Opens the callback; returns where it leads, relative to the console."""
        return self.ask("GET", callback).to.removeprefix(self.url)

    def status(self):
        return self.ask("GET", "/api/me").status


def sign_in(checks, server, provider):
    register(provider, server.url.rstrip("/"))
    browser = Browser(server.url)
    checks.check("without a session", browser.status(), 401)
    callback = browser.visit_provider(browser.begin("jobs%3Fsearch%3Da"), "operator")
    begun = dict(browser.cookies())
    checks.check("the page that follows", browser.finish(callback), "/sign-in?resume=true&to=jobs%3Fsearch%3Da")
    me = json.loads(browser.ask("GET", "/api/me").text)
    checks.check("name", me["name"], "operator@example.org")
    checks.check("roles", me["roles"], [{"role": "Operator", "scope": "/"}])
    checks.check("the cookie of the sign-in is gone", SIGN_IN in browser.cookies(), False)

    replay = Browser(server.url)
    replay.cookies().update(begun)
    checks.check("a callback that was used", replay.finish(callback), "/sign-in?failure=rejected&to=jobs%3Fsearch%3Da")
    checks.check("begins no session", SESSION in replay.cookies(), False)

    session = dict(browser.cookies())
    out = browser.ask("DELETE", "/api/session", headers={"X-Kalends-Console": "1", "Origin": browser.url}.items())
    checks.check("sign-out", out.status, 204)
    browser.cookies().update(session)
    checks.check("the session has ended at the server", browser.status(), 401)


def refusals(checks, server):
    def outcome(what, browser, callback, expected):
        checks.check(what, browser.finish(callback), expected)
        checks.check(f"{what}: no session", SESSION in browser.cookies(), False)

    browser = Browser(server.url)
    callback = browser.visit_provider(browser.begin())
    outcome("another state", browser, callback.replace("state=", "state=x"), "/sign-in?failure=expired&to=jobs")
    victim = Browser(server.url)
    outcome("in a browser that began no sign-in", victim, callback, "/sign-in?failure=expired&to=")
    victim.begin()
    outcome("in a browser that began another sign-in", victim, callback, "/sign-in?failure=expired&to=jobs")

    browser = Browser(server.url)
    url = browser.begin()
    other = urllib.parse.urlsplit(url)
    query = {**dict(urllib.parse.parse_qsl(other.query)), "nonce": "another"}
    callback = browser.visit_provider(other._replace(query=urllib.parse.urlencode(query)).geturl())
    outcome("another nonce", browser, callback, "/sign-in?failure=rejected&to=jobs")

    browser = Browser(server.url)
    query = {**dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(browser.begin()).query))}
    query["code_challenge"] = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    callback = browser.visit_provider(other._replace(query=urllib.parse.urlencode(query)).geturl())
    outcome("the code of another PKCE challenge", browser, callback, "/sign-in?failure=rejected&to=jobs")

    for answers in [("cancel",), ("continue", "cancel")]:
        browser = Browser(server.url)
        callback = browser.visit_provider(browser.begin(), answers=answers)
        outcome(f"denied after {len(answers)} pages", browser, callback, "/sign-in?failure=denied&to=jobs")
    page = browser.ask("GET", "/sign-in?failure=denied").text
    checks.check("plain words", "You or the identity provider declined the sign-in." in page)
    checks.check("nothing of the provider", "The user refused" in page, False)

    browser = Browser(server.url)
    outcome("no role", browser, browser.visit_provider(browser.begin(), "nobody"), "/sign-in?failure=no-role&to=jobs")


def wrong_secret(checks, server, provider):
    register(provider, server.url.rstrip("/"))
    browser = Browser(server.url)
    callback = browser.visit_provider(browser.begin())
    checks.check("a wrong client secret", browser.finish(callback), "/sign-in?failure=misconfigured&to=jobs")
    checks.check("the log has the reason", b"invalid_client" in server.everything_written())


def public_client(checks, server, provider):
    register(provider, server.url.rstrip("/"))
    browser = Browser(server.url)
    callback = browser.visit_provider(browser.begin())
    checks.check("a public client", browser.finish(callback), "/sign-in?resume=true&to=jobs")
    checks.check("has a session", browser.status(), 200)


def provider_down(checks, server, provider):
    browser = Browser(server.url)
    callback = browser.visit_provider(browser.begin())
    provider.stop()
    checks.check("the provider is down", browser.finish(callback), "/sign-in?failure=unavailable&to=jobs")
    page = browser.ask("GET", "/sign-in?failure=unavailable").text
    checks.check("plain words", "The identity provider cannot be reached at the moment." in page)


def secrets(checks, servers):
    for server in servers:
        written = server.everything_written()
        for secret in SECRETS:
            checks.check(f"{secret} in a file", secret.encode() in written, False)
