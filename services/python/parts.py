"""The services that jobs use, each in its own process."""

import json
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent.parent
# Limit in seconds for starting a service and for its responses; RabbitMQ takes some seconds to start.
PATIENCE = 60


def until(what, question):
    """Polls until there is a result."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.05)
    raise TimeoutError(what)


def free_ports(count):
    """Currently free ports."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class Part:
    """A process whose first line of output is a JSON object with its ports."""

    def __init__(self, command, **named):
        self.process = subprocess.Popen(command, **named)

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


class Node(Part):
    def __init__(self, script, *arguments):
        command = ["node", str(HERE / "node" / script), *arguments]
        super().__init__(command, stdout=subprocess.PIPE, text=True)
        self.ports = json.loads(self.process.stdout.readline())

    def ask(self, path="/state", method="GET"):
        url = f"http://127.0.0.1:{self.ports['control']}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
            return json.load(answer)


class Azurite(Part):
    """Storage queues; over TLS if a certificate directory is given."""

    def __init__(self, tls=None):
        [self.port] = free_ports(1)
        self.url = f"https://localhost:{self.port}" if tls else f"http://127.0.0.1:{self.port}"
        self.authority = str(tls / "authority.pem") if tls else True
        main = pathlib.Path(os.environ["NODE_PATH"]) / "azurite/dist/src/queue/main.js"
        options = ["--queueHost", "127.0.0.1", "--queuePort", str(self.port)]
        options += ["--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
        if tls:
            options += ["--cert", str(tls / "certificate.pem"), "--key", str(tls / "key.pem")]
        super().__init__(["node", str(main), *options], stdout=subprocess.DEVNULL)
        until("Azurite", lambda: listens(self.port))


class RabbitMQ(Part):
    PROGRAM = pathlib.Path(os.environ["RABBITMQ_SERVER"])

    def __init__(self, folder):
        self.port, distribution, self.names = free_ports(3)
        (folder / "plugins").write_text("[rabbitmq_amqp1_0].")
        self.account = []
        if os.getuid() == 0:
            account = pwd.getpwnam("rabbitmq")
            for path in [folder, folder / "plugins"]:
                os.chown(path, account.pw_uid, account.pw_gid)
            self.account = ["setpriv", "--reuid=rabbitmq", "--regid=rabbitmq", "--clear-groups"]
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self.names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"services-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        }
        self.pid_file = folder / "pid"
        with open(folder / "output", "w") as output:
            super().__init__(
                [*self.account, str(self.PROGRAM)],
                env=self.environment, cwd=folder, stdout=output, stderr=output,
            )

    def wait(self):
        until("RabbitMQ", lambda: listens(self.port))

    def stop(self):
        # The server is a child of the start script.
        pid = self.pid_file.read_text().strip() if self.pid_file.exists() else ""
        subprocess.run([*self.account, "kill", pid or str(self.process.pid)], check=False)
        try:
            self.process.wait(PATIENCE)
        finally:
            epmd = shutil.which("epmd") or "epmd"
            subprocess.run(
                [*self.account, epmd, "-port", str(self.names), "-kill"],
                env=self.environment, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )


class Kalends(Part):
    """The kalends binary with a temporary store."""

    def __init__(self, binary, folder, **settings):
        self.folder = folder
        environment = {**os.environ, **settings}
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--store", f"sqlite:{folder}/kalends.db"]
        self.log = open(folder / "log", "w+")
        super().__init__(command, env=environment, stderr=self.log)
        self.url = until("the server", self._address)

    def _address(self):
        if self.process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text())
        lines = (self.folder / "log").read_text().split("\n")[:-1]
        addresses = (line.removeprefix("listening on ") for line in lines if line.startswith("listening on "))
        return next(addresses, None)

    def everything_written(self):
        """Contents of all files it wrote."""
        files = [path for path in self.folder.iterdir() if path.is_file()]
        return b"".join(path.read_bytes() for path in files if path.suffix != ".key")
