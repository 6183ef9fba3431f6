"""OAuth client credentials: tokens are requested, cached, renewed and dropped."""

import json

TENANT = "contoso.onmicrosoft.com"
AUDIENCE = "https://contoso.example/api"
SECRET = "canary-secret+&="
WRONG_SECRET = "canary-wrong-secret"
SECRETS = [SECRET, WRONG_SECRET]
APPLICATIONS = json.dumps({
    "steady": {"secret": SECRET, "resource": AUDIENCE, "life": 3599},
    "brief": {"secret": SECRET, "resource": AUDIENCE, "life": 0},
    "revoked": {"secret": SECRET, "resource": AUDIENCE, "life": 3599},
})


def action(url, client, secret=SECRET, audience=AUDIENCE):
    authentication = {"type": "ActiveDirectoryOAuth", "tenant": TENANT, "audience": audience,
                      "clientId": client, "secret": secret}
    request = {"uri": url, "method": "POST", "body": "x", "authentication": authentication}
    return {"type": "Http", "request": request}


def tokens(checks, api, login, guarded):
    api.put_idle("o-steady", action(f"{guarded.url}/in", "steady"))
    for _ in range(3):
        checks.says("with a token", api.run("o-steady"), "Completed", "'OK'", "Body: welcome")
    checks.check("who was there", {(path, client) for path, client, *_ in guarded.received}, {("/in", "steady")})
    checks.check("asked once for three runs", login.ask("/")["steady"], 1)

    api.put_idle("o-brief", action(f"{guarded.url}/in", "brief"))
    for _ in range(2):
        checks.says("with a token that ends", api.run("o-brief"), "Completed")
    checks.check("asked each time", login.ask("/")["brief"], 2)

    api.put_idle("o-revoked", action(f"{guarded.url}/revoke", "revoked"))
    checks.says("a token that the target refuses", api.run("o-revoked"), "Failed", "'Unauthorized'")
    checks.says("is not used again", api.run("o-revoked"), "Completed")
    checks.check("another was asked for", login.ask("/")["revoked"], 2)

    failed = "Http Action - Request to host '127.0.0.1' failed: AuthenticationFailure No token for client"
    api.put("o-secret", action(f"{guarded.url}/in", "steady", WRONG_SECRET))
    checks.says("a wrong secret", api.entry("o-secret"), "Failed", failed,
                "Unauthorized invalid_client AADSTS7000215", "(sent: [secret])")
    api.put("o-audience", action(f"{guarded.url}/in", "steady", audience="https://elsewhere.example"))
    checks.says("a wrong audience", api.entry("o-audience"), "Failed", failed, "invalid_resource")


def unreachable(checks, api, guarded):
    before = len(guarded.received)
    api.put("o-unreachable", action(f"{guarded.url}/in", "steady"))
    checks.says("no token endpoint", api.entry("o-unreachable"), "Failed", "AuthenticationFailure", "NameResolutionFailure")
    checks.check("the target was not called", len(guarded.received), before)
