//! `kalends serve`: the server.

mod access;
mod egress;
mod encryption;
mod endpoints;
mod engine_thread;
mod limits;
mod oidc;
mod signing;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kalends_actions::{ExecutorSettings, Fetcher, NetworkExecutor, Signer};
use kalends_domain::EgressMode;
use kalends_engine::{
    ClockSource, Engine, EngineMetrics, EngineSettings, Nodes, Nudge, OnViolation,
};
use kalends_environment::{Clock as _, Entropy, SystemClock, SystemEntropy};
use kalends_metrics::Metrics;
use kalends_server::{App, Events, PageKey, ServerFigures, Settings};
use kalends_store::Store;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::record::NodeId;
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use zeroize::Zeroizing;

use self::endpoints::Endpoints;
use self::engine_thread::EngineThread;
use crate::location::{Kept, Location, codec, make_folder};
use crate::log::LogSettings;
use crate::serve::encryption::Encryption;
use crate::serve::limits::LimitSettings;
pub(crate) use crate::serve::signing::SigningSettings;

/// What the keys of signatures are derived for.
pub(crate) const SIGNING: &str = "webhook signatures";

/// Run the server.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A file of settings in TOML; its keys are the names of these flags, see docs/settings.md
    #[arg(long, env = "KALENDS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Show the settings that hold and where they come from, and start nothing
    #[arg(long)]
    print_config: bool,

    /// Where to listen; port 0 takes a free one
    #[arg(long, env = "KALENDS_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    #[command(flatten)]
    location: Location,

    /// How long after its creation a job without a start runs for the first time, such as PT20S
    #[arg(long, env = "KALENDS_START_DELAY", value_name = "DURATION", default_value = "PT0S", value_parser = duration)]
    start_delay: Duration,

    /// Store and answer, but run no job
    #[arg(long, env = "KALENDS_HOLD", value_parser = clap::builder::FalseyValueParser::new())]
    hold: bool,

    #[command(flatten)]
    access: access::Access,

    #[command(flatten)]
    egress: egress::EgressArguments,

    #[command(flatten)]
    endpoints: Endpoints,

    #[command(flatten)]
    signing: SigningSettings,

    #[command(flatten)]
    encryption: Encryption,

    #[command(flatten)]
    limits: LimitSettings,

    #[command(flatten)]
    log: LogSettings,
}

fn duration(text: &str) -> Result<Duration, String> {
    kalends_wire::parse_duration(text).ok_or_else(|| "expected a duration such as PT20S".to_owned())
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    arguments.log.begin(Arc::new(SystemClock));
    let tls = arguments.encryption.read()?;
    let engine_metrics = Arc::new(EngineMetrics::default());
    let others: Vec<Arc<dyn Metrics>> = vec![engine_metrics.clone()];
    let figures = ServerFigures::new(others, SystemClock.now());
    let Opened { store, nodes, nudges, signing_root } = open(&arguments.location).await?;
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let own =
        arguments.egress.settings(EgressMode::SingleUser, address, &arguments.location.store)?;
    let fetcher = Fetcher::new(own, Arc::new(SystemEntropy)).context("cannot set up TLS")?;
    let granted =
        arguments.access.gate(address.ip(), &arguments.location.store, &*store, fetcher).await?;
    let egress = arguments.egress.settings(granted.egress, address, &arguments.location.store)?;
    let egress_mode = egress.policy.mode;
    let mut settings = Settings { egress: egress.policy.clone(), ..Settings::default() };
    settings.hosts = granted.hosts;
    settings.schedules.start_delay = arguments.start_delay;
    settings.plans = arguments.limits.plans();
    settings.connections_per_client_max =
        arguments.limits.connections_per_client_max(granted.egress);
    let performing = ExecutorSettings {
        egress,
        signer: Some(Signer::new(&signing_root, arguments.signing.epochs()?)),
        services: arguments.endpoints.into(),
        ..ExecutorSettings::default()
    };
    let engine = match arguments.hold {
        true => None,
        false => {
            let store = Arc::clone(&store);
            Some(start_engine(store, nodes, &settings, performing, engine_metrics)?)
        }
    };
    let running = engine.as_ref().map(EngineThread::engine);
    let nudge = running.map(Engine::nudge).unwrap_or_default();
    if let Some(nudges) = nudges {
        tokio::spawn(pass_on(nudges, nudge.clone()));
    }
    let app = App {
        store,
        // Edits are decided by the clock that decides when jobs are due.
        clock: running.map_or_else(|| Arc::new(SystemClock) as _, Engine::clock),
        entropy: Arc::new(SystemEntropy),
        settings: Arc::new(settings),
        changed: Arc::new(move || nudge.nudge()),
        page_key: PageKey::new(&SystemEntropy)?,
        gate: Arc::new(granted.gate),
        figures: Arc::new(figures),
        events: Events::default(),
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    encryption::read_on_signal(tls.clone())?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    announce(scheme, address);
    arguments.egress.announce(egress_mode);
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    kalends_server::serve(listener, app, tls, stop).await?;
    tracing::info!("all requests are answered; attempts under way are waited for");
    if let Some(engine) = engine {
        engine.stop().await;
    }
    tracing::info!("stopped");
    Ok(())
}

fn start_engine(
    store: Arc<dyn Store>,
    nodes: Nodes,
    settings: &Settings,
    performing: ExecutorSettings,
    metrics: Arc<EngineMetrics>,
) -> anyhow::Result<EngineThread> {
    let mut node = [0; 8];
    SystemEntropy.fill(&mut node)?;
    let executor = NetworkExecutor::new(performing, Arc::new(SystemClock), Arc::new(SystemEntropy));
    let executor = executor.context("cannot set up TLS")?;
    let schedules = settings.schedules.clone();
    // What many nodes share has the clock that all of them go by.
    let clock = match nodes {
        Nodes::Multiple => ClockSource::Store,
        Nodes::Single => ClockSource::Node,
    };
    let on_violation = if cfg!(debug_assertions) {
        // Tests run what is built for them: none of them may pass over it.
        OnViolation::Abort
    } else {
        OnViolation::Repair
    };
    let settings = EngineSettings {
        schedules,
        nodes,
        clock,
        metrics,
        on_violation,
        ..EngineSettings::default()
    };
    let node = NodeId(u64::from_le_bytes(node));
    let (clock, executor) = (Arc::new(SystemClock), Arc::new(executor));
    let started =
        EngineThread::start(move || Engine::start(store, clock, executor, node, settings));
    started.context("cannot start a thread for the engine")
}

/// The one line that others wait for.
fn announce(scheme: &str, address: SocketAddr) {
    use std::io::Write as _;
    // A server whose standard error is closed still serves.
    let _ = writeln!(std::io::stderr(), "listening on {scheme}://{address}");
}

/// A store, whether others may work on it, and what tells of their edits.
struct Opened {
    store: Arc<dyn Store>,
    nodes: Nodes,
    nudges: Option<watch::Receiver<()>>,
    /// What keys of signatures follow from.
    signing_root: Zeroizing<[u8; 32]>,
}

/// Edits by other nodes are looked at as soon as one's own.
async fn pass_on(mut nudges: watch::Receiver<()>, nudge: Nudge) {
    while nudges.changed().await.is_ok() {
        nudge.nudge();
    }
}

async fn open(location: &Location) -> anyhow::Result<Opened> {
    let kept = location.kept()?;
    if let Kept::File(path) = kept {
        make_folder(path)?;
    }
    let key = location.key_or_new()?;
    let signing_root = key.derive(SIGNING);
    let codec = codec(key);
    match kept {
        Kept::Database(url) => {
            let connected = PostgresStore::connect(url, PostgresSettings::default(), codec).await;
            let database = connected.context("cannot open the database")?;
            let nudges = Some(database.change_notifications());
            let nodes = Nodes::Multiple;
            Ok(Opened { store: Arc::new(database), nodes, nudges, signing_root })
        }
        Kept::File(path) => {
            let (settings, clock) = (SqliteSettings::default(), Arc::new(SystemClock));
            let opened = SqliteStore::open(path, settings, codec, clock);
            let file = opened.with_context(|| format!("cannot open {}", path.display()))?;
            // The file is locked: whoever worked on it before is gone.
            let nodes = Nodes::Single;
            Ok(Opened { store: Arc::new(file), nodes, nudges: None, signing_root })
        }
    }
}
