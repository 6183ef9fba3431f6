# Targets for developers and CI that go beyond Cargo.

CARGO ?= cargo
# Seconds per target of `make fuzz`.
SECONDS ?= 60
# Number of kills of `make crash` and `make crash-store`.
KILLS ?= 500
# Seeds of `make simulate`: a range, or one seed for a full trace.
SEEDS ?= 0..1000
# The store of `make simulate`: memory or sqlite.
STORE ?= memory
# Number of simulated power failures of `make power-cut`.
CUTS ?= 100

FUZZ_VERSION := 0.13.2
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
RELEASE := $(TARGET)/release/kalends

.PHONY: run test clients cron openapi services console console-scale screenshots settings tools simulate crash crash-store power-cut check fmt bench bench-peers bench-growth bench-api bench-burst-api bench-takeover bench-churn bench-console bench-build bench-libraries bench-neighbours guard fuzz clean nodes

## Build and start the server on 127.0.0.1:8080 with its data in ./kalends-data.
run:
	$(CARGO) build --release --locked --package kalends
	$(RELEASE) serve

## Run all tests: the workspace with a temporary PostgreSQL server, simulated power failures, the
## published clients, real services, the web console and instruction counts. Also checks that bench/
## and fuzz/ build; in the folder of the workspace, because they share most dependencies with it.
test: tools
	scripts/with-postgres $(CARGO) test --workspace --locked --no-fail-fast
	scripts/power_cut.py $(DURABLE_WRITER) 3
	$(CARGO) check --locked --target-dir $(TARGET) --manifest-path bench/Cargo.toml
	$(CARGO) check --locked --target-dir $(TARGET) --manifest-path fuzz/Cargo.toml
	$(MAKE) clients
	$(MAKE) cron
	$(MAKE) openapi
	$(MAKE) services
	$(MAKE) console
	$(MAKE) guard

## Compare instruction counts of the release build with the committed ones; see bench/guard/run.
guard:
	@command -v valgrind >/dev/null || scripts/install-package valgrind
	$(CARGO) build --release --locked --package kalends
	bench/guard/run

## Test the published clients of the retired service against this build.
clients:
	$(CARGO) build --locked
	clients/run

## Compare cron expressions with a Python library.
cron:
	$(CARGO) build --locked
	clients/cron/run

## Test this build with requests generated from its OpenAPI document; see SEED and SECONDS_MAX in
## clients/openapi/run.
openapi:
	$(CARGO) build --locked
	clients/openapi/run

## Test jobs of every type against real services: queues, brokers, a token endpoint.
services:
	$(CARGO) build --locked
	services/run

## Test the web console in headless Chromium; see console-tests/README.md.
console:
	$(CARGO) build --locked
	console-tests/run

## Measure the web console with JOBS jobs (default 100,000), with a release build.
console-scale:
	$(CARGO) build --release --locked --package kalends
	KALENDS=$(RELEASE) console-tests/run scale.mjs

## Take pictures of every screen of the web console: target/console-tests/screenshots and docs/images.
## Takes ten minutes: the clock of the server steps through a day.
screenshots: tools
	$(CARGO) build --locked
	@command -v pngquant >/dev/null || scripts/install-package pngquant
	@fc-list | grep -q 'Inter' || scripts/install-package fonts-inter
	console-tests/run screenshots.mjs

# Built by `cargo test`.
DURABLE_WRITER = $(TARGET)/debug/examples/durable_writer

# Tools that tests need in addition to Cargo: strace kills a process at a chosen system call, faketime
# overrides its clock, openssl generates RSA keys, curl is an independent HTTP/2 and TLS client. Tests
# without their tool print SKIPPED. zsh loads its completions.
tools:
	@command -v curl >/dev/null || scripts/install-package curl || true
	@command -v strace >/dev/null || scripts/install-package strace || true
	@command -v openssl >/dev/null || scripts/install-package openssl || true
	@command -v zsh >/dev/null || scripts/install-package zsh
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || scripts/install-package faketime || true

## Kill a server KILLS times while jobs run and compare its history with the requests of the target.
crash: tools
	KALENDS_KILLS=$(KILLS) $(CARGO) test --locked --package kalends --test it -- crash:: --nocapture

## Edit jobs through three nodes for MINUTES minutes while responses of their database are delayed.
MINUTES ?= 10
nodes: tools
	KALENDS_SECONDS=$$(($(MINUTES) * 60)) scripts/with-postgres $(CARGO) test --locked --package kalends --test it -- \
		edits_on_several_nodes:: --nocapture

## Run the engine in seeded simulations with crashes, lost responses and wrong clocks. A failure names
## its seed; SEEDS=that seed repeats it with a full trace.
simulate:
	$(CARGO) run --release --locked --package kalends-simulation --bin simulate -- --store $(STORE) $(SEEDS)

## Kill the writer of a store KILLS times at random, and once at each of its system calls.
crash-store: tools
	$(CARGO) test --locked --package kalends-store --no-run
	KALENDS_KILLS=$(KILLS) KALENDS_STRIDE=1 \
		$(CARGO) test --locked --package kalends-store --test it -- sqlite::crash --nocapture

## Simulate CUTS power failures of a store. Needs root and loop devices.
power-cut:
	$(CARGO) test --locked --package kalends-store --no-run
	scripts/power_cut.py $(DURABLE_WRITER) $(CUTS)

## Check formatting, lock files, lints, repository layout, dependency direction, documentation, licences
## and duplicate versions.
check:
	$(CARGO) fmt --all --check
	for folder in bench fuzz; do $(CARGO) metadata --locked --format-version 1 --manifest-path $$folder/Cargo.toml >/dev/null || exit 1; done
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked --test it -- tidy:: dependencies::
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked

fmt:
	$(CARGO) fmt --all

## Generate docs/settings.md from the flags of `kalends serve`.
settings:
	KALENDS_WRITE_PAGES=1 $(CARGO) test --locked --package kalends --bin kalends config::settings_page

## Run the benchmarks; see bench/README.md. QUICK=1 runs only the comparison with other schedulers, the
## growth, the API, bursts, take-over and churn, with fewer jobs, in about ten minutes.
bench: $(if $(QUICK),,bench-libraries) bench-api bench-burst-api bench-takeover bench-churn bench-growth bench-peers
	bench/goals $(if $(QUICK),--quick) $(RELEASE)

BENCH_RUN = $(CARGO) run --release --locked --manifest-path bench/Cargo.toml
# The comparisons with PostgreSQL wait for the disk at each commit.
DURABLE_POSTGRES = scripts/with-postgres --durable
bench-peers bench-growth bench-api bench-libraries: export KALENDS = $(RELEASE)
PEERS = $(TARGET)/peers

## Compare Kalends with other schedulers in one run; installs them below target/peers.
bench-peers: bench-build
	bench/peers/install $(PEERS)
	PEERS=$(PEERS) $(DURABLE_POSTGRES) $(BENCH_RUN) --bin peers -- $(if $(QUICK),--quick)

## Measure the cost of a run, start-up and memory with up to ten million jobs.
bench-growth: bench-build
	$(DURABLE_POSTGRES) $(BENCH_RUN) --bin growth -- $(if $(QUICK),--quick)

## Measure the API at 64 connections on both stores.
bench-api: bench-build
	$(BENCH_RUN) --bin api -- $(if $(QUICK),10000,100000)
	$(DURABLE_POSTGRES) $(BENCH_RUN) --bin api -- --postgres $(if $(QUICK),5000,20000)

## Measure the API, and the order of runs, while 10,000 and 50,000 runs are due.
bench-burst-api: bench-build
	bench/burst_api $(if $(QUICK),--quick) $(RELEASE)

## Kill nodes of a cluster on PostgreSQL and measure how soon others run their jobs.
bench-takeover: bench-build
	$(DURABLE_POSTGRES) bench/takeover $(if $(QUICK),--quick) $(RELEASE)

## Measure size, memory and cost of a run over a day of runs and edits, in minutes.
bench-churn: bench-build
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || scripts/install-package faketime
	bench/churn $(if $(QUICK),--quick) $(RELEASE)

## Measure the pages of the web console with 100,000 and a million jobs on both stores.
bench-console: bench-build
	bench/console $(RELEASE)
	$(DURABLE_POSTGRES) bench/console --postgres $(RELEASE)

bench-build:
	$(CARGO) build --release --locked --package kalends

bench-libraries: bench-build
	$(BENCH_RUN) --bin recurrence
	$(BENCH_RUN) --bin jsonl
	$(BENCH_RUN) --bin store
	$(BENCH_RUN) --bin engine -- burst
	$(BENCH_RUN) --bin engine -- steady 1000 60 1000000
	$(BENCH_RUN) --bin engine -- neighbours 100000 500 30 2
	bench/definitions.sh
	bench/instructions.sh
	bench/console $(RELEASE)

## Measure healthy jobs beside NEIGHBOURS runs that wait for a target that never responds; see
## bench/README.md.
NEIGHBOURS ?= 100000
bench-neighbours:
	$(CARGO) build --release --locked --package kalends
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin engine -- neighbours $(NEIGHBOURS) 500 30 2

## Run every fuzz target for SECONDS each. RUSTC_BOOTSTRAP enables the nightly feature that cargo-fuzz
## needs.
fuzz:
	$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz --version $(FUZZ_VERSION)
	@for target in json job rule egress service_error; do \
		mkdir -p fuzz/corpus/$$target; \
		RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=$(SECONDS) -timeout=5 -rss_limit_mb=512 -dict=fuzz/definition.dict || exit 1; \
	done

clean:
	$(CARGO) clean
	rm -rf bench/target fuzz/target
