//! Listeners of the server.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted; the kernel reduces it to `net.core.somaxconn`. When the
/// queue is full, the kernel drops the connection attempt and the client repeats it after a second.
/// Tokio's default is 128.
const BACKLOG: u32 = 4_096;

/// Binds an address and listens.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // After a restart, connections of the last process may still be in TIME-WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::listen;

    #[tokio::test]
    async fn hundreds_of_clients_connect_before_the_first_is_accepted() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        // A dropped attempt is repeated after a second.
        let wait = Duration::from_millis(900);
        let connect = |_| TcpStream::connect_timeout(&address, wait).unwrap();
        let connections: Vec<_> = (0..400).map(connect).collect();
        assert_eq!(connections.len(), 400);
        drop(listener);
    }
}
