"""Creates store-0.1.0.db and store-0.1.0.json with the binary given as the argument; see README.md."""

import atexit, http.server, json, os, pathlib, shutil, signal, sqlite3, subprocess, sys, tempfile, threading, time, urllib.request

BINARY = sys.argv[1]
HERE = pathlib.Path(__file__).parent
KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
SUBSCRIPTION = "6c55a6f0-6593-472f-9b3e-a51a9a757b40"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/Upgrade"
VERSION = "api-version=2026-11-01"


class Target(http.server.BaseHTTPRequestHandler):
    """Returns 500 for /fail, does not respond to /hang, and returns 200 otherwise."""

    def do_POST(self):
        if self.path.startswith("/hang"):
            time.sleep(3600)
        self.send_response(500 if self.path.startswith("/fail") else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST

    def log_message(self, *_):
        pass


target = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Target)
target.daemon_threads = True
threading.Thread(target=target.serve_forever, daemon=True).start()
TARGET = f"http://127.0.0.1:{target.server_port}"
ENVIRONMENT = dict(os.environ, KALENDS_KEY=KEY)


def serve(path, port, *flags):
    command = [BINARY, "serve", "--store", f"sqlite:{path}", "--listen", f"127.0.0.1:{port}", "--audit-log", "off", "--log", "warn", *flags]
    process = subprocess.Popen(command, env=ENVIRONMENT)
    atexit.register(process.kill)
    for _ in range(200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{GROUP}/providers/Microsoft.Scheduler/jobCollections?{VERSION}")
            return process
        except urllib.error.HTTPError:
            return process
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not start")


def call(port, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    url = f"http://127.0.0.1:{port}{GROUP}/providers/Microsoft.Scheduler/jobCollections/{path}?{VERSION}"
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{method} {path}: {error.code} {error.read()}")


def job(path, retry=None, **members):
    request = {"uri": TARGET + path, "method": "POST", "body": "hello"}
    action = {"type": "Http", "request": request, "retryPolicy": retry or {"retryType": "None"}}
    return {"properties": {"action": action, **members}}


def wait(condition):
    for _ in range(400):
        if condition():
            return
        time.sleep(0.02)
    raise SystemExit("timeout")


def token(path, *flags):
    command = [BINARY, "token", "create", "--store", f"sqlite:{path}", *flags]
    return subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout.strip()


work = pathlib.Path(tempfile.mkdtemp())
store, port = work / "store.db", 18090
server = serve(store, port)
state = lambda path: call(port, "GET", path)["properties"]["state"]
executions = lambda path: call(port, "GET", path)["properties"]["status"].get("executionCount", 0)

for name, plan, members in [("Main", "Standard", {}), ("Paused", "P10Premium", {}), ("Empty", "Free", {})]:
    call(port, "PUT", name, {"location": "West US", "tags": {"team": name}, "properties": {"sku": {"name": plan}, **members}})
daily = {"frequency": "Day", "interval": 1, "schedule": {"hours": [3], "minutes": [30]}, "timeZone": "Europe/Berlin"}
call(port, "PUT", "Main/jobs/Completed", job("/ok", description="one-time job", tags={"team": "billing", "env": "test"}))
call(port, "PUT", "Main/jobs/Faulted", job("/fail"))
call(port, "PUT", "Main/jobs/Future", job("/ok", startTime="2028-01-01T00:00:00Z"))
secret = job("/ok?sig=secret-signature", recurrence=daily, startTime="2026-01-01T00:00:00Z", jitter="PT1M", timeout="PT30S", missedRuns={"policy": "Skip"})
secret["properties"]["action"]["request"]["headers"] = {"Content-Type": "text/plain", "Authorization": "secret-header"}
secret["properties"]["action"]["request"]["authentication"] = {"type": "Basic", "username": "user", "password": "secret-password"}
secret["properties"]["action"]["errorAction"] = {"type": "StorageQueue", "queueMessage": {"storageAccount": "account", "queueName": "queue", "sasToken": "secret-token", "message": "it failed"}}
call(port, "PUT", "Main/jobs/Secret", secret)
call(port, "PUT", "Main/jobs/Disabled", job("/ok", state="Disabled", recurrence={"frequency": "Hour"}))
call(port, "PUT", "Main/jobs/Recurring", job("/ok", recurrence={"frequency": "Day", "count": 100}, tags={"team": "billing"}))
call(port, "PUT", "Main/jobs/Removed", job("/ok", recurrence={"frequency": "Day"}))
call(port, "PUT", "Paused/jobs/Waiting", job("/ok", recurrence={"frequency": "Day"}, startTime="2026-11-01T00:00:00Z"))
wait(lambda: state("Main/jobs/Completed") == "Completed" and state("Main/jobs/Faulted") == "Faulted")
call(port, "PATCH", "Paused", {"properties": {"state": "Disabled"}})
revoked = token(store, "--role", "reader", "--scope", "/", "--name", "revoked")
token(store, "--role", "owner", "--scope", "/", "--name", "admin")
token(store, "--role", "operator", "--scope", GROUP, "--name", "operators", "--expires", "2099-01-01")
subprocess.run([BINARY, "token", "revoke", "--store", f"sqlite:{store}", revoked.split("_")[1]], env=ENVIRONMENT, check=True)
time.sleep(1.5)  # The store is idle and flushes.

call(port, "PUT", "Main/jobs/Retrying", job("/fail", {"retryType": "Fixed", "retryInterval": "PT1H", "retryCount": 3}))
call(port, "PUT", "Main/jobs/Running", job("/hang", recurrence={"frequency": "Day"}, timeout="PT30M", overlap="Allow"))
call(port, "DELETE", "Main/jobs/Removed")
for _ in range(4):
    call(port, "POST", "Main/jobs/Recurring/run")
wait(lambda: executions("Main/jobs/Recurring") == 5 and executions("Main/jobs/Retrying") == 1)
server.send_signal(signal.SIGKILL)
server.wait()
connection = sqlite3.connect(store)
print("checkpoint", connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
print("change log", connection.execute("SELECT count(*), sum(length(changes)) FROM log").fetchone())
before = [connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in ("state", "runs")]
connection.close()
shutil.copy(store, HERE / "store-0.1.0.db")

# The same binary replays and flushes the change log of a copy; its tables are the expected contents.
copy = work / "copy.db"
shutil.copy(store, copy)
server = serve(copy, port + 1, "--hold")
server.send_signal(signal.SIGTERM)
server.wait()
connection = sqlite3.connect(copy)
connection.row_factory = sqlite3.Row
after = [[tuple(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1")] for table in ("state", "runs")]
print("unflushed states and runs", [len(set(a) ^ set(b)) for a, b in zip(before, after)])


def rows(sql):
    return [dict(row) for row in connection.execute(sql)]


expected = {
    "groups": rows("SELECT subscription, name FROM groups ORDER BY id"),
    "collections": rows("SELECT c.name, c.plan, c.enabled, c.created, c.enabled_since, c.version FROM collections c ORDER BY c.name_key"),
    "jobs": rows("""SELECT c.name AS collection, j.job AS key, j.name, lower(hex(j.uid)) AS uid, j.created, j.version, s.generation, s.switched_on, s.lifecycle, s.due,
        s.used, s.last_execution, s.executions, s.failures, s.faulted, s.finished FROM jobs j JOIN state s USING (job) JOIN collections c ON c.id = j.collection ORDER BY j.job"""),
    "tags": rows("SELECT j.name AS job, t.name_key AS name, t.value FROM tags t JOIN jobs j USING (job) ORDER BY 1, 2"),
    "runs": rows("SELECT run, job, generation, scheduled, cause, repeat, role, retry, redelivery, next_at, first_started, owner, token, lease_until FROM runs ORDER BY run"),
    "history": rows("""SELECT sequence, h.job, started, ended, expected, status, retry, repeat, role, message, dns, connect, tls, first_byte, total
        FROM history h JOIN jobs j USING (job) ORDER BY sequence"""),
    "ledger": rows("SELECT l.job, generation, from_at, to_at, count, cause, disposition, closed FROM ledger l JOIN jobs j USING (job) ORDER BY l.job, from_at, to_at, id"),
    "tokens": rows("SELECT id, name, lower(hex(hash)) AS hash, role, place, created, expires, revoked, last_used FROM tokens ORDER BY created"),
}
(HERE / "store-0.1.0.json").write_text(json.dumps(expected, indent=1) + "\n")
for name, found in expected.items():
    print(name, len(found))
