"""Jobs of every type over TLS, with certificates of a private CA."""

import oauth_checks
import queue_checks
import service_bus_checks

QUEUE = "encrypted"


def _jobs(parts, prefix):
    """A job of every type, its definition, and the host that its history names."""
    name, key = parts.key_name, parts.key
    send = lambda transport: service_bus_checks.action("Queue", "orders", name, key, transport)
    login = oauth_checks.action(f"{parts.guarded.url}/in", "steady")
    return [
        (f"{prefix}-queue", queue_checks.action(QUEUE, queue_checks.KEY), "StorageQueue Action - Put message"),
        (f"{prefix}-rest", send("netMessaging"), "ServiceBusQueue Action - Send message"),
        (f"{prefix}-amqp", send("AMQP"), "ServiceBusQueue Action - Send message"),
        (f"{prefix}-login", login, "Http Action - "),
    ]


def trusted(checks, api, parts):
    queue = queue_checks.Queue(parts.azurite, QUEUE)
    web, guarded = len(parts.web.received), len(parts.guarded.received)
    for job, action, words in _jobs(parts, "t"):
        api.put(job, action)
        checks.says(job, api.entry(job), "Completed", words)
        timing = api.history(job)[0]["timing"]
        checks.check(f"{job}: what took time", sorted(timing), ["connect", "dns", "firstByte", "tls", "total"])
    checks.check("the queue has it", len(queue.take()), 1)
    checks.check("Service Bus has it over HTTPS", len(parts.web.received), web + 1)
    [message] = service_bus_checks.receive(parts.broker, "orders", parts.key_name, parts.key)
    checks.check("and over AMQP", str(message), service_bus_checks.TEXT)
    checks.check("the target was shown a token", len(parts.guarded.received), guarded + 1)


def untrusted(checks, api, parts):
    before = len(parts.web.received), len(parts.guarded.received), parts.broker.ask()["connections"]
    asked = parts.login.ask("/")
    queue = queue_checks.Queue(parts.azurite, QUEUE)
    for job, action, words in _jobs(parts, "u"):
        api.put(job, action)
        checks.says(job, api.entry(job), "Failed", words, "failed: ", "TrustFailure", "certificate")
        timing = api.history(job)[0]["timing"]
        checks.check(f"{job}: no encryption was agreed on", "tls" in timing or "firstByte" in timing, False)
    # The login endpoint is not trusted, so no token is sent.
    checks.says("the login", api.entry("u-login"), "Failed", "AuthenticationFailure No token for client 'steady'")
    checks.check("the queue has nothing", queue.take(), [])
    after = len(parts.web.received), len(parts.guarded.received), parts.broker.ask()["connections"]
    checks.check("nobody else has anything", after, before)
    checks.check("nobody was asked for a token", parts.login.ask("/"), asked)
