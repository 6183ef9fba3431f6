"""APScheduler 3 with a job store on PostgreSQL and a pool of threads.

The protocol is described in bench/peers/README.md.
"""

import http.client
import os
import pickle
import signal
import sys
import threading
from datetime import datetime, timedelta, timezone

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.util import datetime_to_utc_timestamp

BODY_BYTES = 256
THREADS = 20
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

connections = threading.local()


def post(body):
    """Posts a body to the sink over the keep-alive connection of the thread."""
    connection = getattr(connections, "connection", None)
    if connection is None:
        connection = connections.connection = http.client.HTTPConnection(os.environ["SINK"])
    connection.request("POST", "/", body)
    response = connection.getresponse()
    response.read()
    if response.status != 200:
        raise RuntimeError(f"status {response.status}")


def scheduler_and_store():
    url = os.environ["STORE"].replace("postgres://", "postgresql+psycopg://")
    store = SQLAlchemyJobStore(url=url)
    scheduler = BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": ThreadPoolExecutor(THREADS)},
        # Late runs are not dropped.
        job_defaults={"misfire_grace_time": None},
        timezone=timezone.utc,
    )
    return scheduler, store


def load(count, first, spacing):
    """Stores jobs in the form of the job store, with one statement for many of them."""
    scheduler, store = scheduler_and_store()
    scheduler.start(paused=True)
    rows = []
    for number in range(count):
        due = first + number * spacing
        at = EPOCH + timedelta(microseconds=due)
        job = Job(
            scheduler,
            id=str(number),
            name="post",
            func="__main__:post",
            args=(f"id={number:010};due={due:016};".ljust(BODY_BYTES, "x"),),
            kwargs={},
            trigger=DateTrigger(at),
            executor="default",
            misfire_grace_time=None,
            coalesce=False,
            max_instances=1,
            next_run_time=at,
        )
        state = pickle.dumps(job.__getstate__(), store.pickle_protocol)
        rows.append({"id": job.id, "next_run_time": datetime_to_utc_timestamp(at), "job_state": state})
    with store.engine.begin() as connection:
        connection.execute(store.jobs_t.insert(), rows)
    scheduler.shutdown()


def work():
    scheduler, _ = scheduler_and_store()
    scheduler.start()
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        load(*map(int, sys.argv[2:5]))
