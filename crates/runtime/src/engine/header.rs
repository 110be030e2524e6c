//! Two small files beside the database: whose it is, and how far it had come when somebody last looked.
//!
//! The database notices a damaged end of its journal, but takes it for a write that a crash interrupted: it drops the
//! rest and says nothing. Whoever counted outside knows better.

use kringle_core::config::ClusterId;
use kringle_core::id::NodeId;
use serde::{Deserialize, Serialize};

use crate::home::{Home, HomeError, Slot};
use crate::identity::text;

/// The format of the store that this build writes, and the only one it reads.
const FORMAT: u32 = 1;
/// The engine this build stores with.
const ENGINE: &str = "fjall-3";

/// Whose store it is.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The node.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: ClusterId,
}

/// `store.format`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Format {
    format: u32,
    engine: String,
    node: String,
    cluster: String,
    /// Names this filling of the store: another one since it was last empty.
    pub(super) born: u32,
    /// Whether it has been made. If not, whatever is there is left over from an attempt.
    pub(super) made: bool,
}

/// The part of [`Format`] that every version has.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Format {
    /// Describes a store that is about to be made.
    pub(super) fn new(owner: &Owner) -> std::io::Result<Format> {
        Ok(Format {
            format: FORMAT,
            engine: ENGINE.into(),
            node: owner.node.to_string(),
            cluster: text::hex(&owner.cluster.0),
            born: birth()?,
            made: false,
        })
    }

    /// Reads what is there, and refuses a store that is not this node's or can not be understood.
    pub(super) fn read(home: &Home, slot: &Slot, owner: &Owner) -> Result<Option<Format>, HomeError> {
        let Some(bytes) = slot.read()? else { return Ok(None) };
        let damaged = |e: serde_json::Error| slot.damaged(e.to_string());
        let Version { format } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if format != FORMAT {
            let path = slot.path().to_owned();
            return Err(HomeError::Newer { path, found: format, known: FORMAT });
        }
        let found: Format = serde_json::from_slice(&bytes).map_err(damaged)?;
        if found.engine != ENGINE {
            return Err(slot.damaged(format!("it names an engine unknown here, {:?}", found.engine)));
        }
        if found.node != owner.node.to_string() {
            return Err(HomeError::OtherNode { path: home.dir().to_owned(), found: found.node });
        }
        if found.cluster != text::hex(&owner.cluster.0) {
            return Err(HomeError::OtherCluster { path: slot.path().to_owned(), found: found.cluster });
        }
        if found.born == 0 {
            return Err(slot.damaged("it has no number of birth"));
        }
        Ok(Some(found))
    }
}

/// `store.mark`: what is known to be on the disk for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Which filling of the store it is about.
    pub(super) born: u32,
    /// Commits that had been synced.
    pub(super) commits: u64,
    /// Whether the store failed to read something: all of it is to be read before it is used again.
    #[serde(default)]
    pub(super) condemned: bool,
}

/// Returns a number for a store that begins empty; never 0.
pub(super) fn birth() -> std::io::Result<u32> {
    loop {
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        let born = u32::from_be_bytes(bytes);
        if born != 0 {
            return Ok(born);
        }
    }
}
