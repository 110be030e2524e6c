//! The nodes drawn in the lecture on Pastry, cell by cell.
//!
//! A drawn node is a state, not a history: no order of arrivals leads to all of it (the lecture's neighbourhood set
//! has 31301233 before 31203203, yet the latter holds their cell). So the parts are filled as drawn, and every place
//! is checked against the product's own tables.

use std::fmt;

use kringle_core::contact::Proximity;
use kringle_core::id::Id;
use kringle_core::overlay::pastry::leaf_set::{LeafSet, Source};
use kringle_core::overlay::pastry::neighbourhood::Neighbourhood;
use kringle_core::overlay::pastry::router::Router;
use kringle_core::overlay::pastry::routing_table::RoutingTable;

use crate::notation::Notation;
use crate::teaching::{Sizes, Teaching, contact};

/// A node as drawn on a slide.
#[derive(Clone, Copy)]
struct Picture<'a> {
    b: u8,
    digits: u8,
    me: &'a str,
    /// Counter-clockwise leaves, nearest first.
    smaller: &'a [&'a str],
    /// Clockwise leaves, nearest first.
    larger: &'a [&'a str],
    /// The routing table; an empty text is an empty cell.
    rows: &'a [&'a [&'a str]],
    /// The neighbourhood set, nearest first.
    neighbours: &'a [&'a str],
}

/// The complete state of node 10233102. One slide prints a seven-digit 1022302 in row 3; the others have 10222302.
const LECTURE: Picture<'static> = Picture {
    b: 2,
    digits: 8,
    me: "10233102",
    smaller: &["10233033", "10233021", "10233001", "10233000"],
    larger: &["10233120", "10233122", "10233230", "10233232"],
    rows: &[
        &["02212102", "", "22301203", "31203203"],
        &["", "11301233", "12230203", "13021022"],
        &["10031203", "10132102", "", "10323302"],
        &["10200230", "10211302", "10222302", ""],
        &["10230322", "10231000", "10232121", ""],
        &["10233001", "", "10233232", ""],
        &["", "", "10233120", ""],
        &["", "", "", ""],
    ],
    neighbours: &[
        "13021022", "10200230", "11301233", "31301233", "02212102", "22301203", "31203203", "33213321",
    ],
};

/// Node 65a1fc04 with three full rows. The slides write x for the digits that do not matter and dots for most leaves:
/// these are filled in here.
const FULL_ROW: Picture<'static> = Picture {
    b: 4,
    digits: 8,
    me: "65a1fc04",
    smaller: &[
        "65a1fc01", "65a1fbf2", "65a1fbd7", "65a1fbc4", "65a1fba8", "65a1fb91", "65a1fb86", "65a1fb80",
    ],
    larger: &["65a1fc07", "65a1fc13", "65a1fc2a", "65a1fc38", "65a1fc51", "65a1fc6c", "65a1fc80", "65a1fc9e"],
    rows: &[
        ROW_0,
        ROW_1,
        &[
            "6508c7e3", "65194fb2", "652be60d", "6533a871", "6547d1e0", "655e0c94", "6562b93f", "657f1a46",
            "6586d05c", "6590e7b8", "", "65b7d21c", "65c4386e", "65dd9f03", "65e1b4a7", "65fa6c25",
        ],
    ],
    neighbours: &[],
};

/// The same node with gaps in row 2: no node is known for its columns 0, 5, 6 and e.
const GAPS: Picture<'static> = Picture {
    rows: &[
        ROW_0,
        ROW_1,
        &[
            "", "65194fb2", "652be60d", "6533a871", "6547d1e0", "", "", "657f1a46", "6586d05c", "6590e7b8",
            "", "65b7d21c", "65c4386e", "65dd9f03", "", "65fa6c25",
        ],
    ],
    ..FULL_ROW
};

const ROW_0: &[&str] = &[
    "02d4e911", "1b7730c8", "24f09a5d", "3c81f26e", "4d5ea710", "5e93bb42", "", "7a0c64d9", "8816f3a5",
    "93c2de07", "a45b1890", "b7e06f3c", "c9123d84", "d28fa45b", "e6c4071f", "f15d98a2",
];

const ROW_1: &[&str] = &[
    "60b8d143", "61e47f0a", "6295c3d8", "633a0eb1", "64d7f826", "", "66491cbd", "67c05e92", "68f3b714",
    "692ed86b", "6a816f35", "6b5ca9e0", "6c07e34f", "6dda5213", "6e3f90c7", "6f94b168",
];

/// Returns the lecture's node 10233102.
pub(crate) fn lecture() -> Teaching {
    drawn(&LECTURE)
}

/// Returns the lecture's node 65a1fc04 as first drawn.
pub(crate) fn full_row() -> Teaching {
    drawn(&FULL_ROW)
}

/// Returns the lecture's two routing questions: a node and a key each.
pub(crate) fn route_cases() -> [(Teaching, Id); 2] {
    [(&FULL_ROW, "65b23c05"), (&GAPS, "65523c05")].map(|(picture, key)| {
        let node = drawn(picture);
        let key = node.notation().parse(key).expect("both keys have eight hexadecimal digits");
        (node, key)
    })
}

fn drawn(picture: &Picture<'_>) -> Teaching {
    picture.build().expect("every picture is legal: the tests build each of them")
}

/// Why a picture cannot be the state of a node.
#[derive(Debug, PartialEq, Eq)]
enum Illegal {
    /// This is not an id of the picture's notation.
    Id(String),
    /// The drawn cell is not the one this id belongs to.
    Cell { id: String, row: usize, column: usize },
    /// The leaves are not on their sides, nearest first.
    Leaves,
    /// This node is known, and nearer than one of the leaves.
    NearerThanALeaf(String),
    /// The neighbourhood set names this node twice, or it is the node itself.
    Neighbour(String),
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Illegal::Id(text) => write!(f, "{text:?} is not an id"),
            Illegal::Cell { id, row, column } => {
                write!(f, "{id} does not belong to row {row}, column {column}")
            }
            Illegal::Leaves => write!(f, "the leaves are not on their sides, nearest first"),
            Illegal::NearerThanALeaf(id) => write!(f, "{id} is nearer than a leaf, but no leaf"),
            Illegal::Neighbour(id) => write!(f, "{id} cannot be in the neighbourhood set here"),
        }
    }
}

impl Picture<'_> {
    /// Fills the product's tables as drawn.
    fn build(&self) -> Result<Teaching, Illegal> {
        let notation = Notation::new(self.b, self.digits).ok_or_else(|| Illegal::Id(String::new()))?;
        let parse = |text: &str| notation.parse(text).map_err(|_| Illegal::Id(text.to_owned()));
        let me = parse(self.me)?;
        let leaf_set = self.leaf_set(me, parse)?;
        let table = self.table(me, notation, parse)?;
        let neighbourhood = self.neighbourhood(me, parse)?;
        // A complete leaf set wants nobody who is farther than its leaves.
        let known = table.holders().map(|entry| entry.contact).chain(neighbourhood.members());
        if let Some(nearer) = known.map(|contact| contact.id).find(|id| leaf_set.wants(*id, Source::Leaf)) {
            return Err(Illegal::NearerThanALeaf(notation.text(nearer)));
        }
        let size = |members: usize| u16::try_from(members).expect("slides have room for a few nodes only");
        let sizes = Sizes {
            leaf_set: size(self.smaller.len() + self.larger.len()),
            neighbourhood: size(self.neighbours.len()),
        };
        let router = Router::from_parts(contact(me), leaf_set, table, neighbourhood);
        Ok(Teaching::new(notation, sizes, router))
    }

    fn leaf_set(&self, me: Id, parse: impl Fn(&str) -> Result<Id, Illegal>) -> Result<LeafSet, Illegal> {
        // Not the whole ring: there are nodes in the table that are no leaves.
        let mut leaves = LeafSet::partial(me, self.smaller.len(), me.plus(1 << 127));
        let smaller = self.smaller.iter().map(|text| parse(text)).collect::<Result<Vec<Id>, _>>()?;
        let larger = self.larger.iter().map(|text| parse(text)).collect::<Result<Vec<Id>, _>>()?;
        for id in smaller.iter().chain(&larger) {
            leaves.offer(contact(*id), Source::Leaf);
        }
        let as_drawn = leaves.left().map(|leaf| leaf.id).eq(smaller)
            && leaves.right().map(|leaf| leaf.id).eq(larger)
            && leaves.is_complete();
        if as_drawn { Ok(leaves) } else { Err(Illegal::Leaves) }
    }

    fn table(
        &self,
        me: Id,
        notation: Notation,
        parse: impl Fn(&str) -> Result<Id, Illegal>,
    ) -> Result<RoutingTable, Illegal> {
        let mut table = RoutingTable::new(me, notation.base(), 0);
        for (row, cells) in self.rows.iter().enumerate() {
            for (column, text) in cells.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
                let id = parse(text)?;
                let place = table.place(id).map(|(row, column)| (usize::from(row), usize::from(column)));
                if place != Some((row, column)) {
                    return Err(Illegal::Cell { id: (*text).to_owned(), row, column });
                }
                // The slides do not say how near the nodes are, and with one node per cell it does not matter.
                table.offer(contact(id), Proximity::UNKNOWN, 0);
            }
        }
        Ok(table)
    }

    fn neighbourhood(
        &self,
        me: Id,
        parse: impl Fn(&str) -> Result<Id, Illegal>,
    ) -> Result<Neighbourhood, Illegal> {
        let mut set = Neighbourhood::new(u16::MAX);
        for (proximity, text) in (1..).zip(self.neighbours) {
            let id = parse(text)?;
            if id == me || set.members().any(|known| known.id == id) {
                return Err(Illegal::Neighbour((*text).to_owned()));
            }
            set.offer(contact(id), Proximity(proximity));
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use kringle_core::message::{Rule, Stage};
    use kringle_core::overlay::NextHop;

    use super::*;

    #[test]
    fn every_picture_is_legal() {
        for picture in [LECTURE, FULL_ROW, GAPS] {
            let node = picture.build().unwrap();
            node.router().check_invariants();
            let cells =
                picture.rows.iter().flat_map(|row| row.iter()).filter(|text| !text.is_empty()).count();
            assert_eq!(node.router().table().holders().count(), cells);
            assert_eq!(node.router().neighbourhood().members().count(), picture.neighbours.len());
        }
        assert_eq!(lecture().router().table().holders().count(), 18);
    }

    #[test]
    fn an_illegal_picture_is_refused() {
        let spoilt: [(&str, Picture<'_>); 9] = [
            ("not an id", Picture { me: "1023310", ..LECTURE }),
            ("not an id", Picture { rows: &[&["1022302"]], ..LECTURE }),
            // Right row, wrong column; right column, wrong row; the node itself; the node's own digit.
            ("row 0, column 1", Picture { rows: &[&["", "02212102"]], ..LECTURE }),
            ("row 1, column 0", Picture { rows: &[&[], &["02212102"]], ..LECTURE }),
            (
                "row 7, column 2",
                Picture { rows: &[&[], &[], &[], &[], &[], &[], &[], &["", "", LECTURE.me]], ..LECTURE },
            ),
            ("row 0, column 1", Picture { rows: &[&["", "12230203"]], ..LECTURE }),
            ("leaves", Picture { smaller: LECTURE.larger, larger: LECTURE.smaller, ..LECTURE }),
            ("leaves", Picture { smaller: &["10233021", "10233033", "10233001", "10233000"], ..LECTURE }),
            ("leaves", Picture { larger: &["10233120", "10233122", "10233230", "10233230"], ..LECTURE }),
        ];
        for (why, picture) in spoilt {
            let said = picture.build().unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
        for neighbours in [&["10233102"], &["13021022", "13021022"][..]] {
            let said = Picture { neighbours, ..LECTURE }.build().unwrap_err().to_string();
            assert!(said.contains("neighbourhood"), "{said}");
        }
        let nearer = Picture { neighbours: &["10233103"], ..LECTURE }.build().unwrap_err();
        assert_eq!(nearer, Illegal::NearerThanALeaf("10233103".into()));
    }

    #[test]
    fn the_lectures_questions_have_the_lectures_answers() {
        let [(full, key), (gaps, rare)] = route_cases();
        let NextHop::Peer(peer, rule) = full.router().next_hop(key, Stage::Prefix) else { panic!() };
        assert_eq!(rule, Rule::Cell { row: 2, column: 0xb });
        assert_eq!(full.notation().prefix(peer.id, 3), "65b");
        let NextHop::Peer(peer, rule) = gaps.router().next_hop(rare, Stage::Prefix) else { panic!() };
        assert_eq!(rule, Rule::RareCase);
        assert_eq!(gaps.notation().prefix(peer.id, 3), "654");
    }

    #[test]
    fn any_654x_is_nearer_than_any_657x() {
        // The filled-in digits do not decide the rare case: the worst 654x wins against the best 657x.
        let mut row: Vec<&str> = GAPS.rows[2].to_vec();
        (row[4], row[7]) = ("65400000", "65700000");
        let node = Picture { rows: &[ROW_0, ROW_1, &row], ..GAPS }.build().unwrap();
        let key = node.notation().parse("65523c05").unwrap();
        let NextHop::Peer(peer, _) = node.router().next_hop(key, Stage::Prefix) else { panic!() };
        assert_eq!(node.notation().text(peer.id), "65400000");
    }
}
