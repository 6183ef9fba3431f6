"""Copies the only job of an SQLite store that no server uses: STORE PREFIX COUNT.

The copies differ in their names only and are disabled, so that none of them is due."""

import sqlite3
import sys

store, prefix, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = sqlite3.connect(store)


def columns(table, own):
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    return ", ".join(names), ", ".join(own.get(name, f"t.{name}") for name in names)


numbers = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)"
name = f"printf('{prefix}-%06d', n)"
(template,) = connection.execute("SELECT job FROM jobs").fetchone()
own = {"job": f"{template} + n", "name": name, "name_key": f"upper({name})"}
names, values = columns("jobs", own)
connection.execute(f"INSERT INTO jobs ({names}) {numbers} SELECT {values} FROM numbers, jobs t", (count,))
names, values = columns("state", {"job": f"{template} + n", "due": "NULL", "switched_on": "0"})
connection.execute(f"INSERT INTO state ({names}) {numbers} SELECT {values} FROM numbers, state t", (count,))
connection.execute("UPDATE collections SET jobs = jobs + ?", (count,))
connection.commit()
