//! A sender that loses its lease while it prepares a message for an AMQP broker transfers nothing.

use std::sync::Arc;

use fe2o3_amqp::acceptor::{
    ConnectionAcceptor, LinkAcceptor, LinkEndpoint, SaslPlainMechanism, SessionAcceptor,
};
use fe2o3_amqp::types::messaging::Body;
use fe2o3_amqp::types::primitives::Value;
use kalends_actions::{
    AttemptRequest, ExecutorSettings, NetworkExecutor, NotSent, SendFence, Services,
};
use kalends_domain::{
    Action, Secret, ServiceBusAuthentication, ServiceBusAuthenticationKind, ServiceBusMessage,
    Target, Transport,
};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::harness::{Sink, attempt, has_succeeded, leak, open, request, with_settings};
use crate::send_fence::{begin, end};

const USER: &str = "sender";
const PASSWORD: &str = "a2V5";

/// Step of the connection at which the broker waits.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Open,
    Begin,
    Attach,
}

/// A broker with one queue. It reports each message and the end of each connection.
struct Broker {
    /// The first connection waits here, after a report, until `proceed`.
    waits_at: Option<Step>,
    proceed: Notify,
}

impl Broker {
    async fn start(waits_at: Option<Step>) -> (Sink, Arc<Broker>) {
        let broker = Arc::new(Broker { waits_at, proceed: Notify::new() });
        let shared = Arc::clone(&broker);
        let serve = move |stream, number, reports: UnboundedSender<_>| {
            let broker = Arc::clone(&shared);
            async move {
                let report = |text: &str| drop(reports.send((number, text.to_owned())));
                // An error is the end of the connection too.
                let _ = broker.serve(stream, number == 0, &report).await;
                report("closed");
            }
        };
        (Sink::start("127.0.0.1:0", serve).await, broker)
    }

    async fn wait(&self, step: Step, is_first: bool, report: &(impl Fn(&str) + Sync)) {
        if is_first && self.waits_at == Some(step) {
            report("waits");
            self.proceed.notified().await;
        }
    }

    /// Serves one connection. After its first message the first connection has no credit until
    /// `proceed`.
    async fn serve(
        &self,
        stream: TcpStream,
        is_first: bool,
        report: &(impl Fn(&str) + Sync),
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let acceptor = ConnectionAcceptor::builder()
            .container_id("broker")
            .sasl_acceptor(SaslPlainMechanism::new(USER, PASSWORD))
            .build();
        self.wait(Step::Open, is_first, report).await;
        let mut connection = acceptor.accept(stream).await?;
        self.wait(Step::Begin, is_first, report).await;
        let mut session = SessionAcceptor::new().accept(&mut connection).await?;
        self.wait(Step::Attach, is_first, report).await;
        let link = LinkAcceptor::new().accept(&mut session).await?;
        let LinkEndpoint::Receiver(mut receiver) = link else { return Ok(()) };
        let mut has_credit = true;
        loop {
            let delivery = tokio::select! {
                delivery = receiver.recv::<Body<Value>>() => delivery?,
                () = self.proceed.notified(), if !has_credit => {
                    has_credit = true;
                    receiver.set_credit(1).await?;
                    report("credit");
                    continue;
                }
            };
            report("message");
            if is_first {
                has_credit = false;
                // Before the response, so that the sender knows it when its first attempt ends.
                receiver.set_credit(0).await?;
            }
            receiver.accept(&delivery).await?;
        }
    }
}

/// An executor that sends to the broker.
fn executor(broker: &Sink) -> Arc<NetworkExecutor> {
    let endpoint = format!("amqp://{}?sasl=plain", broker.address).parse().unwrap();
    let services = Services { service_bus_amqp: Some(endpoint), ..Services::default() };
    Arc::new(with_settings(ExecutorSettings {
        egress: open(),
        services,
        ..ExecutorSettings::default()
    }))
}

/// An attempt that sends a message to the queue.
fn message() -> AttemptRequest<'static> {
    let target = Target::ServiceBusQueue(ServiceBusMessage {
        entity: Some("queue".into()),
        namespace: Some("namespace".into()),
        transport: Some(Transport::Amqp),
        authentication: Some(ServiceBusAuthentication {
            kind: Some(ServiceBusAuthenticationKind::SharedAccessKey),
            sas_key_name: Some(USER.into()),
            sas_key: Some(Secret::new(PASSWORD.into())),
        }),
        message: Some("text".into()),
        brokered: None,
        custom: None,
    });
    let action = Action { type_as_written: "ServiceBusQueue".into(), target };
    AttemptRequest { action: leak(action), ..attempt(request("http://localhost/")) }
}

#[tokio::test]
async fn a_fence_cancelled_while_an_amqp_connection_opens_transfers_no_message() {
    for step in [Step::Open, Step::Begin, Step::Attach] {
        let (mut reports, broker) = Broker::start(Some(step)).await;
        let executor = executor(&reports);
        let fence = SendFence::unlimited();
        let execution = begin(&executor, message(), &fence);
        assert_eq!(reports.next().await, (0, "waits".into()));
        fence.cancel();
        broker.proceed.notify_one();
        assert_eq!(end(execution).await, Err(NotSent));
        assert_eq!(reports.next().await, (0, "closed".into()), "no message before the end");
        let report = end(begin(&executor, message(), &SendFence::unlimited())).await.unwrap();
        assert!(has_succeeded(&report), "{}", report.message);
        assert_eq!(reports.next().await, (1, "message".into()));
    }
}

#[tokio::test]
async fn a_message_that_waits_for_credit_is_withdrawn_when_its_fence_closes() {
    let (mut reports, broker) = Broker::start(None).await;
    let executor = executor(&reports);
    let report = end(begin(&executor, message(), &SendFence::unlimited())).await.unwrap();
    assert!(has_succeeded(&report), "{}", report.message);
    assert_eq!(reports.next().await, (0, "message".into()));
    let fence = SendFence::unlimited();
    let execution = begin(&executor, message(), &fence);
    // Usually enough for the message to reach the link; the result is the same if it is not.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!execution.is_finished(), "it waits for credit");
    fence.cancel();
    assert_eq!(end(execution).await, Err(NotSent));
    broker.proceed.notify_one();
    let mut report = reports.next().await.1;
    while report == "credit" {
        report = reports.next().await.1;
    }
    assert_eq!(report, "closed", "no message before the end");
}
