#!/bin/sh
# Counts instructions per call of each case and contender with callgrind: unlike times they hardly depend
# on other load. Every case runs twice with different numbers of calls, so that the difference excludes
# the startup of the program.
#
# usage: bench/instructions.sh [PATTERN]    only lines of `recurrence --list` that match it
set -eu

cd "$(dirname "$0")"
cargo build --quiet --release --locked --bin recurrence
recurrence="${CARGO_TARGET_DIR:-target}/release/recurrence"

instructions() { # CASE CONTENDER CALLS
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$recurrence" --callgrind-case "$1" "$2" "$3" 2>&1 |
        awk '/Collected/ { print $NF }'
}

per_call() { # CASE CONTENDER FEW MANY
    few=$(instructions "$1" "$2" "$3")
    many=$(instructions "$1" "$2" "$4")
    echo "$1 $2 $(((many - few) / ($4 - $3)))"
}

"$recurrence" --list | grep -e "${1:-}" | while read -r name contender few many; do
    per_call "$name" "$contender" "$few" "$many"
done | awk '
    BEGIN {
        print "| instructions per call | kalends | by hand | cron | croner | rrule | kalends ÷ by hand |"
        print "|---|--:|--:|--:|--:|--:|--:|"
        columns = split("kalends by-hand cron croner rrule", contenders, " ")
    }
    function print_line() {
        printf "| %s ", name
        for (i = 1; i <= columns; i++)
            printf "| %s ", (contenders[i] in figures) ? figures[contenders[i]] : "–"
        if (("kalends" in figures) && ("by-hand" in figures))
            printf "| %.2f |\n", figures["kalends"] / figures["by-hand"]
        else
            print "| – |"
        fflush()
    }
    $1 != name {
        if (name != "") print_line()
        name = $1
        delete figures
    }
    { figures[$2] = $3 }
    END { if (name != "") print_line() }
'
