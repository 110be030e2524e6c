//! Where to find a ring: addresses, names, and files of both.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The port of peers if a seed names none.
pub const PORT: u16 = 7400;

/// One place to look for a member of the ring. A name is resolved each time it is tried, and all its addresses are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seed {
    /// An address.
    Address(SocketAddr),
    /// A name and a port.
    Name(String, u16),
}

/// A text that is no seed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not HOST:PORT")]
pub struct SeedError {
    text: String,
}

impl FromStr for Seed {
    type Err = SeedError;

    /// Reads `host:port`, `host`, `1.2.3.4:port`, `[::1]:port` or `::1`.
    fn from_str(text: &str) -> Result<Seed, SeedError> {
        let bad = || SeedError { text: text.into() };
        if let Ok(address) = text.parse() {
            return Ok(Seed::Address(address));
        }
        let unbracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = unbracketed.parse() {
            return Ok(Seed::Address(SocketAddr::new(ip, PORT)));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?),
            None => (text, PORT),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        match !host.is_empty() && host.len() <= 253 && host.chars().all(fits) {
            true => Ok(Seed::Name(host.into(), port)),
            false => Err(bad()),
        }
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seed::Address(address) => address.fmt(f),
            Seed::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Reads a list of seeds: one per line, `#` starts a comment. The error names the line.
pub fn read_list(text: &str) -> Result<Vec<Seed>, (usize, SeedError)> {
    let lines =
        text.lines().enumerate().map(|(at, line)| (at + 1, line.split('#').next().unwrap_or("").trim()));
    let seeds = lines.filter(|(_, line)| !line.is_empty());
    seeds.map(|(at, line)| line.parse().map_err(|error| (at, error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_seed_is_read() {
        for (text, shown) in [
            ("10.0.0.1:7401", "10.0.0.1:7401"),
            ("10.0.0.1", "10.0.0.1:7400"),
            ("[::1]:7401", "[::1]:7401"),
            ("::1", "[::1]:7400"),
            ("[::1]", "[::1]:7400"),
            ("host-a", "host-a:7400"),
            ("ring.example.net:7500", "ring.example.net:7500"),
        ] {
            assert_eq!(text.parse::<Seed>().unwrap().to_string(), shown);
        }
        for bad in ["", ":7400", "host:", "host:0", "host:99999", "a b", "http://host:1", "host:1:2"] {
            assert!(bad.parse::<Seed>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn a_list_has_comments_and_its_errors_have_lines() {
        let list = read_list("# ours\nhost-a\n\n10.0.0.2:7400 # second\n").unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(read_list("host-a\nhost b\n").unwrap_err().0, 2);
    }
}
