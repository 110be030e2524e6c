//! The port of clients: opened before the node, so that a port that is taken stops nothing halfway.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use kringle_front::http::{Options, Server, serve};
use kringle_runtime::{Handle, descriptors};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::failure::Failure;

/// How long requests under way may keep the process when the node has ended.
const DRAIN: Duration = Duration::from_secs(1);
/// Stands for every name.
const ANY: &str = "*";

/// Opens the port.
pub(super) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "Another program has this port. Choose another with --http HOST:PORT (port 0 takes a free one), or --http off."
            }
            _ => "Choose an address of this machine with --http HOST:PORT, or --http off.",
        };
        Failure::failed(format!("cannot listen for clients on {address}: {error}"), remedy)
    })
}

/// Answers clients on an open port, from now on.
pub(super) fn answer(
    listener: TcpListener,
    node: &Handle,
    hosts: &[String],
    config: Value,
) -> io::Result<Server> {
    let any_host = hosts.iter().any(|host| host == ANY);
    let usual = Options::default();
    // A fifth is for telling others that there is no room.
    let connections = (descriptors::shares()?.clients * 4 / 5).min(usual.connections);
    let options = Options { config, hosts: hosts.to_vec(), any_host, drain: DRAIN, connections, ..usual };
    serve(listener, node.clone(), options)
}

/// Returns the address of a bound port for others. A port on every address is reached where peers reach the node.
pub(super) fn url(bound: SocketAddr, advertised: &[SocketAddr]) -> Option<String> {
    let ip = match bound.ip() {
        ip if !ip.is_unspecified() => ip,
        _ => advertised.first().map(SocketAddr::ip)?,
    };
    Some(match ip {
        IpAddr::V4(ip) => format!("http://{ip}:{}", bound.port()),
        IpAddr::V6(ip) => format!("http://[{ip}]:{}", bound.port()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_on_every_address_is_told_by_one() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(url(at("127.0.0.1:7480"), &[]).unwrap(), "http://127.0.0.1:7480");
        assert_eq!(url(at("[::1]:1"), &[]).unwrap(), "http://[::1]:1");
        assert_eq!(url(at("0.0.0.0:7480"), &[at("10.0.0.5:7400")]).unwrap(), "http://10.0.0.5:7480");
        assert_eq!(url(at("0.0.0.0:7480"), &[]), None);
    }
}
