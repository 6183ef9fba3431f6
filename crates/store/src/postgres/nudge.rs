//! Hints between nodes that something changed. They carry nothing, so that losing one costs time
//! and nothing else.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Config, Socket};

use crate::postgres::PostgresSettings;

/// Between two attempts to listen again.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens, and passes nudges on, until it is dropped.
pub(super) struct Listener {
    heard: watch::Sender<()>,
    wanted: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Listener {
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.heard.subscribe()
    }

    /// Nudges this node at once and the others soon. Many in a row become one. It is not a part of
    /// the transaction: notifying inside one makes all commits of a server wait for each other.
    pub(super) fn nudge(&self) {
        self.heard.send_replace(());
        self.wanted.notify_one();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens on a connection of its own, and again when it is lost.
pub(super) fn listen<T>(config: Config, settings: PostgresSettings, tls: T) -> Listener
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send + Sync,
    T::TlsConnect: Send + Sync,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let heard = watch::Sender::new(());
    let wanted = Arc::new(Notify::new());
    let (to, asked) = (heard.clone(), wanted.clone());
    let task = tokio::spawn(async move {
        loop {
            let connect = timeout(settings.connect_deadline, config.connect(tls.clone()));
            if let Ok(Ok((client, mut connection))) = connect.await {
                let pump = poll_fn(|context| {
                    loop {
                        match ready!(connection.poll_message(context)) {
                            Some(Ok(AsyncMessage::Notification(_))) => to.send_replace(()),
                            Some(Ok(_)) => {}
                            Some(Err(_)) | None => return Poll::Ready(()),
                        }
                    }
                });
                tokio::select! { () = pump => {}, _ = talk(&client, &to, &asked) => {} }
            }
            sleep(PAUSE).await;
        }
    });
    Listener { heard, wanted, task }
}

async fn talk(
    client: &tokio_postgres::Client,
    heard: &watch::Sender<()>,
    wanted: &Notify,
) -> Result<(), tokio_postgres::Error> {
    client.batch_execute("LISTEN kalends").await?;
    // For whatever was said while nobody listened.
    heard.send_replace(());
    loop {
        wanted.notified().await;
        client.batch_execute("NOTIFY kalends").await?;
    }
}
