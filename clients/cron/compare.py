"""Compares `kalends next --jsonl` with croniter.

In UTC both must agree on every expression. Around a DST transition the rules differ by decision: croniter
moves a time in a gap to the end of the gap and repeats fixed times in an overlap. Outside the hours of the
transition both must agree.
"""

import datetime
import json
import random
import subprocess
import sys
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter

HOUR = datetime.timedelta(hours=1)
ZONES = [
    "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "America/Havana",
    "America/Santiago", "Australia/Sydney", "Australia/Lord_Howe", "Asia/Jerusalem", "Pacific/Auckland",
]
MINUTES = ["0", "30", "15,45", "*/20", "59", "*"]
HOURS = ["*", "*/2", "0", "1", "2", "3", "1-3", "0,2", "23", "1-5/2"]


def utc(year):
    return datetime.datetime(year, 1, 1, tzinfo=datetime.timezone.utc)


def text_of(at):
    return at.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def item(self, low, high):
        first = self.random.randint(low, high)
        last = self.random.randint(first, high)
        # croniter reads 5-5 as the whole range.
        if first == last or self.random.random() < 0.5:
            return str(first)
        step = f"/{self.random.randint(1, last - first)}" if self.random.random() < 0.4 else ""
        return f"{first}-{last}{step}"

    def field(self, low, high, special=None):
        kind = self.random.random()
        if kind < 0.4:
            return "*"
        if kind < 0.5:
            return f"*/{self.random.randint(2, (high - low) // 2)}"
        if special and kind < 0.6:
            return special
        return ",".join(self.item(low, high) for _ in range(self.random.choice([1, 1, 2, 3])))

    def expression(self):
        fields = [self.field(0, 59), self.field(0, 23), self.field(1, 31, "L"), self.field(1, 12), self.field(0, 6)]
        return " ".join(fields)

    def time(self):
        return utc(2026) + datetime.timedelta(minutes=self.random.randint(0, 4 * 525_600))


def ours(binary, questions):
    """Occurrences for (expression, zone, after, limit), or None for an expression that never fires."""
    lines = []
    for expression, zone, after, limit in questions:
        recurrence = {"cron": expression, "timeZone": zone}
        at = text_of(after)
        lines.append({"startTime": at, "createdAt": at, "recurrence": recurrence, "after": at, "limit": limit})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    output = subprocess.run([binary, "next", "--jsonl"], input=text, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in output.stdout.splitlines()]
    assert len(answers) == len(questions), output.stderr
    return [answer.get("occurrences") for answer in answers]


def theirs(expression, zone, after, until=None, limit=None):
    # The option names the rule of Vixie cron for day fields that begin with an asterisk.
    iterator = croniter(expression, after.astimezone(ZoneInfo(zone)), implement_cron_bug=True)
    found = []
    while limit is None or len(found) < limit:
        at = iterator.get_next(datetime.datetime).astimezone(datetime.timezone.utc)
        if until is not None and at > until:
            break
        found.append(text_of(at))
    return found


def transitions(zone, first, last):
    at, found = utc(first), []
    offset = at.astimezone(ZoneInfo(zone)).utcoffset()
    while at < utc(last):
        at += HOUR / 2
        now = at.astimezone(ZoneInfo(zone)).utcoffset()
        if now != offset:
            found.append(at)
            offset = now
    return found


def compare_in_utc(binary, generator, number):
    questions = [(generator.expression(), "UTC", generator.time(), 10) for _ in range(number)]
    failed = 0
    for question, found in zip(questions, ours(binary, questions)):
        try:
            expected = theirs(*question[:3], limit=question[3])
        except CroniterBadDateError:
            # It gives up on a day of the month that never comes, even if the day of the week matches.
            continue
        if found != expected:
            failed += 1
            print(f"{question}: {found} instead of {expected}")
    return number - failed, failed


def compare_transitions(binary):
    passed = failed = 0
    for zone in ZONES:
        for at in transitions(zone, 2026, 2028):
            questions = [
                (f"{minute} {hour} * * *", zone, at - 5 * HOUR, 600) for minute in MINUTES for hour in HOURS
            ]
            for (expression, *_), found in zip(questions, ours(binary, questions)):
                expected = theirs(expression, zone, at - 5 * HOUR, until=at + 4 * HOUR)
                near = (text_of(at - HOUR), text_of(at + HOUR))
                outside = [
                    [time for time in times if time <= text_of(at + 4 * HOUR) and not near[0] <= time <= near[1]]
                    for times in (found, expected)
                ]
                if outside[0] == outside[1]:
                    passed += 1
                else:
                    failed += 1
                    print(f"{expression} {zone} {at}: {outside[0]} instead of {outside[1]}")
    return passed, failed


# Schedules of the samples in crates/cli/tests/data/import, by the name of the imported job, and whether a day
# field that begins with an asterisk is unrestricted (cron) or not (Kubernetes).
SAMPLES = {
    ("crontab", "user.crontab", True): {
        "nightly": ("30 2 * * *", "Europe/Berlin"),
        "poll": ("*/15 8-17 * * 1-5", "Europe/Berlin"),
        "invoices": ("0 6 1,15 * fri", "Europe/Berlin"),
        "odd-mondays": ("0 4 */2 * mon", "Europe/Berlin"),
        "cleanup": ("0 0 * * 0", "Europe/Berlin"),
        "leap-day": ("5 0 29 2 *", "UTC"),
        "refresh": ("0 */6 * * *", "UTC"),
    },
    ("kubernetes", "cronjobs.yaml", False): {
        "nightly-report": ("30 2 * * *", "Europe/Berlin"),
        "cache-refresh": ("*/10 * * * *", "UTC"),
        "odd-days-or-mondays": ("0 4 */2 * 1", "UTC"),
        "monthly": ("0 9 1 * *", "America/New_York"),
    },
}


def imported(binary, source, file):
    path = f"crates/cli/tests/data/import/{file}"
    command = [binary, "import", source, path, "--url-template", "https://run.example.com/{name}", "--json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    return {job["job"].split("/")[1]: job for job in json.loads(output.stdout)["jobs"]}


def compare_imports(binary):
    """The next ten runs of imported jobs, by the rules of the source and by ours, are those of croniter."""
    passed = failed = 0
    for (source, file, is_vixie), schedules in SAMPLES.items():
        before = datetime.datetime.now(datetime.timezone.utc)
        jobs = imported(binary, source, file)
        after = datetime.datetime.now(datetime.timezone.utc)
        for name, (expression, zone) in schedules.items():
            expected = []
            for now in (before, after):
                iterator = croniter(expression, now.astimezone(ZoneInfo(zone)), implement_cron_bug=is_vixie)
                expected.append([iterator.get_next(datetime.datetime) for _ in range(10)])
            if expected[0][0].utcoffset() != expected[0][-1].utcoffset() and expression.startswith("30 2"):
                # The rules differ in the night of a DST transition.
                continue
            expected = [[text_of(at) for at in times] for times in expected]
            found = (jobs[name]["sourceRuns"], jobs[name]["runs"])
            if all(times in expected for times in found):
                passed += 1
            else:
                failed += 1
                print(f"{source} {name}: {found} instead of {expected}")
    return passed, failed


def main():
    binary, seed = sys.argv[1], int(sys.argv[2])
    results = [
        compare_in_utc(binary, Generator(seed), 3_000),
        compare_transitions(binary),
        compare_imports(binary),
    ]
    passed, failed = map(sum, zip(*results))
    print(f"croniter: {passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
