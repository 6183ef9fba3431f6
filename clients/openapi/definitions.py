"""Compares the schema of `kalends schema` with the server: a definition that the server accepts is valid by
the schema, and the schema refuses common mistakes, which the server refuses too."""

import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request

import jsonschema_rs

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = "/api/collections/schema/jobs/job"


def put(url, body):
    """Returns the status of the request, and the response."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url + JOB, json.dumps(body).encode(), headers, method="PUT")
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def delete(url):
    with urllib.request.urlopen(urllib.request.Request(url + JOB, method="DELETE")):
        pass


def without_nulls(value):
    """null stands for an absent member."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def documented():
    """The examples of docs/jobs.md."""
    page = (ROOT / "docs/jobs.md").read_text()
    examples = re.findall(r"<!-- job: (\S+) -->\s*```json(.*?)```", page, re.S)
    return [(name, json.loads(body)) for name, body in examples]


def recorded():
    """Bodies of recorded requests; none without the recordings."""
    shared = pathlib.Path(os.environ.get("KALENDS_SHARED", ROOT.parent / "shared"))
    for file in sorted((shared / "spec/recordings").glob("*.jsonl")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            exchange = json.loads(line)
            body = exchange.get("request_body")
            if isinstance(body, str):
                body = json.loads(body) if body.startswith("{") else None
            if exchange.get("method") == "PUT" and "/jobs/" in exchange.get("uri", "") and body:
                yield f"{file.name}:{number}", body


def http(**members):
    request = {"uri": "https://example.com/", "method": "GET"}
    return {"properties": {"action": {"type": "Https", "request": request}, **members}}


def with_action(**members):
    body = http()
    body["properties"]["action"].update(members)
    return body


def with_request(**members):
    body = http()
    body["properties"]["action"]["request"].update(members)
    return body


GOOD = {
    "secrets by reference": with_request(
        authentication={"type": "Basic", "username": "u", "password": "${env:PASSWORD}"}
    ),
    "any casing": http(recurrence={"frequency": "dAY", "schedule": {"hours": 3}}),
    "a member of a response": {"id": "x", "name": "c/j", **http(status={})},
}
BAD = {
    "no properties": {},
    "no action": {"properties": {}},
    "no request": {"properties": {"action": {"type": "Http"}}},
    "a message for a request": {"properties": {"action": {"type": "Http", "queueMessage": {}}}},
    "an unknown member": http(cron="* * * * *"),
    "an unknown member below": with_request(url="https://example.com/"),
    "an unknown type": {"properties": {"action": {"type": "Ftp", "request": {}}}},
    "an unknown method": with_request(method="TRACE"),
    "no method": {"properties": {"action": {"type": "Http", "request": {"uri": "http://a.example/"}}}},
    "a body that is no text": with_request(body={"a": 1}),
    "a header that is no text": with_request(headers={"X": 1}),
    "an unknown authentication": with_request(authentication={"type": "Kerberos"}),
    "frequency and cron": http(recurrence={"frequency": "Day", "cron": "0 2 * * *"}),
    "neither frequency nor cron": http(recurrence={"interval": 2}),
    "an unknown frequency": http(recurrence={"frequency": "Second"}),
    "interval 0": http(recurrence={"frequency": "Day", "interval": 0}),
    "count 0": http(recurrence={"frequency": "Day", "count": 0}),
    "hour 24": http(recurrence={"frequency": "Day", "schedule": {"hours": [24]}}),
    "minute -1": http(recurrence={"frequency": "Day", "schedule": {"minutes": [-1]}}),
    "an unknown weekday": http(recurrence={"frequency": "Week", "schedule": {"weekDays": ["Funday"]}}),
    "an empty schedule": http(recurrence={"frequency": "Day", "schedule": {}}),
    "month 13": http(recurrence={"frequency": "Month", "schedule": {"months": [13]}}),
    "an unknown retry type": with_action(retryPolicy={"retryType": "Backoff"}),
    "21 retries": with_action(retryPolicy={"retryType": "Fixed", "retryCount": 21}),
    "an interval in words": with_action(retryPolicy={"retryType": "Fixed", "retryInterval": "30 seconds"}),
    "an unknown overlap": http(overlap="Queue"),
    "an unknown missed-run policy": http(missedRuns={"policy": "Never"}),
    "a timeout in words": http(timeout="5 minutes"),
    "a start in words": http(startTime="tomorrow"),
    "a final state that the job does not have": http(state="Deleted"),
    "an error action in an error action": with_action(
        errorAction={**http()["properties"]["action"], "errorAction": http()["properties"]["action"]}
    ),
}


def main(binary, url):
    schema = json.loads(subprocess.run([binary, "schema"], check=True, capture_output=True).stdout)
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.Draft202012Validator(schema)
    wrong = []
    examples = documented()
    assert len(examples) >= 30, len(examples)
    for name, body in [*examples, *GOOD.items()]:
        wrong += [f"{name}: {error.message}" for error in validator.iter_errors(body)]
    accepted = 0
    for name, body in recorded():
        status, _ = put(url, body)
        if status in (200, 201):
            accepted += 1
            delete(url)
            body = without_nulls(body)
            wrong += [f"{name}: {error.instance_path}: {error.message}" for error in validator.iter_errors(body)]
    for name, body in BAD.items():
        if validator.is_valid(body):
            wrong.append(f"the schema accepts {name}")
        status, response = put(url, body)
        if status != 400:
            wrong.append(f"the server accepts {name}: {status} {response}")
    print(f"schema: {len(examples)} documented, {accepted} recorded and {len(BAD)} invalid definitions")
    if wrong:
        sys.exit("\n".join(wrong))


main(*sys.argv[1:])
