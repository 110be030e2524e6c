//! Teaching nodes: the product's own router, filled from a list of ids instead of a network.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};

use kringle_core::config::Settings;
use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::id::Id;
use kringle_core::overlay::pastry::leaf_set::Source;
use kringle_core::overlay::pastry::router::Router;

use crate::failure::Failure;
use crate::notation::Notation;

/// More than any table to be read by a person, and little enough to hold in memory.
const FILE_MAX: u64 = 64 << 20;

/// How many members the two sets of a node may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Both sides of the leaf set together.
    pub(crate) leaf_set: u16,
    /// The neighbourhood set.
    pub(crate) neighbourhood: u16,
}

impl Sizes {
    /// Takes what was asked for, else 2^b, the lecture's usual size for both sets.
    pub(crate) fn new(notation: Notation, leaf_set: Option<u16>, neighbourhood: Option<u16>) -> Sizes {
        let usual = notation.base().columns();
        Sizes { leaf_set: leaf_set.unwrap_or(usual), neighbourhood: neighbourhood.unwrap_or(usual) }
    }
}

/// A node to learn from.
#[derive(Clone, Debug)]
pub(crate) struct Teaching {
    notation: Notation,
    sizes: Sizes,
    router: Router,
}

impl Teaching {
    /// Makes a teaching node of a router that was filled elsewhere.
    pub(crate) fn new(notation: Notation, sizes: Sizes, router: Router) -> Teaching {
        Teaching { notation, sizes, router }
    }

    /// Makes a node that has met the others in this order, which is also their order of proximity.
    pub(crate) fn from_ids(
        notation: Notation,
        sizes: Sizes,
        me: Id,
        others: impl IntoIterator<Item = Id>,
    ) -> Teaching {
        let settings = Settings {
            base: notation.base(),
            leaf_set: sizes.leaf_set,
            neighbourhood: sizes.neighbourhood,
            // What is not printed must not route: no spares behind the cells.
            spares: 0,
            ..Settings::lab()
        };
        let mut router = Router::new(contact(me), &settings);
        for (proximity, other) in (1..).zip(others) {
            router.add(contact(other), Proximity(proximity), Source::Leaf, &settings);
        }
        Teaching { notation, sizes, router }
    }

    /// Reads a node from a file, or from standard input if it is called `-`.
    pub(crate) fn read(file: &OsStr, notation: Notation, sizes: Sizes) -> Result<Teaching, Failure> {
        let (name, bytes) = if file == "-" {
            ("stdin".to_owned(), read_all(io::stdin().lock()))
        } else {
            (file.to_string_lossy().into_owned(), File::open(file).and_then(read_all))
        };
        let bytes = bytes.map_err(|error| {
            Failure::usage(
                format!("cannot read it: {error}"),
                "Name a readable text file with one node id per line, or - for standard input.",
            )
            .at(&name)
        })?;
        Teaching::parse(&bytes, &name, notation, sizes)
    }

    /// Reads a node from the bytes of a file; `name` is for messages.
    fn parse(bytes: &[u8], name: &str, notation: Notation, sizes: Sizes) -> Result<Teaching, Failure> {
        let mut ids: Vec<Id> = Vec::new();
        let mut seen: HashMap<Id, usize> = HashMap::new();
        // Some editors put a byte order mark in front.
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let at = |failure: Failure| failure.at(format_args!("{name}:{line}"));
            let text = str::from_utf8(text).map_err(|_| {
                at(Failure::usage(
                    "this line is not UTF-8 text",
                    "Save the file as plain text: one id per line.",
                ))
            })?;
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let id = notation.parse(text).map_err(at)?;
            if let Some(first) = seen.insert(id, line) {
                let what = if ids.first() == Some(&id) {
                    format!("{text} is the node itself (line {first}), and a node is never in its own tables")
                } else {
                    format!("{text} is on line {first} already")
                };
                return Err(at(Failure::usage(what, "Remove this line: every id stands in the file once.")));
            }
            ids.push(id);
        }
        let Some((me, others)) = ids.split_first() else {
            return Err(Failure::usage(
                "there is no id in it",
                format!(
                    "The first line is the node's own id, each further line another node. {}",
                    notation.rule()
                ),
            )
            .at(name));
        };
        Ok(Teaching::from_ids(notation, sizes, *me, others.iter().copied()))
    }

    /// Returns how ids are written.
    pub(crate) fn notation(&self) -> Notation {
        self.notation
    }

    /// Returns how large the sets may be.
    pub(crate) fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Returns what the node routes by.
    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    /// Returns the node's own id.
    pub(crate) fn me(&self) -> Id {
        self.router.me().id
    }
}

/// Teaching nodes live nowhere and only once: the id is all there is to them.
pub(crate) fn contact(id: Id) -> Contact {
    Contact::new(id, 0, Addr::default())
}

fn read_all(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(io::Error::other("it is larger than 64 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use kringle_core::id::Base;

    use super::*;

    const BASE_4: Base = Base::new(2).expect("2 is from 1 to 8");

    fn parse(text: &[u8]) -> Result<Teaching, String> {
        let notation = Notation::new(2, 4).unwrap();
        let sizes = Sizes::new(notation, None, None);
        Teaching::parse(text, "ring.txt", notation, sizes).map_err(|failure| failure.to_string())
    }

    #[test]
    fn comments_blanks_marks_and_line_ends_do_not_matter() {
        let plain = parse(b"1023\n3120\n0001\n").unwrap();
        let fancy = parse(b"\xef\xbb\xbf# me\r\n\r\n 1023 \r\n\t# others\n3120\n\n0001").unwrap();
        assert_eq!(plain.router(), fancy.router());
        assert_eq!(plain.notation().text(plain.me()), "1023");
        plain.router().check_invariants();
    }

    #[test]
    fn a_node_alone_is_a_node() {
        assert!(parse(b"1023").unwrap().router().leaf_set().is_empty());
    }

    #[test]
    fn nobody_routes_unseen() {
        // Far more nodes than cells: the rest must not be kept as spares, which no printed table shows.
        let crowd: Vec<String> = (0..256u32).map(|n| Id::new(u128::from(n) << 120).text(BASE_4, 4)).collect();
        let node = parse(crowd.join("\n").as_bytes()).unwrap();
        assert_eq!(node.router().table().all().count(), node.router().table().holders().count());
        assert_eq!(node.router().table().holders().count(), 4 * 3);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let cases: [(&[u8], &str); 8] = [
            (b"", "ring.txt: there is no id in it"),
            (b"# nothing\n\n", "ring.txt: there is no id in it"),
            (b"1023\n\n102\n", "ring.txt:3: an id has 4 digits, this has 3"),
            (b"1024\n", "ring.txt:1: digit 4, \"4\", is not possible"),
            (b"1023\n3120\n3120\n", "ring.txt:3: 3120 is on line 2 already"),
            (b"#\n1023\n3120\n1023\n", "ring.txt:4: 1023 is the node itself (line 2)"),
            (b"1023\n\xff\xff\n", "ring.txt:2: this line is not UTF-8 text"),
            (b"1023 3120\n", "ring.txt:1: an id has 4 digits, this has 9"),
        ];
        for (text, wanted) in cases {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with(&format!("kringle: {wanted}")), "{said}");
            assert_eq!(said.lines().count(), 2, "cause and remedy: {said}");
        }
    }

    #[test]
    fn a_file_without_end_is_refused() {
        assert!(read_all(io::repeat(b'0')).is_err());
        assert!(read_all(io::empty()).unwrap().is_empty());
    }
}
