"""Parts that the benchmarks in Python share: servers, a target for their jobs, and files of results."""

import atexit
import http.client
import json
import multiprocessing
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

BENCH = pathlib.Path(__file__).resolve().parent
QUICK = "--quick" in sys.argv
# The sink recognizes the end of a request by these bytes, without parsing it.
BODY = "x" * 254 + ".\n"
# The sink responds to requests for this path after a delay.
SLOW = "/slow/"
COLLECTION = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/g/providers/Microsoft.Scheduler/jobCollections/c"
VERSION = "?api-version=2026-11-01"

# An exit, unlike death by the signal, kills the servers.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def binary():
    """The release build, or the one that the command line names."""
    named = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    target = os.environ.get("CARGO_TARGET_DIR", str(BENCH.parent / "target"))
    return named[0] if named else f"{target}/release/kalends"


class Server:
    """A server, killed at the exit of the benchmark at the latest."""

    def __init__(self, store, *options, environment=None):
        command = [binary(), "serve", "--listen", "127.0.0.1:0", "--echo-listen", "off", "--store", store, "--log", "error",
                   "--audit-log", "off", "--limits-plans", "off", "--writes-per-minute", "1000000", "--reads-per-minute", "1000000"]
        self.process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, env=os.environ | (environment or {}))
        atexit.register(self.kill)
        lines = iter(self.process.stderr.readline, "")
        self.address = None
        while self.address is None:
            line = next(lines, None) or sys.exit(f"{binary()} did not start")
            self.address = line.partition("listening on http://")[2].strip() or None
            if self.address is None:
                print(line, end="", file=sys.stderr)
        threading.Thread(target=lambda: [print(line, end="", file=sys.stderr) for line in lines], daemon=True).start()

    def kill(self):
        """Kills the process, as a crash does."""
        self.process.kill()
        self.process.wait()

    def client(self):
        return Client(self.address)

    def create_jobs(self, jobs):
        """Creates jobs from pairs of a name and properties, over 16 connections."""
        self.client().request("PUT", COLLECTION + VERSION, {"location": "local", "properties": {"sku": {"name": "P20Premium"}}})

        def create(part):
            client = self.client()
            for name, properties in part:
                client.request("PUT", job_path(name), {"properties": properties})

        jobs = list(jobs)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(create, [jobs[first::16] for first in range(16)]))

    def processor_seconds(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def resident_megabytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


class Client:
    """A keep-alive connection."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, {"content-type": "application/json"} if text else {})
        response = self.connection.getresponse()
        content = response.read()
        if response.status >= 300:
            sys.exit(f"{method} {path}: {response.status} {content[:300]}")
        return json.loads(content) if content.startswith(b"{") else content


def job_path(name):
    return f"{COLLECTION}/jobs/{name}{VERSION}"


def job(uri, start, **properties):
    """Properties of a job that posts 256 bytes, for the first time at `start` in seconds since 1970."""
    request = {"method": "POST", "uri": uri, "body": BODY}
    action = {"type": "Http", "request": request, "retryPolicy": {"retryType": "None"}}
    return {"startTime": time_text(start), "action": action, **properties}


def time_text(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of(text):
    """Seconds since 1970 of a time whose fraction may have more digits than Python reads."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(whole + "+00:00").timestamp() + float(f"0.{fraction or 0}")


class Arrival:
    """A request that the sink received."""

    def __init__(self, at, request):
        head = request.split(b"\r\n\r\n", 1)[0].decode()
        header = lambda name: re.search(rf"^{name}: *(.*?)\r?$", head, re.IGNORECASE | re.MULTILINE).group(1)
        self.at = at
        self.path = head.split(" ", 2)[1]
        self.job = header("x-ms-scheduler-jobid")
        self.scheduled = time_of(header("x-ms-scheduler-expected-execution-time"))
        self.key = header("idempotency-key")

    @property
    def run(self):
        return self.job, round(self.scheduled, 3)


class Sink:
    """A target in a process of its own, which records each request and responds at once or, for paths that begin with
    SLOW, after `delay` seconds."""

    def __init__(self, delay=0.0):
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve_sink, args=(listener, other, delay), daemon=True)
        self.process.start()
        listener.close()

    def count(self):
        """Number of requests since the last `take`."""
        self.pipe.send("count")
        return self.pipe.recv()

    def take(self):
        """The requests since the last call, in the order of their arrival."""
        self.pipe.send("take")
        return [Arrival(at, request) for at, request in self.pipe.recv()]

    def wait_for(self, count, timeout=120):
        until = time.time() + timeout
        while self.count() < count and time.time() < until:
            time.sleep(0.02)


def serve_sink(listener, pipe, delay):
    """The loop of the sink: plain system calls, because it shares the processors with the server."""
    response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    end, slow = BODY[-2:].encode(), f"POST {SLOW}".encode()
    epoll, connections, arrivals, delayed = select.epoll(), {}, [], deque()
    listener.setblocking(False)
    for file in (listener, pipe):
        epoll.register(file.fileno(), select.EPOLLIN)
    incomplete = {}

    def respond(number):
        # The connection of a killed node is closed.
        if number in connections:
            try:
                connections[number].send(response)
            except OSError:
                pass

    while True:
        wait = max(0, delayed[0][0] - time.time()) if delayed else -1
        for number, _ in epoll.poll(wait):
            if number == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = connection
                epoll.register(connection.fileno(), select.EPOLLIN)
            elif number == pipe.fileno():
                if pipe.recv() == "count":
                    pipe.send(len(arrivals))
                else:
                    pipe.send(arrivals)
                    arrivals = []
            else:
                try:
                    data = connections[number].recv(65536)
                except ConnectionResetError:
                    data = b""
                if not data:
                    connections.pop(number).close()
                    incomplete.pop(number, None)
                    continue
                at = time.time()
                data = incomplete.pop(number, b"") + data
                if not data.endswith(end):
                    incomplete[number] = data
                    continue
                arrivals.append((at, data))
                if data.startswith(slow):
                    delayed.append((at + delay, number, connections[number]))
                else:
                    respond(number)
        while delayed and delayed[0][0] <= time.time():
            _, number, connection = delayed.popleft()
            if connections.get(number) is connection:
                respond(number)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def write_results(name, begun, measured):
    """Writes bench/results/DATE-NAME.json, or DATE-NAME-quick.json."""
    value = lambda file, key, separator: next(
        (line.partition(separator)[2].strip().strip('"') for line in open(file) if line.startswith(key)), "")
    machine = {
        "cores": os.cpu_count(),
        "kernel": os.uname().release,
        "load_average": f"{os.getloadavg()[0]:.2f}",
        "memory": value("/proc/meminfo", "MemTotal", ":"),
        "processor": value("/proc/cpuinfo", "model name", ":"),
        "system": value("/etc/os-release", "PRETTY_NAME", "="),
    }
    begun = datetime.fromtimestamp(begun, timezone.utc)
    path = BENCH / "results" / f"{begun:%Y-%m-%d}-{name}{'-quick' if QUICK else ''}.json"
    results = {"begun": f"{begun:%Y-%m-%dT%H:%M:%SZ}", "machine": machine, "measured": measured}
    path.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
    print(f"\nWritten to bench/results/{path.name}.")
