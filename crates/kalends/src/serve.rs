//! `kalends serve`: the server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use kalends_actions::NetworkPerformer;
use kalends_engine::{Engine, EngineSettings, Nudge, WhoseClock};
use kalends_environment::{Entropy, SystemClock, SystemEntropy};
use kalends_server::{App, PageKey, Settings};
use kalends_store::Store;
use kalends_store::form::Keeper;
use kalends_store::postgres::{PostgresSettings, PostgresStore};
use kalends_store::record::NodeId;
use kalends_store::seal::{MasterKey, Sealer};
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::key;

/// Run the server.
#[derive(clap::Args)]
pub(crate) struct Arguments {
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
}

fn duration(text: &str) -> Result<Duration, String> {
    kalends_wire::parse_duration(text).ok_or_else(|| "expected a duration such as PT20S".to_owned())
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    // Without authentication nobody but the machine's own users may reach the API.
    if !arguments.listen.ip().is_loopback() {
        bail!("{} is not a loopback address; there is no authentication yet", arguments.listen);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let Opened { store, nudges } = open(&arguments.store, arguments.key_file.as_deref()).await?;
    let mut settings = Settings::default();
    settings.schedules.start_delay = arguments.start_delay;
    // What many nodes share has the clock that all of them go by.
    let clock = if nudges.is_some() { WhoseClock::Store } else { WhoseClock::Node };
    let engine = match arguments.hold {
        true => None,
        false => Some(start_engine(Arc::clone(&store), clock, &settings)?),
    };
    let nudge = engine.as_ref().map(Engine::nudge).unwrap_or_default();
    if let Some(nudges) = nudges {
        tokio::spawn(pass_on(nudges, nudge.clone()));
    }
    let app = App {
        store,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        settings: Arc::new(settings),
        changed: Arc::new(move || nudge.nudge()),
        page_key: PageKey::new(&SystemEntropy)?,
    };
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    announce(address);
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    kalends_server::serve(listener, app, stop).await?;
    if let Some(engine) = engine {
        engine.stop().await;
    }
    Ok(())
}

fn start_engine(
    store: Arc<dyn Store>,
    clock: WhoseClock,
    settings: &Settings,
) -> anyhow::Result<Engine> {
    let mut node = [0; 8];
    SystemEntropy.fill(&mut node)?;
    let performer = NetworkPerformer::new(Arc::new(SystemEntropy)).context("cannot set up TLS")?;
    let schedules = settings.schedules.clone();
    Ok(Engine::start(
        store,
        Arc::new(SystemClock),
        Arc::new(performer),
        NodeId(u64::from_le_bytes(node)),
        EngineSettings { schedules, clock, ..EngineSettings::default() },
    ))
}

/// The one line that others wait for.
fn announce(address: SocketAddr) {
    use std::io::Write as _;
    // A server whose standard error is closed still serves.
    let _ = writeln!(std::io::stderr(), "listening on http://{address}");
}

/// A store, and what tells of edits by other nodes.
struct Opened {
    store: Arc<dyn Store>,
    nudges: Option<watch::Receiver<()>>,
}

/// Edits by other nodes are looked at as soon as one's own.
async fn pass_on(mut nudges: watch::Receiver<()>, nudge: Nudge) {
    while nudges.changed().await.is_ok() {
        nudge.nudge();
    }
}

async fn open(store: &str, key_file: Option<&Path>) -> anyhow::Result<Opened> {
    if store.starts_with("postgres://") || store.starts_with("postgresql://") {
        let keeper = keeper(key::of_database(key_file)?);
        let connected = PostgresStore::connect(store, PostgresSettings::default(), keeper).await;
        let database = connected.context("cannot open the database")?;
        let nudges = Some(database.nudges());
        return Ok(Opened { store: Arc::new(database), nudges });
    }
    let Some(path) = store.strip_prefix("sqlite:") else {
        bail!("--store: expected sqlite:PATH or postgres://USER@HOST/DATABASE");
    };
    let path = Path::new(path);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let keeper = keeper(key::read_or_make(path, key_file)?);
    let opened = SqliteStore::open(path, SqliteSettings::default(), keeper, Arc::new(SystemClock));
    let file = opened.with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Opened { store: Arc::new(file), nudges: None })
}

fn keeper(key: MasterKey) -> Keeper {
    Keeper::new(Sealer::new(key, vec![], Arc::new(SystemEntropy)), &[])
}
