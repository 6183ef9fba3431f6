"""Creates collections with a job of each action type, so that generated requests find resources."""

import json
import sys
import urllib.error
import urllib.request

BASE = (
    "/subscriptions/6c55a6f0-6593-472f-9b3e-a51a9a757b40/resourceGroups/rg"
    "/providers/Microsoft.Scheduler/jobCollections"
)
# The server is local: ignore proxy settings of the environment.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def put(url, path, body):
    request = urllib.request.Request(
        f"{url}{BASE}/{path}?api-version=2026-11-01",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )
    try:
        opener.open(request).read()
    except urllib.error.HTTPError as refused:
        # 409: a generated request has completed or changed the job; leave it.
        if refused.code != 409:
            sys.exit(f"{path}: {refused.code} {refused.read().decode()}")


sas = {"sasKey": "a2V5", "sasKeyName": "RootManage", "type": "SharedAccessKey"}
bus = {"namespace": "kalends-bus", "message": "hello", "transportType": "AMQP", "authentication": sas}
http = {"type": "Http", "request": {"uri": "http://localhost:9/x", "method": "POST", "body": "x", "headers": {"A": "b"}}}
jobs = {
    "http": {
        "action": {
            **http,
            "retryPolicy": {"retryType": "Exponential", "retryInterval": "PT20S", "retryCount": 3},
            "errorAction": http,
        },
        "recurrence": {"frequency": "Day", "timeZone": "Europe/Berlin", "schedule": {"hours": [2], "minutes": [30]}},
        "description": "nightly",
        "tags": {"team": "billing"},
        "missedRuns": {"policy": "Last", "within": "PT24H"},
        "overlap": "Skip",
        "jitter": "PT30S",
        "timeout": "PT5M",
    },
    "https": {
        "action": {
            "type": "Https",
            "request": {
                "uri": "https://example.com/x",
                "method": "GET",
                "authentication": {"type": "Basic", "username": "u", "password": "p"},
            },
        },
        "startTime": "2027-01-01T00:00:00Z",
        "recurrence": {
            "frequency": "Month",
            "schedule": {"monthlyOccurrences": [{"day": "Friday", "occurrence": -1}], "hours": [1], "minutes": [0]},
            "count": 10,
        },
    },
    "storage": {
        "action": {
            "type": "StorageQueue",
            "queueMessage": {"storageAccount": "account", "queueName": "queue", "sasToken": "sv=1&sig=x", "message": "x"},
        }
    },
    "queue": {"action": {"type": "ServiceBusQueue", "serviceBusQueueMessage": {**bus, "queueName": "queue"}}},
    "topic": {
        "action": {
            "type": "ServiceBusTopic",
            "serviceBusTopicMessage": {**bus, "topicPath": "topic", "brokeredMessageProperties": {"label": "x"}},
        }
    },
}
COLLECTIONS = ["seeded", "other"]


def seed(url):
    for collection in COLLECTIONS:
        put(url, collection, {"location": "West US", "properties": {"sku": {"name": "Standard"}}})
        for name, properties in jobs.items():
            put(url, f"{collection}/jobs/{name}", {"properties": properties})
