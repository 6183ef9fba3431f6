//! `kalends serve`: the server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use kalends_actions::NetworkPerformer;
use kalends_engine::{Engine, EngineSettings};
use kalends_environment::{Entropy, SystemClock, SystemEntropy};
use kalends_server::{App, PageKey, Settings};
use kalends_store::Store;
use kalends_store::form::Keeper;
use kalends_store::record::NodeId;
use kalends_store::seal::Sealer;
use kalends_store::sqlite::{SqliteSettings, SqliteStore};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::key;

/// Run the server.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, env = "KALENDS_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// Where everything is kept: sqlite:PATH
    #[arg(
        long,
        env = "KALENDS_STORE",
        value_name = "STORE",
        default_value = "sqlite:kalends-data/kalends.db"
    )]
    store: String,

    /// The file with the key that secrets are sealed with [default: beside the store]
    #[arg(long, env = "KALENDS_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// How long after its creation a job without a start runs for the first time, such as PT20S
    #[arg(long, env = "KALENDS_START_DELAY", value_name = "DURATION", default_value = "PT0S", value_parser = duration)]
    start_delay: Duration,

    /// Whether jobs run; at rest, the API is answered and everything else waits
    #[arg(long, env = "KALENDS_JOBS", value_enum, default_value_t = Jobs::Run)]
    jobs: Jobs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Jobs {
    Run,
    Rest,
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
    let store = open(&arguments.store, arguments.key_file.as_deref())?;
    let mut settings = Settings::default();
    settings.schedules.start_delay = arguments.start_delay;
    let engine = match arguments.jobs {
        Jobs::Run => Some(start_engine(Arc::clone(&store), &settings)?),
        Jobs::Rest => None,
    };
    let nudge = engine.as_ref().map(Engine::nudge);
    let app = App {
        store,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        settings: Arc::new(settings),
        page_key: PageKey::new(&SystemEntropy)?,
        changed: Arc::new(move || {
            if let Some(nudge) = &nudge {
                nudge.nudge();
            }
        }),
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

fn start_engine(store: Arc<dyn Store>, settings: &Settings) -> anyhow::Result<Engine> {
    let mut node = [0; 8];
    SystemEntropy.fill(&mut node)?;
    let performer = NetworkPerformer::new(Arc::new(SystemEntropy)).context("cannot set up TLS")?;
    let schedules = settings.schedules.clone();
    Ok(Engine::start(
        store,
        Arc::new(SystemClock),
        Arc::new(performer),
        NodeId(u64::from_le_bytes(node)),
        EngineSettings { schedules, ..EngineSettings::default() },
    ))
}

/// The one line that others wait for.
fn announce(address: SocketAddr) {
    use std::io::Write as _;
    // A server whose standard error is closed still serves.
    let _ = writeln!(std::io::stderr(), "listening on http://{address}");
}

fn open(store: &str, key_file: Option<&Path>) -> anyhow::Result<Arc<dyn Store>> {
    let Some(path) = store.strip_prefix("sqlite:") else {
        bail!("--store {store}: expected sqlite:PATH");
    };
    let path = Path::new(path);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let key = key::read_or_make(path, key_file)?;
    let keeper = Keeper::new(Sealer::new(key, vec![], Arc::new(SystemEntropy)), &[]);
    let opened = SqliteStore::open(path, SqliteSettings::default(), keeper, Arc::new(SystemClock));
    Ok(Arc::new(opened.with_context(|| format!("cannot open {}", path.display()))?))
}
