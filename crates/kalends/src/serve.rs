//! `kalends serve`: the server.

mod access;
mod egress;
mod encryption;
mod endpoints;
mod limits;
mod oidc;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use kalends_actions::{Fetcher, NetworkPerformer, PerformerSettings, Signer};
use kalends_domain::EgressMode;
use kalends_engine::{
    Engine, EngineFigures, EngineSettings, Neighbours, Nudge, OnViolation, WhoseClock,
};
use kalends_environment::{Clock as _, Entropy, SystemClock, SystemEntropy};
use kalends_figures::Figures;
use kalends_server::{App, Events, PageKey, ServerFigures, Settings};
use kalends_store::Store;
use kalends_store::form::Keeper;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::record::NodeId;
use kalends_store::seal::{MasterKey, Sealer};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use zeroize::Zeroizing;

use self::endpoints::Endpoints;
use crate::key;
use crate::log::LogSettings;
use crate::serve::encryption::Encryption;
use crate::serve::limits::LimitSettings;

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

    /// Where everything is kept: sqlite:PATH, or postgres://USER@HOST/DATABASE for several nodes
    #[arg(
        long,
        env = "KALENDS_STORE",
        value_name = "STORE",
        default_value = "sqlite:kalends-data/kalends.db"
    )]
    store: String,

    /// The file with the key that secrets are sealed with [default: beside an SQLite store]
    #[arg(long, env = "KALENDS_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,

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

    /// Which keys requests are signed with: raise it by one to change those of every collection
    #[arg(long, env = "KALENDS_SIGNING_EPOCH", value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    signing_epoch: u32,

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
    let engine_figures = Arc::new(EngineFigures::default());
    let others: Vec<Arc<dyn Figures>> = vec![engine_figures.clone()];
    let figures = ServerFigures::new(others, SystemClock.now());
    let Opened { store, neighbours, nudges, signing_root } =
        open(&arguments.store, arguments.key_file.as_deref()).await?;
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let own = arguments.egress.settings(EgressMode::SingleUser, address, &arguments.store)?;
    let fetcher = Fetcher::new(own, Arc::new(SystemEntropy)).context("cannot set up TLS")?;
    let granted = arguments.access.gate(address.ip(), &arguments.store, &*store, fetcher).await?;
    let egress = arguments.egress.settings(granted.egress, address, &arguments.store)?;
    let egress_mode = egress.policy.mode;
    let mut settings = Settings { egress: egress.policy.clone(), ..Settings::default() };
    settings.hosts = granted.hosts;
    settings.schedules.start_delay = arguments.start_delay;
    settings.plans = arguments.limits.plans();
    let performing = PerformerSettings {
        egress,
        signer: Some(Signer::new(&signing_root, arguments.signing_epoch)),
        services: arguments.endpoints.into(),
        ..PerformerSettings::default()
    };
    let engine = match arguments.hold {
        true => None,
        false => {
            let store = Arc::clone(&store);
            Some(start_engine(store, neighbours, &settings, performing, engine_figures)?)
        }
    };
    let nudge = engine.as_ref().map(Engine::nudge).unwrap_or_default();
    if let Some(nudges) = nudges {
        tokio::spawn(pass_on(nudges, nudge.clone()));
    }
    let app = App {
        store,
        // Edits are decided by the clock that decides when jobs are due.
        clock: engine.as_ref().map_or_else(|| Arc::new(SystemClock) as _, Engine::clock),
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
    neighbours: Neighbours,
    settings: &Settings,
    performing: PerformerSettings,
    figures: Arc<EngineFigures>,
) -> anyhow::Result<Engine> {
    let mut node = [0; 8];
    SystemEntropy.fill(&mut node)?;
    let performer =
        NetworkPerformer::new(performing, Arc::new(SystemClock), Arc::new(SystemEntropy));
    let performer = performer.context("cannot set up TLS")?;
    let schedules = settings.schedules.clone();
    // What many nodes share has the clock that all of them go by.
    let clock = match neighbours {
        Neighbours::Possible => WhoseClock::Store,
        Neighbours::Impossible => WhoseClock::Node,
    };
    Ok(Engine::start(
        store,
        Arc::new(SystemClock),
        Arc::new(performer),
        NodeId(u64::from_le_bytes(node)),
        EngineSettings {
            schedules,
            neighbours,
            clock,
            figures,
            on_violation: if cfg!(debug_assertions) {
                // Tests run what is built for them: none of them may pass over it.
                OnViolation::Abort
            } else {
                OnViolation::Repair
            },
            ..EngineSettings::default()
        },
    ))
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
    neighbours: Neighbours,
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

async fn open(store: &str, key_file: Option<&Path>) -> anyhow::Result<Opened> {
    if store.starts_with("postgres://") || store.starts_with("postgresql://") {
        let key = key::of_database(key_file)?;
        let signing_root = key.derive(SIGNING);
        let keeper = keeper(key);
        let connected = PostgresStore::connect(store, PostgresSettings::default(), keeper).await;
        let database = connected.context("cannot open the database")?;
        let nudges = Some(database.nudges());
        let neighbours = Neighbours::Possible;
        return Ok(Opened { store: Arc::new(database), neighbours, nudges, signing_root });
    }
    let Some(path) = store.strip_prefix("sqlite:") else {
        bail!("--store: expected sqlite:PATH or postgres://USER@HOST/DATABASE");
    };
    let path = Path::new(path);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let key = key::read_or_make(path, key_file)?;
    let signing_root = key.derive(SIGNING);
    let keeper = keeper(key);
    let opened = SqliteStore::open(path, SqliteSettings::default(), keeper, Arc::new(SystemClock));
    let file = opened.with_context(|| format!("cannot open {}", path.display()))?;
    // The file is locked: whoever worked on it before is gone.
    let neighbours = Neighbours::Impossible;
    Ok(Opened { store: Arc::new(file), neighbours, nudges: None, signing_root })
}

fn keeper(key: MasterKey) -> Keeper {
    Keeper::new(Sealer::new(key, vec![], Arc::new(SystemEntropy)), &[])
}
