//! `table --example` and `route --example`: nodes that need no network.

use std::ffi::OsString;

use kringle_core::id::Id;

use crate::canned;
use crate::failure::Failure;
use crate::notation::Notation;
use crate::output::document;
use crate::route;
use crate::table;
use crate::teaching::{Sizes, Teaching};

/// Which teaching node `table` shows.
pub(crate) struct Drawn {
    /// `lecture`, or b, digits and file.
    pub(crate) example: Vec<OsString>,
    /// Members of the leaf set.
    pub(crate) leaf_set: Option<u16>,
    /// Members of the neighbourhood set.
    pub(crate) neighbourhood: Option<u16>,
}

/// What `route` explains.
pub(crate) struct Explained {
    /// The key; without one, the lecture's two.
    pub(crate) key: Option<String>,
    /// The file that describes the node.
    pub(crate) table: Option<OsString>,
    /// Its base and digits.
    pub(crate) notation: Option<(String, String)>,
    /// Members of the leaf set.
    pub(crate) leaf_set: Option<u16>,
}

/// Prints the tables of a teaching node.
pub(crate) fn table(args: &Drawn, json: bool) -> Result<String, Failure> {
    let node = match args.example.as_slice() {
        [name] if name == "lecture" => {
            if args.leaf_set.is_some() || args.neighbourhood.is_some() {
                return Err(Failure::usage(
                    "the lecture's node is a fixed picture; --leaf-set and --neighbourhood cannot change it",
                    "Leave them out, or describe a node of your own: kringle table --example B DIGITS FILE",
                ));
            }
            canned::lecture()
        }
        [b, digits, file] => {
            let notation = Notation::read(&b.to_string_lossy(), &digits.to_string_lossy())?;
            let sizes = Sizes::new(notation, args.leaf_set, args.neighbourhood);
            Teaching::read(file, notation, sizes)?
        }
        [name] => {
            return Err(Failure::usage(
                format!("there is no example {name:?}"),
                "Write --example lecture, or --example B DIGITS FILE for a node of your own.",
            ));
        }
        _ => {
            return Err(Failure::usage(
                "--example B DIGITS FILE needs all three values",
                "For instance: kringle table --example 2 8 ring.txt",
            ));
        }
    };
    Ok(if json { document(&table::json(&node)) } else { table::text(&node) })
}

/// Explains the decisions of a teaching node.
pub(crate) fn route(args: Explained, json: bool) -> Result<String, Failure> {
    let read_key = |text: &str, notation: Notation| -> Result<Id, Failure> {
        notation.parse(text).map_err(|failure| failure.at(format_args!("key {text:?}")))
    };
    let mut cases: Vec<(Teaching, Id)> = Vec::new();
    match (args.key, args.table, args.notation) {
        (Some(key), Some(file), Some((b, digits))) => {
            let notation = Notation::read(&b, &digits)?;
            // The key first: it is the cheaper mistake to find, and a file from a pipe can be read only once.
            let key = read_key(&key, notation)?;
            cases.push((Teaching::read(&file, notation, Sizes::new(notation, args.leaf_set, None))?, key));
        }
        (Some(key), ..) => {
            let key = read_key(&key, canned::full_row().notation())?;
            let own = canned::route_cases().into_iter().find(|(_, canned)| *canned == key);
            cases.push(own.unwrap_or_else(|| (canned::full_row(), key)));
        }
        (None, ..) => cases.extend(canned::route_cases()),
    }
    let explanations: Vec<_> = cases.iter().map(|(node, key)| route::explain(node, *key)).collect();
    Ok(if json {
        document(&route::json(&explanations))
    } else {
        let texts: Vec<String> = explanations.iter().map(route::text).collect();
        texts.join("\n")
    })
}
