//! The port other programs reach the demo at. It belongs to the demo and not to a node: when the node behind it is
//! ended, another one answers.

use std::net::{Ipv4Addr, SocketAddr};

use kringle_front::Target;
use kringle_front::http::{self, Options, PORT, Server};
use kringle_runtime::Handle;
use serde_json::json;
use tokio::net::TcpListener;

/// How many ports are tried.
const TRIES: u16 = 100;

/// The port, as long as the demo runs.
pub(crate) struct Port {
    /// Where it is.
    pub(crate) address: SocketAddr,
    /// Whether the usual one was taken.
    pub(crate) moved: bool,
    target: Target,
    /// Open until dropped.
    _server: Server,
}

impl Port {
    /// Lets another node answer from now on.
    pub(crate) async fn answer_with(&self, node: &Handle) {
        let before = self.target.get();
        if before.id() == node.id() {
            return;
        }
        self.target.set(node.clone());
        // Told to whoever asks; a node that has just ended has nobody to tell.
        let _ = before.set_client(None).await;
        let _ = node.set_client(Some(self.address.to_string())).await;
    }
}

/// Opens the port at 127.0.0.1:7480, or the next that is free. `None`: not even one of those.
pub(crate) async fn open_http(node: &Handle) -> Option<Port> {
    for port in PORT..PORT + TRIES {
        let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await else { continue };
        let target = Target::new(node.clone());
        let options = Options { config: json!({ "demo": true }), ..Options::default() };
        let server = http::serve(listener, target.clone(), options).ok()?;
        let address = server.address();
        let _ = node.set_client(Some(address.to_string())).await;
        return Some(Port { address, moved: port != PORT, target, _server: server });
    }
    None
}
