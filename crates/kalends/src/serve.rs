//! `kalends serve`: runs the API server and the scheduler.

mod access;
mod duration;
mod echo;
mod egress;
mod endpoints;
mod engine_thread;
mod hardening;
mod limits;
mod listener;
mod node;
mod oidc;
mod retention;
pub(crate) mod schedules;
mod secrets;
mod short_paths;
mod signing;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kalends_actions::certificate::PfxLimit;
use kalends_actions::{ActionExecutor, ExecutorSettings, Fetcher, NetworkExecutor, Signer};
use kalends_domain::{EgressMode, SecretHeaders};
use kalends_engine::{
    ClockSource, Engine, EngineMetrics, EngineSettings, EngineState, Nodes, Nudge, OnViolation,
    StoreClock,
};
use kalends_environment::{BufferedEntropy, Clock, SystemClock, SystemEntropy};
use kalends_metrics::Metrics;
use kalends_recurrence::Zone;
use kalends_server::{
    App, EchoTarget, EventSubscriptions, Health, Overview, PositionKey, SchedulerHealth,
    SchedulerProblem, ServerMetrics, Settings, TestRuns,
};
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::record::NodeId;
use kalends_store::sqlite::{SqliteSettings, SqliteStore, derived_key};
use kalends_store::{Retention, Store, StoreHealth};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use zeroize::Zeroizing;

use self::endpoints::Endpoints;
use self::engine_thread::EngineThread;
use crate::derived_keys;
use crate::log::LogSettings;
use crate::serve::limits::LimitSettings;
use crate::serve::listener::listen;
use crate::serve::retention::RetentionSettings;
use crate::serve::schedules::ScheduleSettings;
use crate::serve::secrets::SecretArguments;
pub(crate) use crate::serve::signing::SigningSettings;
use crate::serve::tls::TlsSettings;
use crate::store_location::{Database, StoreLocation, codec_with, create_directory_of};

/// Difference between the newest entry and the clock that is no reason for a warning.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Time for attempts in flight after a failure that ends the process: their results could not be
/// recorded any more.
const SHUTDOWN_TIME_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Interval between reads of the store's clock by a server without an engine.
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);

/// Run the API server and the scheduler
///
/// Every setting can be given as a flag, as an environment variable or in a TOML file; flags take
/// precedence over variables, and variables over the file. docs/settings.md lists all settings.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Settings file in TOML; its keys are the names of the flags
    #[arg(long, env = "KALENDS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the effective settings and where each comes from, and exit
    #[arg(long)]
    print_config: bool,

    /// Address and port to listen on, or a port of 127.0.0.1; port 0 selects a free port
    #[arg(long, env = "KALENDS_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = listen_address)]
    listen: SocketAddr,

    #[command(flatten)]
    echo: echo::EchoSettings,

    #[command(flatten)]
    location: StoreLocation,

    /// Serve the API but run no jobs
    #[arg(long, env = "KALENDS_HOLD", value_parser = clap::builder::FalseyValueParser::new())]
    hold: bool,

    #[command(flatten)]
    short_paths: short_paths::ShortPathSettings,

    #[command(flatten)]
    access: access::AccessArguments,

    #[command(flatten)]
    egress: egress::EgressArguments,

    #[command(flatten)]
    secrets: SecretArguments,

    #[command(flatten)]
    endpoints: Endpoints,

    #[command(flatten)]
    signing: SigningSettings,

    #[command(flatten)]
    tls: TlsSettings,

    #[command(flatten)]
    limits: LimitSettings,

    #[command(flatten)]
    schedules: ScheduleSettings,

    #[command(flatten)]
    retention: RetentionSettings,

    #[command(flatten)]
    log: LogSettings,
}

/// Parses `127.0.0.1:8080`, `localhost:8080` or `8080`.
fn listen_address(text: &str) -> anyhow::Result<SocketAddr> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    let address = match port.parse() {
        Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => text.parse(),
    };
    address.ok().context("must be a port, or an IP address and a port such as 0.0.0.0:8080")
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    arguments.log.install(Arc::new(SystemClock));
    hardening::disable_core_dumps();
    let engine_metrics = Arc::new(EngineMetrics::default());
    let tls = arguments.tls.read()?;
    let started = SystemClock.now();
    let node_id = node::new_id()?;
    let attempt_timeout = arguments.egress.attempt_timeout();
    let retention = Retention::from(&arguments.retention);
    let node =
        node::describe(node_id, &arguments.location, retention, attempt_timeout, &engine_metrics)?;
    let OpenedStore {
        store,
        engine_store,
        health,
        nodes,
        clock_source,
        nudges,
        signing_root,
        position_root,
    } = open_store(&arguments.location, arguments.secrets.headers()).await?;
    let clock: Arc<dyn Clock> = match &clock_source {
        ClockSource::Node => Arc::new(SystemClock),
        ClockSource::Store(clock) => Arc::clone(clock) as _,
    };
    let listener = listen(arguments.listen)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let own_egress = arguments.egress.settings(
        EgressMode::SingleUser,
        address,
        &arguments.location.store,
        None,
    )?;
    let fetcher = Fetcher::new(own_egress, Arc::new(SystemEntropy)).context("cannot set up TLS")?;
    let access = arguments
        .access
        .set_up(address.ip(), &arguments.location.store, &*store, (fetcher, clock.now().into()))
        .await?;
    let echo =
        arguments.echo.bind(arguments.listen, &access.control, arguments.secrets.headers())?;
    let echo_address = echo.as_ref().map(EchoTarget::address);
    let egress = arguments.egress.settings(
        access.default_egress_mode,
        address,
        &arguments.location.store,
        echo_address,
    )?;
    let egress_mode = egress.policy.mode;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        store = arguments.location.description()?,
        authentication = access.authentication,
        egress = egress_mode_name(egress_mode),
        echo = echo_address.map_or("off".to_owned(), |address| format!("http://{address}")),
        hold = arguments.hold,
        zone_data = Zone::data_version(),
        "starting"
    );
    hardening::warn_if_files_are_shared(&arguments.location)?;
    warn_if_clock_is_behind(&*store, &*health).await;
    let mut settings = Settings { egress: egress.policy.clone(), ..Settings::default() };
    settings.hosts = access.hosts;
    settings.trusted_proxies = access.trusted_proxies;
    settings.schedules = (&arguments.schedules).into();
    settings.plans = arguments.limits.plans();
    settings.open_runs_max = arguments.limits.open_runs_max();
    settings.secret_headers = arguments.secrets.headers();
    settings.default_group = arguments.short_paths.group();
    settings.echo = echo_address;
    settings.connections_per_client_max =
        arguments.limits.connections_per_client_max(access.default_egress_mode);
    let executor_settings = ExecutorSettings {
        egress,
        signer: Some(Signer::new(&signing_root, arguments.signing.key_versions()?)),
        services: arguments.endpoints.into(),
        secret_headers: settings.secret_headers.clone(),
    };
    // Has connections of its own: runs of the engine must not wait for test runs.
    let new_executor = || {
        let (settings, clock) = (executor_settings.clone(), Arc::clone(&clock));
        let executor = NetworkExecutor::new(settings, clock, Arc::new(BufferedEntropy::default()));
        executor.context("cannot set up TLS")
    };
    let tester: Option<Arc<dyn ActionExecutor>> = match arguments.hold {
        true => None,
        false => Some(Arc::new(new_executor()?)),
    };
    let engine = match arguments.hold {
        true => {
            if let ClockSource::Store(clock) = clock_source {
                tokio::spawn(follow_clock(Arc::clone(&store), clock));
            }
            None
        }
        false => {
            let executor = new_executor()?;
            let settings = EngineSettings {
                schedules: settings.schedules.clone(),
                nodes,
                clock: clock_source,
                metrics: Arc::clone(&engine_metrics),
                on_violation: on_violation(),
                open_runs_max: settings.open_runs_max,
                attempt_timeout,
                retention,
                ..EngineSettings::default()
            };
            Some(start_engine(engine_store, executor, node_id, settings)?)
        }
    };
    let running = engine.as_ref().map(EngineThread::engine);
    let nudge = running.map(Engine::nudge).unwrap_or_default();
    if let Some(nudges) = nudges {
        tokio::spawn(forward_nudges(nudges, nudge.clone()));
    }
    let scheduler = running.map_or(SchedulerHealth::OnHold, scheduler_health);
    let health = Arc::new(Health::new(health, Arc::clone(&clock), scheduler));
    let others: Vec<Arc<dyn Metrics>> = vec![engine_metrics, health.clone()];
    let app = App {
        store,
        // Edits and due times must follow the same clock.
        clock,
        entropy: Arc::new(SystemEntropy),
        id_entropy: Arc::new(BufferedEntropy::default()),
        settings: Arc::new(settings),
        on_edit: Arc::new(move || nudge.nudge()),
        position_key: PositionKey::new(&position_root),
        events: EventSubscriptions::new(&access.control),
        test_runs: TestRuns::new(tester, attempt_timeout, &access.control),
        access: Arc::new(access.control),
        metrics: Arc::new(ServerMetrics::new(others, started)),
        health: Arc::clone(&health),
        certificates: PfxLimit::default(),
        overview: Overview::default(),
        node,
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tls::reload_on_sighup(tls.clone())?;
    if let Some(echo) = echo {
        // Runs until the process exits: attempts in flight may need it after the API has stopped.
        tokio::spawn(echo.serve());
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    announce(scheme, address);
    arguments.egress.log_exceptions(egress_mode);
    let engine_ended = running.map(Engine::ended);
    let (failed, failure) = oneshot::channel();
    let stop = async move {
        let failure = tokio::select! {
            _ = terminate.recv() => return,
            _ = interrupt.recv() => return,
            error = health.watch() => anyhow!(error).context("cannot write to the store any more"),
            () = completed(engine_ended) => anyhow!("the scheduler stopped unexpectedly"),
        };
        tracing::error!(error = format!("{failure:#}"), "shutting down after a failure");
        // The receiver lives until the server has stopped.
        let _ = failed.send(failure);
    };
    kalends_server::serve(listener, app, tls, stop).await?;
    let failure = failure.await.ok();
    tracing::info!("API stopped, waiting for attempts in flight");
    if let Some(engine) = engine {
        let grace = if failure.is_some() { SHUTDOWN_TIME_AFTER_FAILURE } else { Duration::MAX };
        // Attempts that did not finish are made again after the restart.
        let _ = timeout(grace, engine.stop()).await;
    }
    tracing::info!("stopped");
    failure.map_or(Ok(()), Err)
}

fn egress_mode_name(mode: EgressMode) -> &'static str {
    match mode {
        EgressMode::SingleUser => "single-user",
        EgressMode::Guarded => "guarded",
        EgressMode::Listed => "listed",
    }
}

/// Warns if the store has entries of the future: the clock was set back, or is not set yet.
async fn warn_if_clock_is_behind(store: &dyn Store, health: &dyn StoreHealth) {
    if let (Ok(now), Ok(Some(newest))) = (store.now().await, health.newest_entry().await)
        && newest > now.saturating_add(CLOCK_TOLERANCE)
    {
        tracing::warn!(%newest, %now, "newest history entry lies in the future; check the clock");
    }
}

/// Waits for a future; forever if there is none.
async fn completed(future: Option<impl Future<Output = ()>>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Reports the state of the engine to readiness checks.
fn scheduler_health(engine: &Engine) -> SchedulerHealth {
    let status = engine.status();
    SchedulerHealth::Running(Box::new(move || match status.state() {
        EngineState::Running => None,
        EngineState::Failing { lasting, error } => {
            let message = format!("the scheduler cannot use the store: {error}");
            Some(SchedulerProblem { lasting, message })
        }
        EngineState::Stalled { lasting } => {
            let message = "the store does not respond to the scheduler".into();
            Some(SchedulerProblem { lasting, message })
        }
    }))
}

/// Debug builds run in tests, where a violated invariant must fail the test.
fn on_violation() -> OnViolation {
    if cfg!(debug_assertions) { OnViolation::Abort } else { OnViolation::Repair }
}

fn start_engine(
    store: Arc<dyn Store>,
    executor: NetworkExecutor,
    node: NodeId,
    settings: EngineSettings,
) -> anyhow::Result<EngineThread> {
    let (clock, executor) = (Arc::new(SystemClock), Arc::new(executor));
    let started =
        EngineThread::start(move || Engine::start(store, clock, executor, node, settings));
    started.context("cannot start a thread for the engine")
}

/// Synchronizes the clock of a server that runs no engine, which does it otherwise.
async fn follow_clock(store: Arc<dyn Store>, clock: Arc<StoreClock>) {
    loop {
        clock.sleep(CLOCK_INTERVAL).await;
        // Without the store the last estimate is the best.
        drop(clock.synchronize(&*store).await);
    }
}

/// Prints the line that scripts and tests wait for.
fn announce(scheme: &str, address: SocketAddr) {
    use std::io::Write as _;
    // A closed standard error must not stop the server.
    let _ = writeln!(std::io::stderr(), "listening on {scheme}://{address}");
}

struct OpenedStore {
    store: Arc<dyn Store>,
    health: Arc<dyn StoreHealth>,
    /// The same store, with connections that calls of the API cannot take.
    engine_store: Arc<dyn Store>,
    nodes: Nodes,
    /// The clock of all nodes. It has been read from the database before the server answers requests.
    clock_source: ClockSource,
    /// Notifications of edits by other nodes; `None` for SQLite.
    nudges: Option<watch::Receiver<()>>,
    /// Key from which the signing keys of collections are derived.
    signing_root: Zeroizing<[u8; 32]>,
    /// Key from which the key of cursors and event ids is derived.
    position_root: Zeroizing<[u8; 32]>,
}

/// Wakes the engine when another node edits a job.
async fn forward_nudges(mut nudges: watch::Receiver<()>, nudge: Nudge) {
    while nudges.changed().await.is_ok() {
        nudge.nudge();
    }
}

async fn open_store(
    location: &StoreLocation,
    secret_headers: SecretHeaders,
) -> anyhow::Result<OpenedStore> {
    let database = location.database()?;
    if let Database::Sqlite(path) = database {
        create_directory_of(path)?;
    }
    let key = location.key_or_new()?;
    let codec = codec_with(key, secret_headers);
    match database {
        Database::Postgres(url) => {
            let connected = PostgresStore::connect(url, PostgresSettings::default(), codec).await;
            let store = connected.context("cannot open the database")?;
            let nudges = Some(store.change_notifications());
            let signing_root = store.derived_key(derived_keys::SIGNING).await?;
            let position_root = store.derived_key(derived_keys::POSITIONS).await?;
            let store = Arc::new(store);
            let engine_store = Arc::new(store.for_engine());
            let clock = StoreClock::synchronized(&*engine_store, Arc::new(SystemClock)).await;
            let clock = clock.context("cannot read the clock of the database")?;
            Ok(OpenedStore {
                health: store.clone(),
                store,
                engine_store,
                nodes: Nodes::Multiple,
                clock_source: ClockSource::Store(Arc::new(clock)),
                nudges,
                signing_root,
                position_root,
            })
        }
        Database::Sqlite(path) => {
            let (settings, clock) = (SqliteSettings::default(), Arc::new(SystemClock));
            let opened = SqliteStore::open(path, settings, codec.clone(), clock);
            let store = opened.with_context(|| format!("cannot open {}", path.display()))?;
            let signing_root = derived_key(path, &codec, derived_keys::SIGNING)?;
            let position_root = derived_key(path, &codec, derived_keys::POSITIONS)?;
            let store = Arc::new(store);
            Ok(OpenedStore {
                health: store.clone(),
                engine_store: store.clone(),
                store,
                // The store locks the file: no other process uses it.
                nodes: Nodes::Single,
                clock_source: ClockSource::Node,
                nudges: None,
                signing_root,
                position_root,
            })
        }
    }
}
