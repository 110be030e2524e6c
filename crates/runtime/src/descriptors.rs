//! File descriptors: how many this process may have, and who gets how many of them.
//!
//! A process that has run out of them can neither accept a connection nor write its disk, and the second would be its end.
//! So everybody has a share: first the disk, then peers, then strangers who have not proved yet who they are, then clients.

use std::fmt;
use std::io;
use std::sync::OnceLock;

/// Fewer than so many are not enough for a node.
pub const LEAST: usize = 96;
/// More than so many are not asked for.
const MOST: usize = 65_536;
/// For the process itself: its output, timers, ports, files that are written and renamed.
const OWN: usize = 32;
/// What the store needs besides the tables it keeps open: its journal, and what a compaction reads and writes.
const DISK_LEAST: usize = 32;
const DISK_MOST: usize = 256;

/// How the descriptors of this process are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// How many there are.
    pub all: usize,
    /// For the store's files.
    pub disk: usize,
    /// For connections with peers.
    pub peers: usize,
    /// For connections of those who have not proved yet who they are.
    pub strangers: usize,
    /// For connections of clients.
    pub clients: usize,
}

impl Shares {
    /// Shares out so many; `None` if they are too few for a node.
    pub fn of(all: usize) -> Option<Shares> {
        let rest = all.min(MOST).checked_sub(OWN).filter(|_| all >= LEAST)?;
        let disk = (rest / 3).clamp(DISK_LEAST, DISK_MOST);
        let rest = rest - disk;
        let (peers, strangers) = (rest / 2, (rest / 8).min(1024));
        Some(Shares { all, disk, peers, strangers, clients: rest - peers - strangers })
    }

    /// Tables the store may keep open.
    pub(crate) fn tables(&self) -> usize {
        (self.disk / 2).min(128)
    }

    /// Peers this node may be connected with; each may need two connections.
    pub(crate) fn links(&self) -> usize {
        (self.peers * 3 / 8).min(4096)
    }

    /// Connections that may be being opened.
    pub(crate) fn dials(&self) -> usize {
        (self.peers / 4).min(512)
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shares { all, disk, peers, strangers, clients } = self;
        write!(
            f,
            "{all} descriptors: {disk} for the disk, {peers} for peers, {strangers} for strangers, {clients} for clients"
        )
    }
}

/// Raises the limit of this process as far as it may, once, and shares out what there is.
///
/// # Errors
/// There are too few.
pub fn shares() -> io::Result<Shares> {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    let all = *LIMIT.get_or_init(raise);
    Shares::of(all).ok_or_else(|| {
        io::Error::other(format!("this process may open {all} files, and a node needs at least {LEAST}"))
    })
}

#[cfg(unix)]
fn raise() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(MOST as u64);
    if limit.current.is_some_and(|current| current < most) {
        // If it does not work out, there are as many as before.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.map_or(MOST, |now| usize::try_from(now).unwrap_or(MOST).min(MOST))
}

#[cfg(not(unix))]
fn raise() -> usize {
    1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_add_up_to_more_than_there_are() {
        for all in LEAST..10_000 {
            let Shares { disk, peers, strangers, clients, .. } = Shares::of(all).unwrap();
            assert!(OWN + disk + peers + strangers + clients <= all, "{all}");
            assert!(disk >= DISK_LEAST && peers >= 16 && strangers >= 4 && clients >= 8, "{all}");
        }
        assert_eq!(Shares::of(LEAST - 1), None);
    }

    #[test]
    fn shares_of_a_common_limit() {
        let text = Shares::of(1024).unwrap().to_string();
        assert_eq!(
            text,
            "1024 descriptors: 256 for the disk, 368 for peers, 92 for strangers, 276 for clients"
        );
    }
}
