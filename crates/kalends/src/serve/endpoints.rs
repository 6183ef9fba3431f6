//! Where the services are that jobs send to.

use kalends_actions::{AmqpEndpoint, Endpoint, Services};
use kalends_domain::MessageFormat;

#[derive(Clone, clap::Args)]
pub(super) struct Endpoints {
    /// Storage queues: what follows the account's name, or the address of an emulator
    #[arg(
        long,
        env = "KALENDS_QUEUE_ENDPOINT",
        value_name = "SUFFIX|URL",
        default_value = "queue.core.windows.net"
    )]
    queue_endpoint: Endpoint,

    /// The form of queue messages that do not say theirs
    #[arg(
        long,
        env = "KALENDS_QUEUE_MESSAGE_FORMAT",
        value_name = "FORMAT",
        default_value = "envelope"
    )]
    queue_message_format: QueueMessageFormat,

    /// Service Bus: what follows the namespace, or the address of an emulator
    #[arg(
        long,
        env = "KALENDS_SERVICE_BUS_ENDPOINT",
        value_name = "SUFFIX|URL",
        default_value = "servicebus.windows.net"
    )]
    service_bus_endpoint: Endpoint,

    /// The AMQP broker for jobs with transport AMQP, such as amqps://host:5671; add ?sasl=plain for
    /// one that takes the key's name and the key as user and password [default: the namespace's]
    #[arg(long, env = "KALENDS_SERVICE_BUS_AMQP_ENDPOINT", value_name = "URL")]
    service_bus_amqp_endpoint: Option<AmqpEndpoint>,

    /// Where tokens for ActiveDirectoryOAuth are asked for: a host, or an address
    #[arg(
        long,
        env = "KALENDS_LOGIN_ENDPOINT",
        value_name = "HOST|URL",
        default_value = "login.microsoftonline.com"
    )]
    login_endpoint: Endpoint,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum QueueMessageFormat {
    /// In the XML envelope of the retired service
    Envelope,
    /// The text alone
    Raw,
}

impl From<Endpoints> for Services {
    fn from(endpoints: Endpoints) -> Services {
        Services {
            queues: endpoints.queue_endpoint,
            queue_format: match endpoints.queue_message_format {
                QueueMessageFormat::Envelope => MessageFormat::Envelope,
                QueueMessageFormat::Raw => MessageFormat::Raw,
            },
            service_bus: endpoints.service_bus_endpoint,
            service_bus_amqp: endpoints.service_bus_amqp_endpoint,
            login: endpoints.login_endpoint,
        }
    }
}
