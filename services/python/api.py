"""API client: creates jobs, runs them and waits for their history."""

import json
import urllib.error
import urllib.request

from parts import until

SUBSCRIPTION = "6c55a6f0-6593-472f-9b3e-a51a9a757b40"
NEWEST = "2026-11-01"


class Api:
    def __init__(self, url):
        self._group = f"{url}/subscriptions/{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.Scheduler/jobCollections"
        self.jobs = []

    def ask(self, method, path, body=None, version=NEWEST):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._group}/{path}?api-version={version}", data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def collection(self, name):
        self.ask("PUT", name, {"location": "West US", "properties": {"sku": {"name": "Standard"}}})

    def put(self, job, action, collection="jc", version=NEWEST, **properties):
        """Creates a job that runs immediately, without retries."""
        action["retryPolicy"] = {"retryType": "None"}
        self.jobs.append((collection, job))
        self.ask("PUT", f"{collection}/jobs/{job}", {"properties": {"action": action, **properties}}, version)

    def put_idle(self, job, action, collection="jc"):
        """Creates a job that runs only on request."""
        self.put(job, action, collection, state="Disabled", recurrence={"frequency": "Day"})

    def run(self, job, collection="jc"):
        """Runs a job and waits for its history entry."""
        before = len(self.history(job, collection))
        self.ask("POST", f"{collection}/jobs/{job}/run")
        return self.entry(job, collection, before + 1)

    def history(self, job, collection="jc"):
        answer = json.loads(self.ask("GET", f"{collection}/jobs/{job}/history"))
        return [entry["properties"] for entry in answer["value"]]

    def entry(self, job, collection="jc", count=1):
        """Waits for this number of history entries and returns the newest."""
        history = until(f"history of {job}", lambda: self._at_least(job, collection, count))
        return history[0]["status"], history[0]["message"]

    def _at_least(self, job, collection, count):
        history = self.history(job, collection)
        return history if len(history) >= count else None

    def all_answers(self):
        """All jobs and their history, as an old and the newest API version return them."""
        paths = [f"{collection}/jobs/{job}{below}" for collection, job in self.jobs for below in ["", "/history"]]
        paths += [f"{collection}/jobs" for collection in {collection for collection, _ in self.jobs}]
        return "".join(self.ask("GET", path, version=version) for path in paths for version in ["2016-03-01", NEWEST])
