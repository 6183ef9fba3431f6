#!/usr/bin/env bash
# Time of `kalends diff` of ten thousand jobs in one file, after one line changed. Needs
# `cargo build --release`; JOBS changes the number.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$PWD/${CARGO_TARGET_DIR:-target}/release/kalends
[[ ${CARGO_TARGET_DIR:-} = /* ]] && binary=$CARGO_TARGET_DIR/release/kalends
jobs=${JOBS:-10000}
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

{
	echo "collection: many"
	echo "jobs:"
	for ((n = 0; n < jobs; n++)); do
		printf '  job-%d:\n    description: Number %d\n    action: {type: Https, request: {uri: "https://example.org/%d", method: POST, body: "{}"}}\n    recurrence: {cron: "%d %d * * *", timeZone: Europe/Berlin}\n' \
			"$n" "$n" "$n" $((n % 60)) $((n % 24))
	done
} >"$work/many.yaml"

: >"$work/log"
KALENDS_STORE=sqlite:$work/kalends.db KALENDS_LISTEN=127.0.0.1:0 "$binary" serve 2>"$work/log" &
server=$!
until address=$(sed -n 's/^listening on \(http:\/\/.*\)$/\1/p' "$work/log") && [[ -n $address ]]; do
	kill -0 "$server"
	sleep 0.1
done
export KALENDS_SERVER=$address

seconds() {
	local start=$EPOCHREALTIME
	"$@" >"$work/output" || [[ $? = 1 ]]
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f s", b - a }'
}

echo "apply $jobs new jobs: $(seconds "$binary" apply -q -f "$work/many.yaml")"
echo "diff, nothing changed: $(seconds "$binary" diff -q -f "$work/many.yaml")"
sed -i 's/description: Number 17$/description: Seventeen/' "$work/many.yaml"
echo "diff, one line changed: $(seconds "$binary" diff -q -f "$work/many.yaml")"
grep '^[-+~]' "$work/output"
tail -n 1 "$work/output"
