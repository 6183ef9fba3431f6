# What people and CI run. Everything that is not in Cargo's hands is here.

CARGO ?= cargo
# Seconds that `make fuzz` gives to each target.
SECONDS ?= 60
# How often `make crash` kills the server and `make crash-store` the writer of a store, and `make power-cut` cuts its power.
KILLS ?= 500
# Which worlds `make simulate` makes: a range, or one seed to be told everything about it.
SEEDS ?= 0..1000
CUTS ?= 100

DENY_VERSION := 0.20.2
FUZZ_VERSION := 0.13.2

.PHONY: run test clients openapi services settings tools simulate crash crash-store power-cut check fmt bench fuzz clean

## Build, and start the server on 127.0.0.1:8080 with its data in ./kalends-data.
run:
	$(CARGO) build --release --locked
	target/release/kalends serve

## All tests, beside a PostgreSQL server of their own, the published clients, jobs against real
## services, and that everything outside the workspace still builds.
test: tools
	scripts/with-postgres $(CARGO) test --workspace --locked
	scripts/power_cut.py $(DURABLE_WRITER) 3
	$(CARGO) check --locked --manifest-path bench/Cargo.toml
	$(CARGO) check --locked --manifest-path fuzz/Cargo.toml
	$(MAKE) clients
	$(MAKE) openapi
	$(MAKE) services

## The published clients of the retired service against a server of this build.
clients:
	$(CARGO) build --locked
	clients/run

## Everything that the server's own description allows is asked of it; SEED and SECONDS_MAX say more.
openapi:
	$(CARGO) build --locked
	clients/openapi/run

## Jobs of every kind against real parts: queues, brokers, a token endpoint.
services:
	$(CARGO) build --locked
	services/run

# `cargo test` builds it.
DURABLE_WRITER = $(or $(CARGO_TARGET_DIR),target)/debug/examples/durable_writer

# What tests need beside Cargo: strace ends a process at a chosen system call, faketime shows it another
# time, openssl makes RSA keys, curl speaks HTTP/2 and TLS as clients do. Tests that miss one say that they were
# skipped.
tools:
	@command -v curl >/dev/null || scripts/install-package curl || true
	@command -v strace >/dev/null || scripts/install-package strace || true
	@command -v openssl >/dev/null || scripts/install-package openssl || true
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || scripts/install-package faketime || true

## A server that is killed KILLS times while jobs run, and a checker that compares what their target saw.
crash: tools
	KALENDS_KILLS=$(KILLS) $(CARGO) test --locked --package kalends --test it -- crash:: --nocapture

## The engine in worlds made of seeds: crashes, lost answers, wrong clocks. A broken promise names
## its seed, and SEEDS=that one repeats it with everything that happened.
simulate:
	$(CARGO) run --release --locked --package kalends-simulation --bin simulate -- $(SEEDS)

## A store that is killed KILLS times at random, and once at each of its system calls.
crash-store: tools
	$(CARGO) test --locked --package kalends-store --no-run
	KALENDS_KILLS=$(KILLS) KALENDS_STRIDE=1 \
		$(CARGO) test --locked --package kalends-store --test it -- sqlite::crash --nocapture

## A store whose power is cut CUTS times. Needs root and loop devices.
power-cut:
	$(CARGO) test --locked --package kalends-store --no-run
	scripts/power_cut.py $(DURABLE_WRITER) $(CUTS)

## Form: formatting, lints, the shape of the repository and the direction of dependencies,
## documentation, licences and duplicate versions.
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --locked --package kalends --test it tidy::
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked
	$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny --version $(DENY_VERSION)
	$(CARGO) fetch --locked --quiet
	$(CARGO) deny --offline check licenses bans sources

fmt:
	$(CARGO) fmt --all

## docs/settings.md anew, from the flags of `kalends serve`.
settings:
	KALENDS_WRITE_PAGES=1 $(CARGO) test --locked --package kalends --bin kalends config::settings_page

## Figures beside peers, as ratios; see bench/README.md.
bench:
	$(CARGO) build --release --locked
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin recurrence
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin jsonl
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin store
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin api -- 100000
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin engine -- burst
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin engine -- steady 1000 60
	bench/instructions.sh

## Every fuzz target for SECONDS each. cargo-fuzz wants a nightly feature of the stable compiler.
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
