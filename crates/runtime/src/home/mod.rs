//! The data directory of a node: what must outlive the process, apart from the values it stores.
//!
//! | file             | holds                                                                    |
//! |------------------|--------------------------------------------------------------------------|
//! | `lock`           | the lock of the one process that may use the directory, and its pid      |
//! | `format`         | the format of all the rest                                               |
//! | `node.key`       | the node's key; losing it means being another node                       |
//! | `incarnation`    | the highest incarnation this node ever used                              |
//! | `cluster.json`   | the cluster, its shared settings, the store's lineage, the certificate    |
//! | `cluster.secret` | the cluster's secret, on nodes that were given it                        |
//! | `peers.json`     | where to look for the cluster after a restart                            |
//! | `tokens.json`    | the book of join tokens                                                  |
//! | `store*`         | the values it stores; see [`crate::engine`] and [`Home::discard_store`]  |
//!
//! Every file is replaced as a whole (see [`Slot`]) and readable for its owner only. A damaged file is an error with
//! a remedy, never a reason to start afresh: a node that silently took a new key would be another node, and one that
//! silently took a lower incarnation would be believed dead. Only `peers.json` may be lost without harm.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kringle_core::config::OverlayKind;
use kringle_core::id::NodeId;
use serde::{Deserialize, Serialize};

use crate::identity::cluster::{Certificate, Cluster, Secret};
use crate::identity::{Identity, PublicKey, text};
use crate::overlays;
use crate::protocol::{self, Protocol};

mod error;
mod slot;

pub use error::HomeError;
pub use slot::Slot;
pub(crate) use slot::sync_dir;

/// The format this build writes, and the last one it reads.
const FORMAT: u32 = 1;
/// The most peers that are remembered.
pub const REMEMBERED_MAX: usize = 256;
/// The most endpoints that are remembered of one peer.
const ENDPOINTS_MAX: usize = 16;
/// Where a discarded store goes: this and a number.
const DISCARDED: &str = "store.discarded-";
/// The first line of the key file.
const KEY_TITLE: &str = "kringle node key 1";

/// An open data directory. It is locked for as long as this value, or a [`Slot`] of it, lives.
pub struct Home {
    dir: PathBuf,
    lock: Arc<File>,
}

/// What a node knows about its own cluster.
#[derive(Clone, Debug)]
pub struct Membership {
    /// The cluster. It can certify if the secret is here too.
    pub cluster: Cluster,
    /// What this node proves its membership with; `None` before it was let in.
    pub certificate: Option<Certificate>,
    /// Whether this node ever had peers. If so it never founds a ring again: it would split the cluster.
    pub had_peers: bool,
    /// The settings that all nodes of the cluster share. Files of older versions name the overlay at most.
    pub protocol: Protocol,
    /// How often the number of copies was changed.
    pub copies_version: u64,
    /// The lineage of the store: the number made when its cluster was founded. `None` before this node knows it; files
    /// of older versions do not say, and the views on the disk do.
    pub lineage: Option<u64>,
    /// Whether the last start was told to discard an older store, and did.
    pub discarded: bool,
}

/// A peer worth trying after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Its id, which the connection must prove.
    pub id: NodeId,
    /// The incarnation it had.
    pub incarnation: u32,
    /// Where it was reached.
    pub endpoints: Vec<SocketAddr>,
}

impl Home {
    /// Opens a data directory, and creates it if there is none.
    ///
    /// Refuses what is not a directory, cannot be written, is open in another process or was written by a newer
    /// version; see [`HomeError::remedy`].
    pub fn open(dir: &Path) -> Result<Home, HomeError> {
        create(dir)?;
        let home = Home { dir: dir.to_owned(), lock: Arc::new(take_lock(dir)?) };
        home.probe()?;
        let format = home.slot("format");
        match format.read()? {
            None => format.write(format!("{FORMAT}\n").as_bytes())?,
            Some(bytes) => match number(&bytes) {
                Some(found) if found > FORMAT => {
                    return Err(HomeError::Newer { path: dir.to_owned(), found, known: FORMAT });
                }
                Some(FORMAT) => {}
                _ => return Err(format.damaged("it does not name a format")),
            },
        }
        Ok(home)
    }

    /// Returns where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the node's key, made now if this directory is new.
    ///
    /// Refuses a key that others may read, and never replaces one that is damaged or gone.
    pub fn identity(&self) -> Result<Identity, HomeError> {
        let slot = self.slot("node.key");
        if let Some(bytes) = slot.read_private()? {
            return read_key(&bytes).map_err(|why| slot.damaged(why));
        }
        if self.slot("cluster.json").exists() {
            return Err(HomeError::KeyMissing { path: slot.path().to_owned() });
        }
        let identity = Identity::generate().map_err(|e| HomeError::from_io(slot.path(), e))?;
        slot.write(write_key(&identity).as_bytes())?;
        Ok(identity)
    }

    /// Starts a new incarnation: higher than any this directory ever gave, and at least the clock (in seconds since
    /// 1970), so that it is also higher than one given before an old copy of the directory was restored. It is on
    /// disk before this returns.
    ///
    /// A clock in the past therefore never lowers it. A clock past 2106, which 32 bits cannot count, is not believed.
    pub fn next_incarnation(&self, now_unix: u64) -> Result<u32, HomeError> {
        let clock = u32::try_from(now_unix).unwrap_or(0);
        let next = self.incarnation()?.saturating_add(1).max(clock);
        self.set_incarnation(next)?;
        Ok(next)
    }

    /// Makes the stored incarnation at least this high, and returns what it is now. For a node that learns that a
    /// higher incarnation of itself was seen.
    pub fn raise_incarnation(&self, at_least: u32) -> Result<u32, HomeError> {
        let stored = self.incarnation()?;
        if stored >= at_least {
            return Ok(stored);
        }
        self.set_incarnation(at_least)?;
        Ok(at_least)
    }

    /// Returns what is known about the cluster, or `None` if this node never joined or founded one. If the secret is
    /// here, the cluster can certify.
    ///
    /// The caller checks the certificate against its own key ([`Cluster::check`]): in a directory pieced together
    /// from two nodes, it belongs to the other one.
    pub fn cluster(&self) -> Result<Option<Membership>, HomeError> {
        let Some(mut membership) = self.membership()? else { return Ok(None) };
        if let Some(secret) = self.secret()? {
            membership.cluster = self.with_secret(&membership.cluster, &secret)?;
        }
        Ok(Some(membership))
    }

    /// Writes down what is known about the cluster. That there were peers is never forgotten, and a node that had
    /// some cannot change to another cluster.
    pub fn set_cluster(&self, membership: &Membership) -> Result<(), HomeError> {
        let settled = self.refuse_another(&membership.cluster)?;
        self.slot("cluster.json").write_json(&ClusterFile {
            name: membership.cluster.name().to_owned(),
            key: membership.cluster.public().to_string(),
            certificate: membership.certificate.map(|certificate| text::hex(&certificate.encode())),
            had_peers: membership.had_peers || settled,
            overlay: Some(protocol::show(protocol::OVERLAY, membership.protocol.value(protocol::OVERLAY))),
            protocol: membership.protocol.written(),
            copies_version: membership.copies_version,
            lineage: membership.lineage.map(|lineage| format!("{lineage:016x}")),
            discarded: membership.discarded,
        })
    }

    /// Returns the cluster's secret, if this node was given it. Refuses one that others may read.
    pub fn secret(&self) -> Result<Option<Secret>, HomeError> {
        let slot = self.slot("cluster.secret");
        let Some(bytes) = slot.read_private()? else { return Ok(None) };
        // An operator may put a pass phrase there by hand; an empty file is an accident, not an open cluster.
        let secret =
            String::from_utf8(bytes).map_or_else(|_| Secret::empty(), |text| Secret::from_text(&text));
        if secret.is_empty() { Err(slot.damaged("it holds no secret")) } else { Ok(Some(secret)) }
    }

    /// Writes the secret of a cluster down, to be done before [`Home::set_cluster`] of that cluster. The empty secret
    /// is none and leaves no file. A node that had peers cannot change to another secret.
    pub fn set_secret(&self, cluster: &Cluster, secret: &Secret) -> Result<(), HomeError> {
        let slot = self.slot("cluster.secret");
        self.refuse_another(&self.with_secret(cluster, secret)?)?;
        if !secret.is_empty() {
            return slot.write(format!("{}\n", secret.text()).as_bytes());
        }
        match fs::remove_file(slot.path()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(HomeError::from_io(slot.path(), e)),
            _ => slot::sync_dir(&self.dir).map_err(|e| HomeError::from_io(&self.dir, e)),
        }
    }

    /// Returns the peers of the last run. If the file is damaged there are none, and the error is a warning to log:
    /// this list only makes a restart quicker.
    pub fn peers(&self) -> (Vec<Remembered>, Option<HomeError>) {
        match self.read_peers() {
            Ok(peers) => (peers, None),
            Err(warning) => (Vec::new(), Some(warning)),
        }
    }

    /// Writes down the peers to try after a restart: the first [`REMEMBERED_MAX`] of them.
    pub fn set_peers(&self, peers: &[Remembered]) -> Result<(), HomeError> {
        let line = |peer: &Remembered| PeerLine {
            id: peer.id.to_string(),
            incarnation: peer.incarnation,
            endpoints: peer.endpoints.iter().take(ENDPOINTS_MAX).copied().collect(),
        };
        let peers = peers.iter().take(REMEMBERED_MAX).map(line).collect();
        self.slot("peers.json").write_json(&PeersFile { peers })
    }

    /// Sets the store aside, with all files beside it, in a directory `store.discarded-<n>`. Returns that directory, or
    /// `None` if there is no store. To be done before the store is opened.
    ///
    /// `store.format` goes first: a store without it is refused, so a crash halfway never opens half a store. Called
    /// again, this moves the rest.
    pub fn discard_store(&self) -> Result<Option<PathBuf>, HomeError> {
        let failed = |e| HomeError::from_io(&self.dir, e);
        let (mut files, mut last) = (Vec::new(), 0_u64);
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(number) = name.strip_prefix(DISCARDED) {
                last = last.max(number.parse().unwrap_or(0));
            } else if name == "store" || name.starts_with("store.") && !name.starts_with("store.damaged-") {
                files.push(name.to_owned());
            }
        }
        if files.is_empty() {
            return Ok(None);
        }
        files.sort_by_key(|name| (name != "store.format", name.clone()));
        let aside = self.dir.join(format!("{DISCARDED}{}", last + 1));
        create(&aside)?;
        for name in files {
            fs::rename(self.dir.join(&name), aside.join(&name)).map_err(failed)?;
            slot::sync_dir(&aside).map_err(failed)?;
            slot::sync_dir(&self.dir).map_err(failed)?;
        }
        Ok(Some(aside))
    }

    /// Returns the file of the book of join tokens.
    pub(crate) fn tokens_slot(&self) -> Slot {
        self.slot("tokens.json")
    }

    /// Makes sure that files can be made here: the lock file alone may be older than the right to do so.
    fn probe(&self) -> Result<(), HomeError> {
        let probe = self.slot("probe");
        probe.write(b"")?;
        fs::remove_file(probe.path()).map_err(|e| HomeError::from_io(probe.path(), e))
    }

    /// Returns a file of this directory.
    pub(crate) fn slot(&self, name: &str) -> Slot {
        Slot::new(&self.dir, name, &self.lock)
    }

    /// Reads `cluster.json` alone.
    fn membership(&self) -> Result<Option<Membership>, HomeError> {
        let slot = self.slot("cluster.json");
        let Some(bytes) = slot.read()? else { return Ok(None) };
        let file: ClusterFile = serde_json::from_slice(&bytes).map_err(|e| slot.damaged(e.to_string()))?;
        let key = PublicKey::from_text(&file.key).ok_or_else(|| slot.damaged("the key is not one"))?;
        let certificate = |hex: String| {
            let bytes =
                text::unhex(&hex).ok_or_else(|| slot.damaged("the certificate is not hexadecimal"))?;
            Certificate::decode(&bytes).map_err(|e| slot.damaged(e.to_string()))
        };
        let certificate = file.certificate.map(certificate).transpose()?;
        let cluster = Cluster::member(&file.name, key).map_err(|e| slot.damaged(e.to_string()))?;
        let overlay = match &file.overlay {
            None => OverlayKind::Pastry,
            Some(name) => overlays::by_name(name)
                .ok_or_else(|| slot.damaged(format!("it names an overlay unknown here, {name:?}")))?,
        };
        let lineage = |text: String| {
            let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u64::from_str_radix(&text, 16).ok().filter(|_| digits);
            number.ok_or_else(|| slot.damaged("the lineage is not 16 hexadecimal digits"))
        };
        let lineage = file.lineage.map(lineage).transpose()?;
        let protocol = Protocol::read(overlay, &file.protocol).map_err(|why| slot.damaged(why))?;
        let ClusterFile { had_peers, discarded, copies_version, .. } = file;
        Ok(Some(Membership { cluster, certificate, had_peers, protocol, copies_version, lineage, discarded }))
    }

    /// Adds the secret to what is known of a cluster, if it is the right one.
    fn with_secret(&self, known: &Cluster, secret: &Secret) -> Result<Cluster, HomeError> {
        Cluster::with_secret(known.name(), secret)
            .ok()
            .filter(|cluster| cluster.id() == known.id())
            .ok_or_else(|| {
                let path = self.slot("cluster.secret").path().to_owned();
                HomeError::WrongSecret { path, cluster: known.name().to_owned() }
            })
    }

    /// Says whether this node had peers, and fails if those were of another cluster than this.
    fn refuse_another(&self, cluster: &Cluster) -> Result<bool, HomeError> {
        match self.membership()?.filter(|stored| stored.had_peers) {
            Some(stored) if stored.cluster.id() != cluster.id() => {
                let found = stored.cluster.name().to_owned();
                Err(HomeError::OtherCluster { path: self.dir.clone(), found })
            }
            stored => Ok(stored.is_some()),
        }
    }

    fn incarnation(&self) -> Result<u32, HomeError> {
        let slot = self.slot("incarnation");
        match slot.read()? {
            None => Ok(0),
            Some(bytes) => number(&bytes).ok_or_else(|| slot.damaged("it does not hold a number")),
        }
    }

    fn set_incarnation(&self, incarnation: u32) -> Result<(), HomeError> {
        self.slot("incarnation").write(format!("{incarnation}\n").as_bytes())
    }

    fn read_peers(&self) -> Result<Vec<Remembered>, HomeError> {
        let slot = self.slot("peers.json");
        let Some(bytes) = slot.read()? else { return Ok(Vec::new()) };
        let file: PeersFile = serde_json::from_slice(&bytes).map_err(|e| slot.damaged(e.to_string()))?;
        let peer = |line: PeerLine| {
            let id = line.id.parse().map_err(|e| slot.damaged(format!("id {:?}: {e}", line.id)))?;
            let mut endpoints = line.endpoints;
            endpoints.truncate(ENDPOINTS_MAX);
            Ok(Remembered { id, incarnation: line.incarnation, endpoints })
        };
        file.peers.into_iter().take(REMEMBERED_MAX).map(peer).collect()
    }
}

/// `cluster.json`.
#[derive(Serialize, Deserialize)]
struct ClusterFile {
    name: String,
    key: String,
    certificate: Option<String>,
    had_peers: bool,
    #[serde(default)]
    overlay: Option<String>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    protocol: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    copies_version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lineage: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    discarded: bool,
}

/// `peers.json`.
#[derive(Serialize, Deserialize)]
struct PeersFile {
    peers: Vec<PeerLine>,
}

#[derive(Serialize, Deserialize)]
struct PeerLine {
    id: String,
    incarnation: u32,
    endpoints: Vec<SocketAddr>,
}

/// Makes the directory, for its owner only, unless it is there.
fn create(dir: &Path) -> Result<(), HomeError> {
    let failed = |e| HomeError::from_io(dir, e);
    match fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(HomeError::NotADirectory { path: dir.to_owned() }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(dir).map_err(failed)
        }
        Err(e) => Err(failed(e)),
    }
}

/// Locks the directory for this process and leaves the pid behind for whoever is refused.
fn take_lock(dir: &Path) -> Result<File, HomeError> {
    let path = dir.join("lock");
    let failed = |e| HomeError::from_io(&path, e);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = slot::private(&mut options).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // Best effort: the holder may not have written it yet, and some systems forbid reading a locked file.
            let pid = file.take(32).read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(HomeError::InUse { path: dir.to_owned(), pid });
        }
        Err(TryLockError::Error(e)) => return Err(failed(e)),
    }
    file.set_len(0).map_err(failed)?;
    file.rewind().map_err(failed)?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes()).map_err(failed)?;
    Ok(file)
}

/// Reads a file that holds one decimal number and a line end.
fn number(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_suffix(b"\n")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Writes the key file: a title, the seed, and the node's id, by which damage shows.
fn write_key(identity: &Identity) -> String {
    format!("{KEY_TITLE}\n{}\n{}\n", text::hex(identity.seed()), identity.id())
}

fn read_key(bytes: &[u8]) -> Result<Identity, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let lines: Vec<&str> = text.lines().collect();
    let [KEY_TITLE, seed, id] = lines[..] else { return Err("it is not a key file of this format") };
    let seed = text::unhex(seed).and_then(|seed| seed.try_into().ok()).ok_or("the key has a wrong length")?;
    let identity = Identity::from_seed(seed);
    if identity.id().to_string() != id {
        return Err("the key does not belong to the id beside it");
    }
    Ok(identity)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
