//! What `start` says: to the person who started it, and to scripts.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use kringle_front::errors::Kind;
use kringle_runtime::descriptors::Shares;
use kringle_runtime::handle::Info;
use kringle_runtime::report::Summary;
use kringle_runtime::{Seed, StartError};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::show::count;

/// What there is to say about a node that has just been started.
pub(super) struct Started<'a> {
    /// What does not change.
    pub(super) info: &'a Info,
    /// Where clients reach it.
    pub(super) http: Option<SocketAddr>,
    /// Its data directory.
    pub(super) data: Option<&'a Path>,
    /// Whom it joins.
    pub(super) seeds: &'a [Seed],
    /// How many files and connections it may have.
    pub(super) files: Option<Shares>,
}

impl Started<'_> {
    /// Writes the block that a person sees first.
    pub(super) fn text(&self) -> String {
        let info = self.info;
        let list = |addresses: &[SocketAddr]| {
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join("  ")
        };
        let elsewhere = if info.advertised == info.bound {
            String::new()
        } else {
            format!("   (peers are told {})", list(&info.advertised))
        };
        let data = match self.data {
            Some(path) => path.display().to_string(),
            None => {
                "memory only: identity and peers are forgotten when it ends (--data DIR keeps them)".into()
            }
        };
        let seeds: Vec<String> = self.seeds.iter().map(Seed::to_string).collect();
        let ring = match (info.founded, seeds.is_empty()) {
            (true, _) => "founded a new ring".into(),
            (false, true) => "coming back through the peers it knew".into(),
            (false, false) => format!("joining through {}", seeds.join(", ")),
        };
        let files = self.files.map_or(String::new(), |shares| format!("\nfiles    {shares}"));
        let http = self.http.map_or("off".into(), |address| format!("http://{address}"));
        format!(
            "node     {}   incarnation {}\ncluster  {}   {ring}\npeers    {}{elsewhere}\nhttp     {http}\ndata     {data}{files}",
            info.id,
            info.incarnation,
            info.cluster,
            list(&info.bound),
        )
    }

    /// Returns the same for scripts.
    pub(super) fn document(&self) -> Value {
        let info = self.info;
        json!({
            "schema": "kringle.ready/1",
            "id": info.id.to_string(),
            "incarnation": info.incarnation,
            "cluster": info.cluster,
            "pid": std::process::id(),
            "peers": info.bound,
            "advertised": info.advertised,
            "http": self.http.map(|address| address.to_string()),
        })
    }
}

/// Says how to bring the next node in.
pub(super) fn invitation(info: &Info, token: &str) -> String {
    let seed = info.advertised.first().map_or("HOST:7400".into(), ToString::to_string);
    format!(
        "join     kringle start --cluster {} --listen 0.0.0.0 --data DIR --join {seed} --token {token}\n         \
         The token is for one node and one hour; 'kringle token new' makes more.",
        info.cluster
    )
}

/// Says how many nodes there are, as far as this one can tell.
pub(super) fn company(me: &Summary) -> String {
    let nodes = me.leaves + 1;
    let is_all = match &me.mode {
        Some(mode) => mode == "forming",
        None => me.leaves < usize::from(me.leaf_set),
    };
    if is_all { count(nodes, "node") } else { format!("at least {nodes} nodes") }
}

/// Writes the file that scripts wait for, all at once.
pub(super) fn write_ready(path: &Path, document: &Value) -> Result<(), Failure> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let written =
        std::fs::write(&partial, format!("{document:#}\n")).and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|error| {
        let what = format!("cannot write {}: {error}", path.display());
        Failure::failed(what, "Name a file in a directory that can be written with --ready-file.")
    })
}

/// Removes the file of an earlier life, which would be taken for this one's.
pub(super) fn remove_ready(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let what = format!("cannot remove {}: {error}", path.display());
            Err(Failure::failed(what, "Remove it by hand, or name another file with --ready-file."))
        }
        _ => Ok(()),
    }
}

/// Says why a node was not started.
pub(super) fn not_started(error: &StartError) -> Failure {
    let code = match error {
        StartError::Config(_) | StartError::Input { .. } => 2,
        StartError::WrongCluster { .. } => Kind::Misdirected.row().exit,
        StartError::Home { in_use: true, .. } => 7,
        StartError::Listen { .. } | StartError::Home { .. } | StartError::System(_) => 1,
    };
    Failure::coded(code, error.to_string(), error.remedy())
}

#[cfg(test)]
mod tests {
    use kringle_core::id::Id;

    use super::*;
    use crate::show::samples::summary;

    fn info() -> Info {
        Info {
            id: Id::new(0x1d77e0 << 104),
            incarnation: 7,
            cluster: "blue".into(),
            bound: vec![([127, 0, 0, 1], 7400).into()],
            advertised: vec![([127, 0, 0, 1], 7400).into()],
            payload_max: 1,
            founded: true,
        }
    }

    #[test]
    fn the_first_words_name_everything_a_person_needs() {
        let mut info = info();
        let http = Some(([127, 0, 0, 1], 7480).into());
        let text = "\
node     1d77e000000000000000000000000000   incarnation 7
cluster  blue   founded a new ring
peers    127.0.0.1:7400
http     http://127.0.0.1:7480
data     memory only: identity and peers are forgotten when it ends (--data DIR keeps them)";
        assert_eq!(Started { info: &info, http, data: None, seeds: &[], files: None }.text(), text);
        info.founded = false;
        info.bound = vec![([0, 0, 0, 0], 7400).into()];
        let seeds = ["host-a".parse().unwrap(), "10.0.0.1:1".parse().unwrap()];
        let text =
            Started { info: &info, http: None, data: Some(Path::new("blue")), seeds: &seeds, files: None }
                .text();
        assert!(text.contains("joining through host-a:7400, 10.0.0.1:1\n"), "{text}");
        assert!(text.contains(
            "peers    0.0.0.0:7400   (peers are told 127.0.0.1:7400)\nhttp     off\ndata     blue"
        ));
    }

    #[test]
    fn scripts_learn_the_bound_addresses() {
        let path = std::env::temp_dir().join(format!("kringle-ready-{}", std::process::id()));
        let info = info();
        let started = Started { info: &info, http: None, data: None, seeds: &[], files: None };
        remove_ready(&path).unwrap();
        write_ready(&path, &started.document()).unwrap();
        let read: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        remove_ready(&path).unwrap();
        assert_eq!(read["peers"][0], "127.0.0.1:7400");
        assert_eq!(read["http"], Value::Null);
        assert!(write_ready(Path::new("no/such/dir/file"), &read).is_err());
    }

    #[test]
    fn each_way_not_to_start_has_its_exit_code() {
        let (what, remedy) = ("w".to_owned(), "r".to_owned());
        let home = |in_use| StartError::Home { what: what.clone(), remedy: remedy.clone(), in_use };
        let listen = StartError::Listen {
            address: ([127, 0, 0, 1], 1).into(),
            source: io::Error::from(io::ErrorKind::AddrInUse),
        };
        let input = StartError::Input { what: what.clone(), remedy: remedy.clone() };
        let system = StartError::System(io::Error::other("x"));
        for (error, code) in [(input, 2), (listen, 1), (home(false), 1), (home(true), 7), (system, 1)] {
            assert_eq!(not_started(&error).code(), code, "{error}");
        }
    }

    #[test]
    fn a_node_says_how_many_it_sees() {
        let mut me = summary("1d77e0", None, 7400);
        me.leaves = 0;
        assert_eq!(company(&me), "1 node");
        me.leaves = 8;
        assert_eq!(company(&me), "at least 9 nodes");
    }

    #[test]
    fn the_invitation_can_be_pasted() {
        let line = invitation(&info(), "kj1-x");
        assert!(
            line.contains("--cluster blue") && line.contains("--join 127.0.0.1:7400 --token kj1-x\n"),
            "{line}"
        );
    }
}
