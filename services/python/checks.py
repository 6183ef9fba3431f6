"""Runs jobs of every type against real services, with the real binary.

    python checks.py BINARY

The last line reports the number of passed checks.
"""

import collections
import faulthandler
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import traceback

import certificate
import oauth_checks
import queue_checks
import service_bus_checks
import sign_in_checks
import tls_checks
from api import Api
from parts import PATIENCE, Azurite, Kalends, Node, RabbitMQ
from targets import Guarded, ServiceBus

KEY_NAME = "send-and-listen"
KEY = "canary-service-bus+/="

Encrypted = collections.namedtuple("Encrypted", "azurite web broker login guarded key_name key")


class Checks:
    """Counts results and prints failures."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, found, expected=True):
        if found == expected:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}: {found!r}, expected {expected!r}", flush=True)

    def says(self, what, entry, status, *words):
        """Checks the status of a history entry and the text of its message."""
        self.check(f"{what}: {entry[1]}", entry[0], status)
        for word in words:
            self.check(f"{what}: {entry[1]!r} has {word!r}", word in entry[1])

    def group(self, name, checks, *arguments):
        """Runs one group of checks; an exception counts as one failure."""
        try:
            checks(self, *arguments)
        except Exception:
            traceback.print_exc()
            self.check(f"{name} ended", False)


def main(binary):
    scratch = pathlib.Path(tempfile.mkdtemp())
    scratch.chmod(0o755)
    parts, checks, servers = [], Checks(), []

    def start(part):
        parts.append(part)
        return part

    def folder(name):
        path = scratch / name
        path.mkdir()
        return path

    def server(name, **settings):
        running = start(Kalends(binary, folder(name), **settings))
        api = Api(running.url)
        api.collection("jc")
        servers.append((running, api))
        return api

    try:
        # RabbitMQ takes longest to start, so it goes first.
        rabbit = start(RabbitMQ(folder("rabbit"))) if RabbitMQ.PROGRAM.exists() else None
        certificate.make(folder("tls"))
        azurite = start(Azurite())
        tls = [str(scratch / "tls" / name) for name in ["key.pem", "certificate.pem"]]
        broker = start(Node("broker.js", KEY_NAME, KEY, *tls))
        login = start(Node("login.js", oauth_checks.TENANT, oauth_checks.APPLICATIONS))
        login_url = f"http://127.0.0.1:{login.ports['port']}"
        web = ServiceBus(KEY_NAME, KEY)
        guarded = Guarded(login_url, oauth_checks.AUDIENCE)

        emulated = server(
            "emulated",
            SSL_CERT_FILE=str(scratch / "tls" / "authority.pem"),
            KALENDS_QUEUE_ENDPOINT=f"http://127.0.0.1:{azurite.port}",
            KALENDS_SERVICE_BUS_ENDPOINT=web.url,
            KALENDS_SERVICE_BUS_AMQP_ENDPOINT=f"amqps://localhost:{broker.ports['amqps']}",
            KALENDS_LOGIN_ENDPOINT=login_url,
        )
        checks.group("queues", queue_checks.emulator, emulated, azurite)
        checks.group("Service Bus over HTTPS", service_bus_checks.rest, emulated, web, KEY_NAME, KEY)
        checks.group("Service Bus over AMQP", service_bus_checks.amqp, emulated, broker, KEY_NAME, KEY)
        checks.group("tokens", oauth_checks.tokens, emulated, login, guarded)

        elsewhere = server(
            "elsewhere",
            KALENDS_QUEUE_MESSAGE_FORMAT="raw",
            KALENDS_QUEUE_ENDPOINT=f"http://127.0.0.1:{azurite.port}/",
            KALENDS_SERVICE_BUS_AMQP_ENDPOINT=f"amqp://127.0.0.1:{rabbit.port if rabbit else 1}/queue/?sasl=plain",
            KALENDS_LOGIN_ENDPOINT="login.invalid",
        )
        checks.group("the form of queue messages by setting", queue_checks.raw_by_setting, elsewhere, azurite)
        checks.group("tokens from nowhere", oauth_checks.unreachable, elsewhere, guarded)
        if rabbit:
            rabbit.wait()
            checks.group("an ordinary broker", service_bus_checks.ordinary_broker, elsewhere, rabbit)
        else:
            print("SKIPPED: an ordinary AMQP broker; RabbitMQ is not installed", flush=True)
            checks.check("nothing is skipped in CI", "CI" in os.environ, False)

        folder_of_tls = scratch / "tls"
        login = start(Node("login.js", oauth_checks.TENANT, oauth_checks.APPLICATIONS, *tls))
        login_url = f"https://localhost:{login.ports['port']}"
        encrypted = Encrypted(
            start(Azurite(folder_of_tls)), ServiceBus(KEY_NAME, KEY, folder_of_tls), broker, login,
            Guarded(login_url, oauth_checks.AUDIENCE, folder_of_tls), KEY_NAME, KEY,
        )
        endpoints = {
            "KALENDS_QUEUE_ENDPOINT": encrypted.azurite.url,
            "KALENDS_SERVICE_BUS_ENDPOINT": encrypted.web.url,
            "KALENDS_SERVICE_BUS_AMQP_ENDPOINT": f"amqps://localhost:{broker.ports['amqps']}",
            "KALENDS_LOGIN_ENDPOINT": login_url,
        }
        trusting = server("trusting", KALENDS_EGRESS_CA=str(folder_of_tls / "authority.pem"), **endpoints)
        checks.group("TLS of an authority that is trusted", tls_checks.trusted, trusting, encrypted)
        distrusting = server("distrusting", **endpoints)
        checks.group("TLS of an authority that is not trusted", tls_checks.untrusted, distrusting, encrypted)

        nowhere = server(
            "nowhere",
            KALENDS_QUEUE_ENDPOINT="queue.invalid",
            KALENDS_SERVICE_BUS_ENDPOINT="servicebus.invalid",
        )
        checks.group("services that are not there", queue_checks.nowhere, nowhere)
        checks.group("brokers that are not there", service_bus_checks.nowhere, nowhere, KEY_NAME, KEY)
        checks.group("secrets", secrets, servers, [guarded, encrypted.guarded])
        sign_in(checks, start, lambda name, **settings: Kalends(binary, folder(name), **settings))
    finally:
        for part in reversed(parts):
            part.stop()
        shutil.rmtree(scratch)
    print(f"services: {checks.passed} passed, {checks.failed} failed", flush=True)
    return 1 if checks.failed else 0


def sign_in(checks, start, kalends):
    """Checks sign-in to the web console at an identity provider."""
    provider = Node("identity_provider.mjs", sign_in_checks.CLIENTS)
    settings = sign_in_checks.settings
    try:
        server = start(kalends("sign-in", **settings(provider)))
        checks.group("sign-in at a provider", sign_in_checks.sign_in, server, provider)
        checks.group("sign-ins that are refused", sign_in_checks.refusals, server)
        wrong = start(kalends("wrong-secret", **settings(provider, secret=sign_in_checks.WRONG_SECRET)))
        checks.group("a wrong client secret", sign_in_checks.wrong_secret, wrong, provider)
        public = start(kalends("public-client", **settings(provider, sign_in_checks.PUBLIC_CLIENT, None)))
        checks.group("a public client", sign_in_checks.public_client, public, provider)
        checks.group("a provider that is down", sign_in_checks.provider_down, server, provider)
        checks.group("secrets of sign-in", sign_in_checks.secrets, [server, wrong, public])
    finally:
        provider.stop()


def secrets(checks, servers, targets):
    """Checks that no response, history entry, log line or file contains a secret."""
    hidden = [KEY, *queue_checks.SECRETS, *service_bus_checks.SECRETS, *oauth_checks.SECRETS]
    for guarded in targets:
        hidden += [token for *_, token in guarded.received]
        checks.check("tokens were issued", len(guarded.received) > 0)
    for running, api in servers:
        answers = api.all_answers().encode()
        written = running.everything_written()
        for secret in hidden:
            checks.check(f"{secret} in an answer", secret.encode() in answers, False)
            checks.check(f"{secret} in a file", secret.encode() in written, False)


if __name__ == "__main__":
    os.environ.pop("KALENDS_HOLD", None)
    # On SIGTERM, stop the services as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Print the stack of a run that hangs.
    faulthandler.dump_traceback_later(PATIENCE * 5, exit=False)
    sys.exit(main(sys.argv[1]))
