//! The routing table: row = shared digits, column = first differing digit.
//!
//! A cell holds the nearest node by proximity and, after it, a few spares: the notes of ocaml-pastry say that an entry
//! "corresponds to a number of nodes". Rows are allocated when first used, and a row stores only its occupied cells, found through a
//! bit mask: a node of a large ring has four or five rows of sixteen, not thirty-two.

use alloc::vec::Vec;

use crate::contact::{Contact, Proximity};
use crate::id::{Base, Key, NodeId};
use crate::message::Rule;

/// A node's routing table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct RoutingTable {
    rows: Vec<Row>,
    me: NodeId,
    base: Base,
    spares: u8,
}

/// One entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The node.
    pub contact: Contact,
    /// How near it is.
    pub proximity: Proximity,
}

const _: () = assert!(size_of::<Entry>() == 28);

/// By how many cells a row grows: a row of base 16 has fifteen, apart from our own.
const STEP: usize = 8;

impl Entry {
    /// A node of which nobody says how near it is.
    pub fn unmeasured(contact: Contact) -> Entry {
        Entry { contact, proximity: Proximity::UNKNOWN }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[repr(C)]
struct Row {
    /// One bit per column that is occupied.
    occupied: [u64; 4],
    /// The occupied cells in column order.
    cells: Vec<Entry>,
    /// Spares, nearest first within a column. The column is not stored: it is a digit of the id.
    spares: Vec<Entry>,
}

/// What became of a node offered to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It fills an empty cell.
    Filled,
    /// It is clearly nearer than the holder, who becomes a spare or goes.
    Improved,
    /// It is a spare now.
    Spare,
    /// It was known; its proximity or incarnation, and its rank within the cell, are up to date now.
    Known,
    /// Holder and spares are nearer.
    TooFar,
    /// It is this node itself.
    Myself,
    /// It is known in a later incarnation.
    Stale,
    /// It is known in the same incarnation at another address.
    Conflict,
}

impl RoutingTable {
    /// Makes an empty table with up to `spares` spares per cell.
    pub fn new(me: NodeId, base: Base, spares: u8) -> RoutingTable {
        RoutingTable { me, base, spares, rows: Vec::new() }
    }

    /// Returns the number base.
    #[inline]
    pub fn base(&self) -> Base {
        self.base
    }

    /// Returns row and column of a node or key, or `None` for this node's own id.
    #[inline]
    pub fn place(&self, id: Key) -> Option<(u8, u8)> {
        let row = self.me.shared_digits(id, self.base);
        Some((row, id.digit(row, self.base)?))
    }

    /// Returns the first holder of the cell a key points to.
    #[inline]
    pub fn lookup(&self, key: Key) -> Option<(Contact, Rule)> {
        let (row, column) = self.place(key)?;
        let entry = self.rows.get(usize::from(row))?.get(column)?;
        Some((entry.contact, Rule::Cell { row, column }))
    }

    pub(super) fn warm_up(&self, id: NodeId) -> u32 {
        let place = self.place(id).and_then(|(row, column)| self.rows.get(usize::from(row))?.get(column));
        place.map_or(0, |entry| entry.contact.incarnation)
    }

    /// Returns the first holder or spare of that cell that is not avoided.
    pub fn lookup_except(&self, key: Key, avoid: impl Fn(NodeId) -> bool) -> Option<(Contact, Rule)> {
        let (row, column) = self.place(key)?;
        let mut entries = self.cell(row, column);
        let first = entries.next()?;
        if !avoid(first.contact.id) {
            return Some((first.contact, Rule::Cell { row, column }));
        }
        let spare = entries.find(|entry| !avoid(entry.contact.id))?;
        Some((spare.contact, Rule::Spare { row, column }))
    }

    /// Returns the holder of a cell and its spares, nearest first.
    pub fn cell(&self, row: u8, column: u8) -> impl Iterator<Item = &Entry> {
        let in_column = self.in_column(row, column);
        let row = self.rows.get(usize::from(row));
        let holder = row.and_then(|row| row.get(column));
        let spares = row.into_iter().flat_map(|row| &row.spares);
        holder.into_iter().chain(spares.filter(move |entry| in_column(entry)))
    }

    fn in_column(&self, row: u8, column: u8) -> impl Fn(&Entry) -> bool + Copy + use<> {
        let base = self.base;
        move |entry| entry.contact.id.digit(row, base) == Some(column)
    }

    /// Returns the holders of one row with their columns.
    pub fn row(&self, row: u8) -> impl Iterator<Item = (u8, Entry)> + '_ {
        let row = self.rows.get(usize::from(row));
        row.into_iter().flat_map(|row| row.columns().zip(row.cells.iter().copied()))
    }

    /// Returns how many rows are in use: one more than the last occupied row.
    pub fn depth(&self) -> u8 {
        self.rows.len() as u8
    }

    /// Returns the holders of all cells, row by row.
    pub fn holders(&self) -> impl Iterator<Item = Entry> + '_ {
        self.rows.iter().flat_map(|row| row.cells.iter().copied())
    }

    /// Returns holders and spares.
    pub fn all(&self) -> impl Iterator<Item = Entry> + '_ {
        self.all_from(0)
    }

    /// Returns holders and spares of a row and all later ones.
    pub fn all_from(&self, row: u8) -> impl Iterator<Item = Entry> + '_ {
        let rows = self.rows.iter().skip(row.into());
        rows.flat_map(|row| row.cells.iter().chain(&row.spares).copied())
    }

    /// Returns the entry of a node, holder or spare.
    pub fn get(&self, id: NodeId) -> Option<Entry> {
        let (row, column) = self.place(id)?;
        let row = self.rows.get(usize::from(row))?;
        let holder = row.get(column)?;
        let mut entries = core::iter::once(holder).chain(&row.spares);
        entries.find(|entry| entry.contact.id == id).copied()
    }

    /// Offers a node that is known to be alive. It takes its cell if that is empty, or if it is nearer than the
    /// holder by at least `nearer_percent`.
    pub fn offer(&mut self, contact: Contact, proximity: Proximity, nearer_percent: u8) -> Offer {
        let Some((row, column)) = self.place(contact.id) else {
            return Offer::Myself;
        };
        if let Some(known) = self.get(contact.id) {
            if contact.incarnation < known.contact.incarnation {
                return Offer::Stale;
            }
            if contact.incarnation == known.contact.incarnation && contact.addr != known.contact.addr {
                return Offer::Conflict;
            }
            let proximity = if proximity == Proximity::UNKNOWN { known.proximity } else { proximity };
            let (most, in_column) = (usize::from(self.spares), self.in_column(row, column));
            let entry = Entry { contact, proximity };
            self.rows[usize::from(row)].renew(column, entry, nearer_percent, most, in_column);
            return Offer::Known;
        }
        while self.rows.len() <= usize::from(row) {
            self.rows.reserve_exact(1);
            self.rows.push(Row::default());
        }
        let (most, in_column) = (usize::from(self.spares), self.in_column(row, column));
        let row = &mut self.rows[usize::from(row)];
        let entry = Entry { contact, proximity };
        match row.position(column) {
            None => {
                row.fill(column, entry);
                Offer::Filled
            }
            Some(at) if clearly_nearer(proximity, row.cells[at].proximity, nearer_percent) => {
                let displaced = core::mem::replace(&mut row.cells[at], entry);
                row.keep_spare(displaced, most, in_column);
                Offer::Improved
            }
            Some(_) if row.keep_spare(entry, most, in_column) => Offer::Spare,
            Some(_) => Offer::TooFar,
        }
    }

    /// Says whether a node that is at least so far away would find no place: nobody would be displaced by it, and there
    /// are spares enough that are nearer.
    pub fn is_hopeless(&self, id: NodeId, at_least: Proximity, nearer_percent: u8) -> bool {
        let Some((row, column)) = self.place(id) else { return true };
        let mut entries = self.cell(row, column);
        let holder = entries.next();
        holder.is_some_and(|holder| !clearly_nearer(at_least, holder.proximity, nearer_percent))
            && entries.filter(|spare| spare.proximity <= at_least).count() >= usize::from(self.spares)
    }

    /// Removes a node, and only that node. Returns whether it held a cell, and if so the spare that took over.
    pub fn remove(&mut self, id: NodeId) -> Removal {
        let Some((at_row, column)) = self.place(id) else { return Removal::Absent };
        let in_column = self.in_column(at_row, column);
        let Some(row) = self.rows.get_mut(usize::from(at_row)) else { return Removal::Absent };
        let spares = row.spares.len();
        row.spares.retain(|entry| entry.contact.id != id);
        if row.spares.len() < spares {
            return Removal::Spare;
        }
        match row.position(column) {
            Some(at) if row.cells[at].contact.id == id => {
                if let Some(next) = row.spares.iter().position(in_column) {
                    row.cells[at] = row.spares.remove(next);
                    return Removal::Promoted;
                }
                row.cells.remove(at);
                row.occupied[usize::from(column / 64)] &= !(1 << (column % 64));
                while self.rows.last().is_some_and(|row| row.cells.is_empty()) {
                    self.rows.pop();
                }
                Removal::Emptied { row: at_row, column }
            }
            _ => Removal::Absent,
        }
    }

    /// Returns the heap memory held, in bytes, of which how much by spares.
    pub fn heap_bytes(&self) -> (usize, usize) {
        let spares: usize = self.rows.iter().map(|row| row.spares.capacity() * size_of::<Entry>()).sum();
        let cells: usize = self.rows.iter().map(|row| row.cells.capacity() * size_of::<Entry>()).sum();
        (self.rows.capacity() * size_of::<Row>() + cells + spares, spares)
    }

    /// Checks that every entry sits where it belongs, once.
    ///
    /// # Panics
    /// If one does not: that is a mistake in this module.
    pub fn check_invariants(&self) {
        for (at, row) in self.rows.iter().enumerate() {
            let columns: Vec<u8> = row.columns().collect();
            assert_eq!(columns.len(), row.cells.len());
            for (column, entry) in columns.iter().zip(&row.cells) {
                assert_eq!(self.place(entry.contact.id), Some((at as u8, *column)));
            }
            for entry in &row.spares {
                let place = self.place(entry.contact.id);
                let column = place.filter(|(row, _)| usize::from(*row) == at).map(|(_, column)| column);
                let column = column.expect("a spare is in its row");
                assert!(columns.contains(&column), "a spare without a holder");
                let same = self.cell(at as u8, column).filter(|other| other.contact.id == entry.contact.id);
                assert_eq!(same.count(), 1);
            }
            for column in columns {
                assert!(self.cell(at as u8, column).count() <= 1 + usize::from(self.spares));
            }
        }
        assert!(self.rows.last().is_none_or(|row| !row.cells.is_empty()));
    }
}

/// What removing a node meant for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was not there.
    Absent,
    /// It was a spare.
    Spare,
    /// It held a cell; a spare has taken over.
    Promoted,
    /// It held a cell that is empty now.
    Emptied {
        /// The row.
        row: u8,
        /// The column.
        column: u8,
    },
}

fn clearly_nearer(new: Proximity, old: Proximity, percent: u8) -> bool {
    u64::from(new.0) * 100 < u64::from(old.0) * u64::from(100 - percent.min(99))
}

impl Row {
    /// Returns where the cell of a column is in `cells`, if it is occupied.
    #[inline]
    fn position(&self, column: u8) -> Option<usize> {
        let (word, bit) = (usize::from(column / 64), column % 64);
        if self.occupied[word] >> bit & 1 == 0 {
            return None;
        }
        let before: u32 = self.occupied[..word].iter().map(|w| w.count_ones()).sum();
        Some((before + (self.occupied[word] & ((1 << bit) - 1)).count_ones()) as usize)
    }

    #[inline]
    fn get(&self, column: u8) -> Option<&Entry> {
        self.cells.get(self.position(column)?)
    }

    fn columns(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255u8).filter(|column| self.occupied[usize::from(column / 64)] >> (column % 64) & 1 == 1)
    }

    // Rows fill up and stay. Most are full in the end, so small steps waste little in the few that are not.
    fn fill(&mut self, column: u8, entry: Entry) {
        self.occupied[usize::from(column / 64)] |= 1 << (column % 64);
        if let Some(at) = self.position(column) {
            if self.cells.len() == self.cells.capacity() {
                self.cells.reserve_exact(if self.cells.len() == STEP { STEP - 1 } else { STEP });
            }
            self.cells.insert(at, entry);
        }
    }

    /// Brings a known node up to date and lets it change places within its cell.
    fn renew(
        &mut self,
        column: u8,
        entry: Entry,
        percent: u8,
        most: usize,
        in_column: impl Fn(&Entry) -> bool + Copy,
    ) {
        let Some(at) = self.position(column) else { return };
        if self.cells[at].contact.id == entry.contact.id {
            self.cells[at] = entry;
        } else if let Some(spare) = self.spares.iter().position(|spare| spare.contact.id == entry.contact.id)
        {
            self.spares.remove(spare);
            self.keep_spare(entry, most, in_column);
        }
        if let Some(best) = self.spares.iter().position(in_column)
            && clearly_nearer(self.spares[best].proximity, self.cells[at].proximity, percent)
        {
            let promoted = self.spares.remove(best);
            let displaced = core::mem::replace(&mut self.cells[at], promoted);
            self.keep_spare(displaced, most, in_column);
        }
    }

    /// Keeps a node as spare if it is among the nearest `most` of its column.
    fn keep_spare(&mut self, entry: Entry, most: usize, in_column: impl Fn(&Entry) -> bool + Copy) -> bool {
        let nearer = |spare: &Entry| in_column(spare) && spare.proximity <= entry.proximity;
        if self.spares.iter().filter(|spare| nearer(spare)).count() >= most {
            return false;
        }
        if self.spares.iter().filter(|spare| in_column(spare)).count() >= most
            && let Some(last) = self.spares.iter().rposition(in_column)
        {
            self.spares.remove(last);
        }
        if self.spares.len() == self.spares.capacity() {
            self.spares.reserve_exact(1);
        }
        // After those of the same column that are nearer; the order between columns does not matter.
        let at = self.spares.iter().rposition(nearer).map(|at| at + 1);
        let at = at.or_else(|| self.spares.iter().position(in_column)).unwrap_or(self.spares.len());
        self.spares.insert(at, entry);
        true
    }
}

#[cfg(test)]
mod tests;
