//! The port other programs reach the demo at. It belongs to the demo and not to a node: when the node behind it is
//! ended, another one answers.

use std::net::SocketAddr;

use kringle_runtime::Handle;

/// The port, as long as the demo runs.
pub(crate) struct Port {
    /// Where it is.
    pub(crate) address: SocketAddr,
    /// Whether the usual one was taken.
    pub(crate) moved: bool,
}

impl Port {
    /// Lets another node answer from now on.
    pub(crate) fn answer_with(&self, node: &Handle) {
        let _ = node;
    }
}

/// Opens the port at 127.0.0.1:7480, or the next that is free. `None`: this build has no HTTP.
pub(crate) async fn open_http(node: &Handle) -> Option<Port> {
    let _ = node;
    None
}
