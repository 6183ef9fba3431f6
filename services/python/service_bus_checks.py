"""Service Bus over HTTPS, over AMQP with signed tokens, and a standard AMQP broker."""

import datetime
import json
import os
import re
import subprocess

from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode

from parts import HERE, PATIENCE, until

BROKERED = {
    "contentType": "text/plain; charset=utf-8", "correlationId": "correlation", "forcePersistence": True,
    "label": "läbel", "partitionKey": "session", "replyTo": "answers", "replyToSessionId": "theirs",
    "scheduledEnqueueTimeUtc": "2027-01-02T03:04:05Z", "sessionId": "session", "timeToLive": "P2D",
    "to": "there", "viaPartitionKey": "via",
}
WRONG_KEY = "canary-wrong-key"
SECRETS = [WRONG_KEY]
TEXT = "hellö \"w\"\n😀"
TAG = re.compile("[0-9a-f]{32}")


def action(kind, entity, name, key, transport="netMessaging", brokered=None, custom=None):
    message = {
        "queueName" if kind == "Queue" else "topicPath": entity,
        "namespace": "contoso-ns", "transportType": transport, "message": TEXT,
        "authentication": {"type": "sharedAccessKey", "sasKeyName": name, "sasKey": key},
        "brokeredMessageProperties": brokered or {}, "customMessageProperties": custom or {},
    }
    return {"type": f"ServiceBus{kind}", f"serviceBus{kind}Message": message}


def rest(checks, api, web, name, key):
    sent = "ServiceBusQueue Action - Send message succeeded: queue 'orders' namespace 'contoso-ns'"
    custom = {"color": "blü \"e\"", "size": "9"}
    api.put("r-full", action("Queue", "orders", name, key, brokered=BROKERED, custom=custom))
    checks.says("with every property", api.entry("r-full"), "Completed", sent)
    entity, headers, body = web.received.pop()
    checks.check("entity and text", (entity, body), ("orders", TEXT))
    checks.check("content type", headers["Content-Type"], "text/plain; charset=utf-8")
    properties = json.loads(headers["BrokerProperties"])
    checks.check("the tag is the identity", bool(TAG.fullmatch(properties.pop("MessageId"))))
    checks.check("the broker's properties", properties, {
        "CorrelationId": "correlation", "SessionId": "session", "Label": "läbel", "PartitionKey": "session",
        "ViaPartitionKey": "via", "ReplyTo": "answers", "ReplyToSessionId": "theirs", "To": "there",
        "TimeToLive": 172800, "ScheduledEnqueueTimeUtc": "Sat, 02 Jan 2027 03:04:05 GMT", "ForcePersistence": True,
    })
    checks.check("own properties", {name: json.loads(headers[name]) for name in custom}, custom)

    own = {"Priority": "high", "a b": "c"}
    brokered = {"messageId": "mine"}
    api.put("r-list", action("Topic", "events/new", name, key, "notSpecified", brokered, own), version="2016-03-01")
    sent = "ServiceBusTopic Action - Send message succeeded: topic 'events/new' namespace 'contoso-ns'"
    checks.says("with names that are no headers", api.entry("r-list"), "Completed", sent)
    entity, headers, body = web.received.pop()
    checks.check("the form", headers["Content-Type"], "application/vnd.microsoft.servicebus.json")
    expected = [{"Body": TEXT, "BrokerProperties": {"MessageId": "mine"}, "UserProperties": own}]
    checks.check("the list", (entity, json.loads(body)), ("events/new", expected))

    failed = "ServiceBusQueue Action - Send message failed: queue"
    for job, entity, secret, words in [
        ("r-key", "orders", WRONG_KEY, "Unauthorized MalformedToken: the signature is wrong"),
        ("r-missing", "missing", key, "NotFound The queue or topic does not exist: No such entity"),
        ("r-quota", "full", key, "QuotaExceeded The queue is full"),
        ("r-busy", "busy", key, "ServerBusy Too many requests"),
    ]:
        api.put(job, action("Queue", entity, name, secret))
        checks.says(job, api.entry(job), "Failed", f"{failed} '{entity}' namespace 'contoso-ns' {words}")
    checks.check("nothing else arrived", web.received, [])


def amqp(checks, api, broker, name, key):
    custom = {"Priority": "high", "größe": "9"}
    api.put("a-full", action("Queue", "orders", name, key, "AMQP", BROKERED, custom))
    sent = "ServiceBusQueue Action - Send message succeeded: queue 'orders' namespace 'contoso-ns'"
    checks.says("with every property", api.entry("a-full"), "Completed", sent)
    [message] = receive(broker, "orders", name, key)
    checks.check("text", str(message), TEXT)
    checks.check("the tag is the identity", bool(TAG.fullmatch(message.message_id)))
    own = {name.decode(): value.decode() for name, value in message.application_properties.items()}
    checks.check("own properties", own, custom)
    found = {
        "contentType": message.content_type, "correlationId": message.correlation_id, "label": message.subject,
        "partitionKey": message.partition_key, "replyTo": message.reply_to,
        "replyToSessionId": message.reply_to_session_id, "sessionId": message.session_id, "to": message.to,
    }
    checks.check("the broker's properties", found, {name: BROKERED[name] for name in found})
    checks.check("its life", message.time_to_live, datetime.timedelta(days=2))
    at = datetime.datetime(2027, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    checks.check("its time", message.scheduled_enqueue_time_utc, at)
    annotations = message.raw_amqp_message.annotations
    checks.check("the other partition key", annotations.get(b"x-opt-via-partition-key"), b"via")
    checks.check("it outlives the broker", message.raw_amqp_message.header.durable)

    api.put("a-topic", action("Topic", "events/new", name, key, "AMQP", {"messageId": "mine"}))
    sent = "ServiceBusTopic Action - Send message succeeded: topic 'events/new' namespace 'contoso-ns'"
    checks.says("a topic", api.entry("a-topic"), "Completed", sent)
    [message] = receive(broker, "events/new", name, key)
    checks.check("its own identity", message.message_id, "mine")

    failed = "ServiceBusQueue Action - Send message failed: queue"
    for job, entity, who, secret, words in [
        ("a-key", "orders", name, WRONG_KEY, "Unauthorized InvalidToken: the signature is wrong"),
        ("a-name", "orders", "nobody", key, "Unauthorized InvalidToken: no such key"),
        ("a-missing", "missing", name, key, "NotFound The queue or topic does not exist: The messaging entity"),
        ("a-quota", "full", name, key, "QuotaExceeded The queue is full."),
    ]:
        api.put(job, action("Queue", entity, who, secret, "AMQP"))
        checks.says(job, api.entry(job), "Failed", f"{failed} '{entity}' namespace 'contoso-ns' {words}")
    api.put("a-silent", action("Queue", "silent", name, key, "AMQP"), timeout="PT1S")
    checks.says("no answer", api.entry("a-silent"), "Failed", "Timeout", "may or may not have been accepted")
    api.put("a-cut", action("Queue", "silent", name, key, "AMQP"), timeout="PT30M")
    until("the second message without an answer", lambda: broker.ask()["unanswered"] == 2)
    broker.ask("/drop", "POST")
    checks.says("no answer any more", api.entry("a-cut"), "Failed",
                "The broker closed the connection; the message may or may not have been accepted")
    reuse(checks, api, broker, name, key)


def reuse(checks, api, broker, name, key):
    """Connections stay open, are shared by the jobs of a collection and are reopened after a failure."""
    for collection in ["first", "second"]:
        api.collection(collection)
        api.put_idle("kept", action("Queue", "later", name, key, "AMQP"), collection)
    before = broker.ask()

    def opened():
        now = broker.ask()
        return now["connections"] - before["connections"], now["tokens"] - before["tokens"]

    for _ in range(3):
        checks.says("kept", api.run("kept", "first"), "Completed")
    checks.check("one connection and one token for three runs", opened(), (1, 1))
    checks.says("another collection", api.run("kept", "second"), "Completed")
    checks.check("has a connection of its own", opened(), (2, 2))
    broker.ask("/detach", "POST")
    until("closed links", lambda: broker.ask()["links"] == 0)
    checks.says("after the broker closed the link", api.run("kept", "first"), "Completed")
    broker.ask("/drop", "POST")
    until("closed connections", lambda: broker.ask()["open"] == 0)
    checks.says("after the broker closed the connection", api.run("kept", "first"), "Completed")
    checks.says("and once more", api.run("kept", "first"), "Completed")
    arrived = [message["message_id"] for message in broker.ask()["received"] if message["entity"] == "later"]
    checks.check("each arrived once", (len(arrived), len(set(arrived))), (7, 7))


def receive(broker, entity, name, key):
    """The messages that the published client receives from a queue."""
    place = f"Endpoint=sb://localhost:{broker.ports['amqp']};SharedAccessKeyName={name};SharedAccessKey={key};"
    with ServiceBusClient.from_connection_string(place + "UseDevelopmentEmulator=true") as client:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_queue_receiver(entity, receive_mode=mode) as receiver:
            return receiver.receive_messages(max_message_count=1, max_wait_time=PATIENCE)


def ordinary_broker(checks, api, rabbit):
    custom = {"Priority": "high"}
    api.put("rabbit", action("Queue", "orders", "guest", "guest", "AMQP", BROKERED, custom))
    checks.says("RabbitMQ", api.entry("rabbit"), "Completed", "Send message succeeded")
    command = ["node", str(HERE / "node/receive.js"), str(rabbit.port), "guest", "guest", "/queue/orders"]
    received = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=PATIENCE)
    checks.check("it was received", (received.returncode, received.stderr), (0, ""))
    message = json.loads(received.stdout)
    found = {name: message.get(name) for name in ["body", "subject", "correlation_id", "durable", "group_id"]}
    checks.check("what was received", found, {
        "body": TEXT, "subject": "läbel", "correlation_id": "correlation", "durable": True, "group_id": "session",
    })
    checks.check("its own properties", message["application_properties"], custom)
    checks.check("the tag is the identity", bool(TAG.fullmatch(message["message_id"])))
    api.put("rabbit-key", action("Queue", "orders", "guest", WRONG_KEY, "AMQP"))
    checks.says("a wrong password", api.entry("rabbit-key"), "Failed", "Unauthorized")


def nowhere(checks, api, name, key):
    for transport in ["AMQP", "netMessaging"]:
        api.put(f"nowhere-{transport}", action("Queue", "orders", name, key, transport))
        checks.says(transport, api.entry(f"nowhere-{transport}"), "Failed",
                    "failed: queue 'orders' namespace 'contoso-ns' NameResolutionFailure")
