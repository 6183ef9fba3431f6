"""Storage queues: Azurite, read back with the published client."""

import base64
import contextlib
import datetime
import re
import uuid
import xml.etree.ElementTree

from azure.core.exceptions import ResourceExistsError
from azure.storage.queue import QueueClient, QueueSasPermissions, TextBase64DecodePolicy, generate_queue_sas

ACCOUNT = "devstoreaccount1"
# Well-known key of the emulator.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
WRONG_KEY = base64.b64encode(b"canary-account-key".ljust(64, b".")).decode()
TEXT = "a <b> & \"c\" ü 😀\r\nand a line"
SECRETS = [KEY, WRONG_KEY]


class Queue(QueueClient):
    def __init__(self, azurite, name):
        super().__init__(
            f"{azurite.url}/{ACCOUNT}", name, credential=KEY,
            message_decode_policy=TextBase64DecodePolicy(), connection_verify=azurite.authority,
        )
        with contextlib.suppress(ResourceExistsError):
            self.create_queue()

    def take(self):
        return [message.content for message in self.receive_messages()]


def sas(queue):
    """A shared access signature that allows adding messages to one queue."""
    expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    token = generate_queue_sas(ACCOUNT, queue, KEY, permission=QueueSasPermissions(add=True), expiry=expiry)
    SECRETS.append(re.search("sig=([^&]+)", token).group(1))
    return token


def action(queue, token, text=TEXT, account=ACCOUNT, **more):
    message = {"storageAccount": account, "queueName": queue, "sasToken": token, "message": text, **more}
    return {"type": "StorageQueue", "queueMessage": message}


def emulator(checks, api, azurite):
    work, other = Queue(azurite, "work"), Queue(azurite, "other")
    token = sas("work")
    put = f"StorageQueue Action - Put message to account '{ACCOUNT}' queue 'work'"

    api.put("q-envelope", action("work", token))
    checks.says("an envelope", api.entry("q-envelope"), "Completed", f"{put} succeeded")
    [text] = work.take()
    checks.check("its declaration", text.startswith('<?xml version="1.0" encoding="utf-16"?>\r\n'))
    envelope = xml.etree.ElementTree.fromstring(text)
    found = {member.tag: member.text for member in envelope}
    checks.check("its root", envelope.tag, "StorageQueueMessage")
    checks.check(
        "its members", list(found),
        ["ExecutionTag", "ClientRequestId", "ExpectedExecutionTime", "SchedulerJobId",
         "SchedulerJobCollectionId", "Region", "Message"],
    )
    checks.check("its text", found["Message"], TEXT)
    checks.check("its job", (found["SchedulerJobId"], found["SchedulerJobCollectionId"]), ("q-envelope", "jc"))
    checks.check("its region", found["Region"], "West US")
    checks.check("its tag", bool(re.fullmatch("[0-9a-f]{32}", found["ExecutionTag"])))
    checks.check("its request", str(uuid.UUID(found["ClientRequestId"])), found["ClientRequestId"])
    expected = api.history("q-envelope")[0]["expectedExecutionTime"]
    checks.check("its time", found["ExpectedExecutionTime"] + "Z", expected)

    # As in samples: a question mark before the signature and capitals in names; an old API version.
    api.put("q-question", action("work", "?" + token), version="2016-03-01")
    api.put("q-capitals", action("Work", "s?" + token, account="DevStoreAccount1"))
    for job in ["q-question", "q-capitals"]:
        checks.says(job, api.entry(job), "Completed", "succeeded")
    checks.check("both arrived", len(work.take()), 2)

    api.put("q-raw", action("work", KEY, messageFormat="Raw"))
    checks.says("a text alone, with the account's key", api.entry("q-raw"), "Completed", f"{put} succeeded")
    checks.check("the text", work.take(), [TEXT])

    api.put("q-other", action("other", token))
    checks.says("a signature of another queue", api.entry("q-other"), "Failed", "queue 'other' failed: Forbidden Auth")
    checks.check("nothing arrived", other.take(), [])
    api.put("q-key", action("work", WRONG_KEY))
    checks.says("a wrong key", api.entry("q-key"), "Failed", f"{put} failed: Forbidden Auth")
    api.put("q-missing", action("missing", KEY))
    checks.says(
        "a missing queue", api.entry("q-missing"), "Failed",
        f"StorageQueue Action - The queue 'missing' of account '{ACCOUNT}' does not exist: QueueNotFound",
    )
    api.put("q-nonsense", action("work", "ThIsiSmYtOkeNdoyOusEe"))
    checks.says("nonsense for a signature", api.entry("q-nonsense"), "Failed", "neither a shared access signature nor")
    api.put("q-control", action("work", token, text="\u0001"))
    checks.says("what XML cannot hold", api.entry("q-control"), "Failed", "messageFormat Raw")
    checks.check("nothing else arrived", work.take(), [])

    # The error action of a failing job: the message names the job.
    failing = action("missing", KEY)
    failing["errorAction"] = action("other", KEY, text="it failed")
    api.put("q-error-action", failing)
    api.entry("q-error-action", count=2)
    texts = [xml.etree.ElementTree.fromstring(text).findtext("Message") for text in other.take()]
    checks.check("an error action", texts, ["it failed"])


def raw_by_setting(checks, api, azurite):
    queue = Queue(azurite, "by-setting")
    api.put("raw", action("by-setting", KEY, text="plain"))
    checks.says("a job that does not say its form", api.entry("raw"), "Completed")
    checks.check("its text", queue.take(), ["plain"])
    api.put("envelope", action("by-setting", KEY, text="wrapped", messageFormat="Envelope"))
    checks.says("a job that does", api.entry("envelope"), "Completed")
    checks.check("its envelope", ["<Message>wrapped</Message>" in text for text in queue.take()], [True])


def nowhere(checks, api):
    api.put("nowhere", action("work", KEY))
    checks.says(
        "an account that is not there", api.entry("nowhere"), "Failed",
        f"StorageQueue Action - The account '{ACCOUNT}' of queue 'work' could not be found: ",
    )
