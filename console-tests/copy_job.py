"""Copies the only job of an SQLite store that no server uses: STORE PREFIX COUNT [DISABLED].

The copies differ in their names only. They are disabled, so that none of them is due; with DISABLED, one of this
number is, and the others are due with the job."""

import sqlite3
import sys

store, prefix, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
disabled = int(sys.argv[4]) if len(sys.argv) > 4 else 1
connection = sqlite3.connect(store)
(template,) = connection.execute("SELECT job FROM jobs").fetchone()
numbers = f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"


def copy(table, own, condition="true"):
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    values = ", ".join({"job": f"{template} + n", **own}.get(name, f"t.{name}") for name in names)
    connection.execute(f"INSERT INTO {table} ({', '.join(names)}) {numbers} SELECT {values} FROM numbers, {table} t WHERE {condition}")


name = f"printf('{prefix}-%06d', n)"
is_disabled = f"n % {disabled} = 0"
copy("jobs", {"name": name, "name_key": f"upper({name})"})
copy("state", {"due": f"CASE WHEN {is_disabled} THEN NULL ELSE t.due END", "switched_on": f"NOT ({is_disabled})"})
copy("due", {}, f"NOT ({is_disabled})")
connection.execute("UPDATE collections SET jobs = jobs + ?", (count,))
connection.commit()
