//! Endpoints of the Azure services that jobs use.

use kalends_actions::{AmqpEndpoint, Endpoint, Services};
use kalends_domain::MessageFormat;

#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Azure endpoints")]
pub(super) struct Endpoints {
    /// Azure Storage queues: DNS suffix after the account name, or URL of an emulator
    #[arg(
        long,
        env = "KALENDS_QUEUE_ENDPOINT",
        value_name = "SUFFIX|URL",
        default_value = "queue.core.windows.net"
    )]
    queue_endpoint: Endpoint,

    /// Format of queue messages for jobs that do not set one
    #[arg(
        long,
        env = "KALENDS_QUEUE_MESSAGE_FORMAT",
        value_name = "FORMAT",
        default_value = "envelope"
    )]
    queue_message_format: QueueMessageFormat,

    /// Azure Service Bus: DNS suffix after the namespace, or URL of an emulator
    #[arg(
        long,
        env = "KALENDS_SERVICE_BUS_ENDPOINT",
        value_name = "SUFFIX|URL",
        default_value = "servicebus.windows.net"
    )]
    service_bus_endpoint: Endpoint,

    /// AMQP broker for jobs with transport AMQP, such as amqps://host:5671; add ?sasl=plain to send
    /// key name and key as user and password [default: the broker of the namespace]
    #[arg(long, env = "KALENDS_SERVICE_BUS_AMQP_ENDPOINT", value_name = "URL")]
    service_bus_amqp_endpoint: Option<AmqpEndpoint>,

    /// Token endpoint for ActiveDirectoryOAuth: a host or a URL
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
    /// XML envelope of Azure Scheduler
    Envelope,
    /// Message text only
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
