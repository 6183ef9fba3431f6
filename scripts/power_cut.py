#!/usr/bin/env python3
"""Simulates power failures of a store and checks that every acknowledged write survives.

    scripts/power_cut.py WRITER [CUTS]

The store is on an ext4 file system in an image file. The EXT4_IOC_SHUTDOWN ioctl without a journal
flush simulates the power failure: unsynced writes are lost. The writer is stopped (SIGSTOP) first, so
that every acknowledgement read precedes the failure. Needs root and loop devices; without them it
prints SKIPPED and succeeds.
"""

import fcntl
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
IMAGE_MIB = 256
# Limit in seconds for a writer to stop or to acknowledge; exceeding it is a failure.
PATIENCE_SECONDS = 60


def skip(why):
    print(f"SKIPPED: power cuts: {why}")
    sys.exit(0)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True)


def mount(image, folder):
    run("mount", "-o", "loop", str(image), str(folder))


def wait_until_stopped(pid):
    """Stops every thread: one may still be inside a sync."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        states = [
            (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
        ]
        if all(state in "Tt" for state in states):
            return
        os.sched_yield()
    raise TimeoutError("the writer did not stop")


def read_lines(output, wanted):
    """Reads `wanted` whole lines, unbuffered, so that every line read is counted."""
    lines = []
    while len(lines) < wanted:
        line = output.readline()
        if not line:
            raise EOFError("the writer ended by itself")
        lines.append(line)
    return lines


def drain(output):
    """Unread output of the stopped writer: writes acknowledged before the power failure."""
    os.set_blocking(output.fileno(), False)
    rest = output.read() or b""
    return rest.splitlines(keepends=True)


def cut(writer, database, folder, first, wanted):
    """Writes until the power failure; returns the acknowledged lines."""
    process = subprocess.Popen(
        [writer, "write", database, str(first), "1000000", "4"], stdout=subprocess.PIPE
    )
    try:
        lines = read_lines(process.stdout, wanted)
        process.send_signal(signal.SIGSTOP)
        wait_until_stopped(process.pid)
        lines += drain(process.stdout)
        handle = os.open(folder, os.O_RDONLY)
        fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        os.close(handle)
    finally:
        process.kill()
        process.wait()
    return [line for line in lines if line.endswith(b"\n")]


def verify(writer, database, lines):
    done = subprocess.run(
        [writer, "verify", database], input=b"".join(lines), capture_output=True, check=False
    )
    if done.returncode != 0:
        sys.exit("LOST:\n" + done.stderr.decode())


def main():
    writer, cuts = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if os.geteuid() != 0:
        skip("not root")
    if not shutil.which("mkfs.ext4"):
        skip("there is no mkfs.ext4")
    seed = int(os.environ.get("KALENDS_SEED", time.time_ns()))
    chance = random.Random(seed)
    print(f"seed {seed}")
    base = pathlib.Path(tempfile.mkdtemp(prefix="kalends-power-cut-"))
    image, folder = base / "image", base / "mounted"
    folder.mkdir()
    mounted = False
    try:
        with open(image, "wb") as file:
            file.truncate(IMAGE_MIB * 1024 * 1024)
        run("mkfs.ext4", "-q", str(image))
        try:
            mount(image, folder)
            mounted = True
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            skip(f"no loop mounts here ({getattr(error, 'stderr', error)})")
        database = str(folder / "kalends.db")
        acknowledged, before = [], []
        for number in range(cuts):
            lines = cut(writer, database, folder, number * 1_000_000, chance.randrange(1, 800))
            acknowledged += lines
            run("umount", str(folder))
            mounted = False
            mount(image, folder)
            mounted = True
            # Writes that survived two power failures are checked again only at the end.
            verify(writer, database, before + lines)
            before = lines
        verify(writer, database, acknowledged)
        print(f"{cuts} cuts, {len(acknowledged)} acknowledged writes, none lost")
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=False)
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
