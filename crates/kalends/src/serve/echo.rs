//! Setting of the echo target.

use std::net::SocketAddr;
use std::str::FromStr;

use anyhow::Context as _;
use kalends_domain::SecretHeaders;
use kalends_server::{AccessControl, EchoTarget};

use crate::serve::listen_address;
use crate::serve::listener::listen;

/// The listener of the echo target.
#[derive(clap::Args)]
pub(super) struct EchoSettings {
    /// Listener of the echo target, a target for first jobs: a loopback address and port, off, or auto.
    /// With auto it listens on a loopback address without authentication only, on the port after
    /// that of the API or on another free port
    #[arg(long, env = "KALENDS_ECHO_LISTEN", value_name = "ADDRESS", default_value = "auto")]
    echo_listen: EchoListen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EchoListen {
    Auto,
    Off,
    At(SocketAddr),
}

impl FromStr for EchoListen {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<EchoListen> {
        match text {
            "auto" => Ok(EchoListen::Auto),
            "off" => Ok(EchoListen::Off),
            text => {
                let address =
                    listen_address(text).ok().filter(|address| address.ip().is_loopback());
                let expected = "must be auto, off, a port, or a loopback address and a port such as \
                                127.0.0.1:8081";
                Ok(EchoListen::At(address.context(expected)?))
            }
        }
    }
}

impl EchoSettings {
    /// Binds the listener; `None` if the echo target is off. `api` is the setting `listen`.
    pub(super) fn bind(
        &self,
        api: SocketAddr,
        access: &AccessControl,
        secret_headers: SecretHeaders,
    ) -> anyhow::Result<Option<EchoTarget>> {
        let free_port = SocketAddr::new(api.ip(), 0);
        let (address, listener) = match self.echo_listen {
            EchoListen::Off => return Ok(None),
            EchoListen::Auto if !access.is_single_user() => return Ok(None),
            EchoListen::Auto => {
                let next = SocketAddr::new(api.ip(), port_after(api.port()));
                match listen(next) {
                    Ok(listener) => (next, Ok(listener)),
                    Err(_) => (free_port, listen(free_port)),
                }
            }
            EchoListen::At(address) => (address, listen(address)),
        };
        let target = listener.and_then(|listener| EchoTarget::new(listener, secret_headers));
        let context = || format!("--echo-listen: cannot listen on {address}");
        target.with_context(context).map(Some)
    }
}

/// The next port; 0, a free one, after 0 and after the last.
fn port_after(port: u16) -> u16 {
    match port {
        0 => 0,
        port => port.wrapping_add(1),
    }
}
