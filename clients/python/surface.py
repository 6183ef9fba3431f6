"""Tests every operation of a published Python client against a running server.

    surface.py track1|track2|track2-async URL PFX GROUP
"""

import asyncio
import base64
import datetime
import pathlib
import sys

import azure.mgmt.scheduler
from azure.mgmt.scheduler import models
from clients import KINDS, SUBSCRIPTION

# 1.0.0 has no discriminator: callers set the type of an authentication, and only the type is read from
# a response.
READS_AUTHENTICATION = "_subtype_map" in vars(models.HttpAuthentication)
# 2.0.0 writes and reads durations as TimeSpan, but in lists it reads ISO 8601 only.
LISTS_DURATIONS = getattr(azure.mgmt.scheduler, "__version__", "") != "2.0.0"

passed = failed = 0


def check(what, found, expected=True):
    global passed, failed
    if found == expected:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {what}: expected {expected!r}, found {found!r}")


def text(value):
    """The value of an enum member, which clients represent differently."""
    return getattr(value, "value", value)


def same(found, expected):
    return str(text(found)).lower() == expected.lower()


def standard(**more):
    quota = models.JobCollectionQuota(
        max_job_count=20, max_recurrence=models.JobMaxRecurrence(frequency="Minute", interval=5)
    )
    properties = models.JobCollectionProperties(
        sku=models.Sku(name="Standard"), state="Enabled", quota=quota
    )
    return models.JobCollectionDefinition(location="West US", properties=properties, **more)


def http(uri="http://example.org/", method="GET", **more):
    kind = "Https" if uri.startswith("https") else "Http"
    return models.JobAction(type=kind, request=models.HttpRequest(uri=uri, method=method, **more))


def job(action, **more):
    return models.JobDefinition(properties=models.JobProperties(action=action, **more))


async def collections(client, group):
    make = lambda name, body: client.call("job_collections", "create_or_update", group, name, body)
    made = await make("Main", standard(tags={"team": "billing"}))
    prefix = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers"
    check("id", made.id, f"{prefix}/Microsoft.Scheduler/jobCollections/Main")
    check("type", made.type, "Microsoft.Scheduler/jobCollections")
    check("name", made.name, "Main")
    check("location", made.location, "West US")
    check("tags", made.tags, {"team": "billing"})
    check("sku", same(made.properties.sku.name, "Standard"))
    check("state", same(made.properties.state, "Enabled"))
    check("jobs max", made.properties.quota.max_job_count, 20)
    check("frequency max", same(made.properties.quota.max_recurrence.frequency, "Minute"))
    check("interval max", made.properties.quota.max_recurrence.interval, 5)
    again = await make("Main", standard(tags={"team": "billing"}))
    check("made again", again.id, made.id)
    await make("another", standard())

    got = await client.call("job_collections", "get", group, "MAIN")
    check("got without regard to case", got.id, made.id)
    patch = models.JobCollectionDefinition(tags={"team": "ops", "tier": "1"})
    patched = await client.call("job_collections", "patch", group, "Main", patch)
    check("patched tags", patched.tags, {"team": "ops", "tier": "1"})
    check("patched, rest kept", patched.properties.quota.max_job_count, 20)

    listed = await client.list("job_collections", "list_by_resource_group", group)
    check("listed by group, by name", [one.name for one in listed], ["another", "Main"])
    listed = await client.list("job_collections", "list_by_subscription")
    check("listed by subscription", made.id in [one.id for one in listed])

    await client.poll("job_collections", "disable", group, "Main")
    got = await client.call("job_collections", "get", group, "Main")
    check("disabled", same(got.properties.state, "Disabled"))
    await client.poll("job_collections", "enable", group, "Main")
    got = await client.call("job_collections", "get", group, "Main")
    check("enabled", same(got.properties.state, "Enabled"))
    await client.poll("job_collections", "delete", group, "another")
    status, code, _ = await client.refusal("job_collections", "get", group, "another")
    check("deleted", (status, code), (404, "ResourceNotFound"))
    premium = standard()
    premium.properties.sku.name = "P20Premium"
    made = await make("premium", premium)
    check("premium", same(made.properties.sku.name, "P20Premium"))


async def schedules(client, group):
    make = lambda name, body: client.call("jobs", "create_or_update", group, "Main", name, body)
    start = datetime.datetime(2030, 1, 31, 8, 30, 15, tzinfo=datetime.timezone.utc)
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=40)
    end = soon + datetime.timedelta(days=400)
    status, code, message = await client.refusal(
        "jobs", "create_or_update", group, "Main", "far", job(http(), start_time=start)
    )
    check("a start too far ahead", (status, code), (400, "BadRequest"))
    check("names the member", "properties.startTime" in message)

    occurrences = [
        models.JobRecurrenceScheduleMonthlyOccurrence(day="Friday", occurrence=-1),
        models.JobRecurrenceScheduleMonthlyOccurrence(day="Monday", occurrence=1),
    ]
    month = models.JobRecurrence(
        frequency="Month", interval=2, count=100, end_time=end,
        schedule=models.JobRecurrenceSchedule(
            hours=[5, 17], minutes=[15, 45], monthly_occurrences=occurrences),
    )
    made = await make("monthly", job(http(), start_time=soon, recurrence=month, state="Enabled"))
    check("type", made.type, "Microsoft.Scheduler/jobCollections/jobs")
    check("name", made.name, "Main/monthly")
    found = made.properties
    check("start", abs(found.start_time - soon) < datetime.timedelta(microseconds=2))
    check("frequency", same(found.recurrence.frequency, "Month"))
    check("interval", found.recurrence.interval, 2)
    check("count", found.recurrence.count, 100)
    check("end", abs(found.recurrence.end_time - end) < datetime.timedelta(microseconds=2))
    check("hours", found.recurrence.schedule.hours, [5, 17])
    check("minutes", found.recurrence.schedule.minutes, [15, 45])
    days = [text(one.day).lower() for one in found.recurrence.schedule.monthly_occurrences]
    check("days", days, ["friday", "monday"])
    check("state", same(found.state, "Enabled"))
    check("next", found.status.next_execution_time > soon)
    check("counters", (found.status.execution_count, found.status.failure_count,
                       found.status.faulted_count), (0, 0, 0))

    week = models.JobRecurrence(
        frequency="Week", interval=1,
        schedule=models.JobRecurrenceSchedule(week_days=["Monday", "Sunday"], hours=[3]))
    made = await make("weekly", job(http(), recurrence=week, state="Disabled"))
    check("weekdays", [text(day).lower() for day in made.properties.recurrence.schedule.week_days],
          ["monday", "sunday"])
    check("disabled", same(made.properties.state, "Disabled"))
    check("a disabled job has no status", made.properties.status, None)
    days = models.JobRecurrence(
        frequency="Month", schedule=models.JobRecurrenceSchedule(month_days=[-1, 15]))
    made = await make("days", job(http(), recurrence=days))
    check("days of the month", made.properties.recurrence.schedule.month_days, [-1, 15])


def authentication(kind, word, **members):
    return kind(**members) if READS_AUTHENTICATION else kind(type=word, **members)


def check_authentication(found, word, kind, **members):
    if READS_AUTHENTICATION:
        check(word, type(found), kind)
        check(word, {name: getattr(found, name) for name in members}, members)
    else:
        check(word, same(found.type, word))


async def actions(client, group, pfx):
    async def make(name, action):
        made = await client.call("jobs", "create_or_update", group, "Main", name, job(action))
        got = await client.call("jobs", "get", group, "Main", name)
        check(f"{name} comes back", got.as_dict() if hasattr(got, "as_dict") else got.id,
              made.as_dict() if hasattr(made, "as_dict") else made.id)
        return got.properties.action

    retry = models.RetryPolicy(
        retry_type="Fixed", retry_interval=datetime.timedelta(minutes=1), retry_count=3)
    queue = models.StorageQueueMessage(
        storage_account="account", queue_name="queue1", sas_token="token", message="it failed")
    wanted = http(uri="https://example.org/?a=%2d", method="POST", body="hello",
                  headers={"ConTent-tYPe": "text/plain"})
    wanted.retry_policy = retry
    wanted.error_action = models.JobErrorAction(type="StorageQueue", queue_message=queue)
    action = await make("plain", wanted)
    check("uri as sent", action.request.uri, "https://example.org/?a=%2d")
    check("body", action.request.body, "hello")
    check("headers as sent", action.request.headers, {"ConTent-tYPe": "text/plain"})
    check("retry type", same(action.retry_policy.retry_type, "Fixed"))
    check("retry interval", action.retry_policy.retry_interval, datetime.timedelta(minutes=1))
    check("retry count", action.retry_policy.retry_count, 3)
    check("error action", action.error_action.queue_message.message, "it failed")
    check("its token is not shown", action.error_action.queue_message.sas_token, None)

    kind = models.BasicAuthentication
    basic = authentication(kind, "Basic", username="user", password="secret")
    action = await make("basic", http(authentication=basic))
    check_authentication(
        action.request.authentication, "Basic", kind, username="user", password=None)

    kind, word = models.OAuthAuthentication, "ActiveDirectoryOAuth"
    shown = dict(tenant="contoso.com", audience="https://example.org/", client_id="app")
    oauth = authentication(kind, word, secret="secret", **shown)
    action = await make("oauth", http(authentication=oauth))
    check_authentication(action.request.authentication, word, kind, secret=None, **shown)

    kind, word = models.ClientCertAuthentication, "ClientCertificate"
    certificate = authentication(kind, word, pfx=pfx, password="secret")
    action = await make("certificate", http(uri="https://example.org", authentication=certificate))
    found = action.request.authentication
    check_authentication(found, word, kind, pfx=None, password=None)
    if READS_AUTHENTICATION:
        check("thumbprint", len(found.certificate_thumbprint), 40)
        check("expiration", found.certificate_expiration_date.year >= 2026)
        check("subject", "CN=" in found.certificate_subject_name)

    queue = models.StorageQueueMessage(
        storage_account="account", queue_name="queue1", sas_token="token", message="hello")
    action = await make("queue", models.JobAction(type="StorageQueue", queue_message=queue))
    found = action.queue_message
    check("queue", (found.storage_account, found.queue_name, found.message),
          ("account", "queue1", "hello"))
    check("token is not shown", found.sas_token, None)

    # 1.0.0 sends a date-time as time to live, which its API version does not define.
    lives = models.ServiceBusBrokeredMessageProperties._attribute_map["time_to_live"]["type"]
    hours = datetime.timedelta(hours=2) if lives == "duration" else None
    message = dict(
        namespace="namespace1", message="hello", transport_type="NetMessaging",
        authentication=models.ServiceBusAuthentication(
            type="SharedAccessKey", sas_key_name="RootManageSharedAccessKey", sas_key="key"),
        brokered_message_properties=models.ServiceBusBrokeredMessageProperties(
            content_type="text/plain", label="label", session_id="session", force_persistence=True,
            time_to_live=hours),
        custom_message_properties={"a": "b"},
    )
    for kind, member, more in [
        ("ServiceBusQueue", "service_bus_queue_message", {"queue_name": "queue1"}),
        ("ServiceBusTopic", "service_bus_topic_message", {"topic_path": "topic1"}),
    ]:
        model = {"ServiceBusQueue": models.ServiceBusQueueMessage,
                 "ServiceBusTopic": models.ServiceBusTopicMessage}[kind]
        payload = model(**message, **more)
        action = await make(kind, models.JobAction(type=kind, **{member: payload}))
        found = getattr(action, member)
        check(f"{kind} target", getattr(found, *more), *more.values())
        check(f"{kind} namespace", (found.namespace, found.message), ("namespace1", "hello"))
        check(f"{kind} transport", same(found.transport_type, "NetMessaging"))
        check(f"{kind} authentication", same(found.authentication.type, "SharedAccessKey"))
        check(f"{kind} key name", found.authentication.sas_key_name, "RootManageSharedAccessKey")
        check(f"{kind} key is not shown", found.authentication.sas_key, None)
        properties = found.brokered_message_properties
        check(f"{kind} label", (properties.label, properties.session_id), ("label", "session"))
        check(f"{kind} time to live", properties.time_to_live, hours)
        check(f"{kind} custom", found.custom_message_properties, {"a": "b"})


async def jobs(client, group):
    if not LISTS_DURATIONS:
        for name in ["ServiceBusQueue", "ServiceBusTopic"]:
            await client.call("jobs", "delete", group, "Main", name)
        without = models.JobDefinition(
            properties=models.JobProperties(action=http(uri="https://example.org", body="hello")))
        await client.call("jobs", "create_or_update", group, "Main", "plain", without)
    names = [one.name for one in await client.list("jobs", "list", group, "Main")]
    check("listed by name", names, sorted(names, key=str.lower))
    count = len(names)
    check("all of them", count, 10 if LISTS_DURATIONS else 8)
    few = await client.list("jobs", "list", group, "Main", top=3)
    check("the first three", [one.name for one in few], names[:3])
    some = await client.list("jobs", "list", group, "Main", top=3, skip=2)
    check("three after two", [one.name for one in some], names[2:5])
    off = await client.list("jobs", "list", group, "Main", filter="state eq 'Disabled'")
    check("the disabled", [one.name for one in off], ["Main/weekly"])
    on = await client.list("jobs", "list", group, "Main", filter="state eq Enabled")
    check("the enabled", len(on), count - 1)

    patch = models.JobDefinition(properties=models.JobProperties(state="Disabled"))
    patched = await client.call("jobs", "patch", group, "Main", "plain", patch)
    check("patched", same(patched.properties.state, "Disabled"))
    check("patched, rest kept", patched.properties.action.request.body, "hello")
    patch = models.JobDefinition(properties=models.JobProperties(
        recurrence=models.JobRecurrence(frequency="Day", interval=3), state="Enabled"))
    patched = await client.call("jobs", "patch", group, "Main", "plain", patch)
    check("patched recurrence", patched.properties.recurrence.interval, 3)
    check("patched next", patched.properties.status.next_execution_time is not None)

    await client.call("jobs", "run", group, "Main", "weekly")
    entries = await client.list("jobs", "list_job_history", group, "Main", "days", top=5)
    check("history", entries, [])
    entries = await client.list(
        "jobs", "list_job_history", group, "Main", "days", filter="status eq 'Failed'")
    check("history of failures", entries, [])

    await client.call("jobs", "delete", group, "Main", "plain")
    status, code, message = await client.refusal("jobs", "get", group, "Main", "plain")
    check("deleted", (status, code), (404, "NotFound"))
    check("in the recorded words", "Job 'plain' cannot be found." in message)
    status, code, _ = await client.refusal("jobs", "delete", group, "Main", "plain")
    check("deleted twice", (status, code), (404, "NotFound"))
    status, code, _ = await client.refusal("jobs", "get", group, "nowhere", "plain")
    check("in no collection", (status, code), (404, "ResourceNotFound"))
    every_minute = job(http(), recurrence=models.JobRecurrence(frequency="Minute", interval=1))
    status, code, _ = await client.refusal(
        "jobs", "create_or_update", group, "Main", "often", every_minute)
    check("above the quota", (status, code), (409, "Conflict"))
    bad = job(http(), recurrence=models.JobRecurrence(
        frequency="Day", schedule=models.JobRecurrenceSchedule(hours=[24])))
    status, code, message = await client.refusal(
        "jobs", "create_or_update", group, "Main", "bad", bad)
    check("no such hour", (status, code), (400, "BadRequest"))
    check("names it", "properties.recurrence.schedule.hours" in message)


async def main(kind, url, pfx, group):
    client = KINDS[kind](url)
    await collections(client, group)
    await schedules(client, group)
    await actions(client, group, base64.b64encode(pathlib.Path(pfx).read_bytes()).decode())
    await jobs(client, group)
    await client.poll("job_collections", "delete", group, "Main")
    await client.poll("job_collections", "delete", group, "premium")
    check("nothing is left", await client.list("job_collections", "list_by_resource_group", group), [])
    await client.close()


asyncio.run(main(*sys.argv[1:5]))
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
