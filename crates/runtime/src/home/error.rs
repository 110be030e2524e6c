//! What can be wrong with a data directory, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a data directory cannot be used. What it holds is as it was; none of this happens in healthy operation.
#[derive(Debug, Error)]
pub enum HomeError {
    /// There is something else under that name, or under that of a parent.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The path that was given.
        path: PathBuf,
    },
    /// This user may not write there, or the file system is read-only.
    #[error("{} cannot be written", path.display())]
    Unwritable {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("{} is in use by {}", path.display(), holder(*pid))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other process, if it could be found out.
        pid: Option<u32>,
    },
    /// A later version of Kringle wrote it.
    #[error("{} was written by a newer version of Kringle (format {found}; this one reads formats up to {known})", path.display())]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The last one this build knows.
        known: u32,
    },
    /// Others than the owner may read a secret.
    #[error("{} can be read by others (mode {mode:03o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file does not hold what it should.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The node was a member of a cluster, but its key is gone.
    #[error("{} is missing, although this node was a member of a cluster", path.display())]
    KeyMissing {
        /// Where the key should be.
        path: PathBuf,
    },
    /// The directory belongs to a member of another cluster.
    #[error("{} belongs to a node of cluster {found}", path.display())]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// The name of the cluster it belongs to.
        found: String,
    },
    /// What is stored there belongs to another node.
    #[error("{} holds the store of node {found}", path.display())]
    OtherNode {
        /// The directory.
        path: PathBuf,
        /// The node it belongs to.
        found: String,
    },
    /// The secret does not make the key that the cluster has.
    #[error("{} does not hold the secret of cluster {cluster}", path.display())]
    WrongSecret {
        /// The secret's file.
        path: PathBuf,
        /// The name of the cluster.
        cluster: String,
    },
    /// Anything else: the disk is full or broken.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl HomeError {
    /// Sorts an error of the system into a cause.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> HomeError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                HomeError::Unwritable { path, source }
            }
            io::ErrorKind::NotADirectory => HomeError::NotADirectory { path },
            _ => HomeError::Io { path, source },
        }
    }

    /// Says whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, HomeError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }

    /// Says what to do, in a sentence for the operator.
    pub fn remedy(&self) -> String {
        match self {
            HomeError::NotADirectory { .. } => {
                "name a directory, or a path that does not exist yet".to_owned()
            }
            HomeError::Unwritable { path, .. } => {
                format!("give the user that runs Kringle the right to read and write {}", path.display())
            }
            HomeError::InUse { pid: Some(pid), .. } => {
                format!("stop process {pid}, or give this node a data directory of its own")
            }
            HomeError::InUse { pid: None, .. } => {
                "stop the other process, or give this node a data directory of its own".to_owned()
            }
            HomeError::Newer { .. } => {
                "start the newer kringle, or use another --data directory; nothing was changed".to_owned()
            }
            HomeError::Exposed { path, .. } => format!("run: chmod 600 '{}'", path.display()),
            HomeError::Damaged { path, .. } => match path.file_name().and_then(|name| name.to_str()) {
                Some("node.key") => format!(
                    "restore {} from a backup; to start as a new node instead, use an empty data directory",
                    path.display()
                ),
                Some("cluster.secret") => {
                    format!("restore {} from another member of the cluster", path.display())
                }
                Some("tokens.json") => {
                    format!("remove {}; all join tokens made by this node become void", path.display())
                }
                Some("incarnation") => {
                    format!("remove {} if the clock is right: a new one is made from it", path.display())
                }
                Some("store.format" | "store.mark" | "store.salvaged" | "store") => {
                    "put back the store that belongs to this node; or remove store, store.format and store.mark: \
                     the node starts with an empty store, and fills it from the others"
                        .to_owned()
                }
                _ => format!("restore {} from a backup", path.display()),
            },
            HomeError::KeyMissing { path } => format!(
                "restore {} from a backup; to start as a new node instead, use an empty data directory",
                path.display()
            ),
            HomeError::OtherCluster { .. } => {
                "give the right cluster name and secret, or use another data directory".to_owned()
            }
            HomeError::OtherNode { .. } => {
                "give every node its own data directory back; do not piece directories together".to_owned()
            }
            HomeError::WrongSecret { .. } => "copy the secret from another member of the cluster".to_owned(),
            error if error.is_full() => {
                "free some space on this disk".to_owned()
            }
            HomeError::Io { .. } => "check the disk, then start again".to_owned(),
        }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}
