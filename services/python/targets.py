"""HTTP targets: Service Bus over HTTPS and a web service that requires a token. Both verify signatures
and tokens with the standard library or a published one."""

import base64
import hashlib
import hmac
import http.server
import json
import ssl
import sys
import threading
import time
import urllib.parse


class Target(http.server.ThreadingHTTPServer):
    """Over TLS if a certificate directory is given."""

    def __init__(self, handler, tls=None):
        super().__init__(("127.0.0.1", 0), handler)
        self.received = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        if tls:
            self.url = f"https://localhost:{self.server_port}"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "certificate.pem", tls / "key.pem")
            # The connection's thread performs the handshake: an aborted one does not affect other clients.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Ignores clients that reject the certificate."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, text=""):
        body = text.encode()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "7")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ServiceBus(Target):
    """`POST /{namespace}/{entity}/messages` with a SharedAccessSignature."""

    def __init__(self, key_name, key, tls=None):
        super().__init__(ServiceBusHandler, tls)
        self.key_name, self.key = key_name, key


class ServiceBusHandler(Handler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        entity = self.path.removesuffix("/messages")
        flaw = self.flaw(entity)
        if flaw:
            return self.refuse(401, f"MalformedToken: {flaw}. TrackingId:1")
        name = entity.split("/", 2)[2]
        if name == "missing":
            return self.refuse(404, "No such entity")
        if name == "full":
            return self.refuse(403, "The queue is full")
        if name == "busy":
            return self.refuse(503, "Too many requests")
        self.server.received.append((name, self.headers, body))
        return self.answer(201)

    def refuse(self, status, why):
        self.answer(status, f"<Error><Code>{status}</Code><Detail>{why}</Detail></Error>")

    def flaw(self, entity):
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme != "SharedAccessSignature":
            return "no SharedAccessSignature"
        raw = dict(part.split("=", 1) for part in token.split("&"))
        part = {name: urllib.parse.unquote(value) for name, value in raw.items()}
        if part["sr"] != self.server.url + entity:
            return "the token is for something else"
        if not time.time() < int(part["se"]) < time.time() + 3600:
            return "the token has expired or lives too long"
        signed = hmac.new(self.server.key.encode(), f"{raw['sr']}\n{raw['se']}".encode(), hashlib.sha256)
        if part["skn"] != self.server.key_name or part["sig"] != base64.b64encode(signed.digest()).decode():
            return "the signature is wrong"
        return None


class Guarded(Target):
    """A web service that requires a token of the login endpoint for its audience."""

    def __init__(self, login, audience, tls=None):
        import jwt

        super().__init__(GuardedHandler, tls)
        context = ssl.create_default_context(cafile=tls / "authority.pem") if tls else None
        self.keys = jwt.PyJWKClient(f"{login}/jwks", cache_keys=True, ssl_context=context)
        self.audience = audience
        self.revoked = set()


class GuardedHandler(Handler):
    def do_POST(self):
        import jwt

        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer":
            return self.answer(401)
        key = self.server.keys.get_signing_key_from_jwt(token)
        claims = jwt.decode(token, key.key, algorithms=["RS256"], audience=self.server.audience)
        if self.path == "/revoke" and not self.server.revoked:
            self.server.revoked.add(claims["jti"])
        if claims["jti"] in self.server.revoked:
            return self.answer(401, "revoked")
        self.server.received.append((self.path, claims["appid"], claims["jti"], token))
        return self.answer(200, "welcome")
