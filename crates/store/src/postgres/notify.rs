//! Change notifications between nodes, with `LISTEN` and `NOTIFY`. A notification carries no data, so
//! a lost one costs time and nothing else.

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

/// Pause before reconnecting a lost listener connection.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Sends notifications and passes received ones to its subscribers, until it is dropped.
pub(super) struct Listener {
    received: watch::Sender<()>,
    requested: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Listener {
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.received.subscribe()
    }

    /// Notifies this node at once and the others asynchronously; requests in quick succession are
    /// merged. Not part of the transaction: `NOTIFY` inside one serializes all commits of the server.
    pub(super) fn notify(&self) {
        self.received.send_replace(());
        self.requested.notify_one();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens on a connection outside the pool, and reconnects when it is lost.
pub(super) fn listen<T>(config: Config, settings: PostgresSettings, tls: T) -> Listener
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send + Sync,
    T::TlsConnect: Send + Sync,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let received = watch::Sender::new(());
    let requested = Arc::new(Notify::new());
    let (sender, requests) = (received.clone(), requested.clone());
    let task = tokio::spawn(async move {
        loop {
            let connect = timeout(settings.connect_deadline, config.connect(tls.clone()));
            if let Ok(Ok((client, mut connection))) = connect.await {
                let driver = poll_fn(|context| {
                    loop {
                        match ready!(connection.poll_message(context)) {
                            Some(Ok(AsyncMessage::Notification(_))) => sender.send_replace(()),
                            Some(Ok(_)) => {}
                            Some(Err(_)) | None => return Poll::Ready(()),
                        }
                    }
                });
                tokio::select! { () = driver => {}, _ = listen_and_notify(&client, &sender, &requests) => {} }
            }
            sleep(RECONNECT_PAUSE).await;
        }
    });
    Listener { received, requested, task }
}

async fn listen_and_notify(
    client: &tokio_postgres::Client,
    received: &watch::Sender<()>,
    requested: &Notify,
) -> Result<(), tokio_postgres::Error> {
    client.batch_execute("LISTEN kalends").await?;
    // Covers notifications that were sent before `LISTEN`.
    received.send_replace(());
    loop {
        requested.notified().await;
        client.batch_execute("NOTIFY kalends").await?;
    }
}
