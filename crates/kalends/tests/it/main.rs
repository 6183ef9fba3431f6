//! Tests of the binary and of the repository layout.

#![cfg(test)] // clippy lets tests unwrap; helpers of an integration test are tests too

mod access;
mod api;
mod audit;
mod authorization;
mod behind_a_proxy;
mod clock_changes;
mod clocked_server;
mod config;
mod conflicts_and_outages;
mod connection;
mod crash;
mod denial_of_service;
mod edits;
mod events;
mod forwarder;
mod hanging_target;
mod hardening;
mod health;
mod hostile_targets;
mod http2_frames;
mod http_framing;
mod identity_provider;
mod invalid_requests;
mod job_reference;
mod language;
mod next;
mod observability;
mod occurrences;
mod oidc;
mod postgres;
mod rate_limits;
mod recorded_exchange;
mod rehearse;
mod replay;
mod runs;
mod several_nodes;
mod small_disk;
mod store_commands;
mod stored_secrets;
mod target;
mod test_server;
mod tidy;
mod tls_and_http2;
mod tokens;
