//! The states that were met, as fingerprints, each with the one it was met from.

use super::hash::mix;

/// An open-addressed table: sixteen bytes for a state.
pub(super) struct Table {
    /// Fingerprint and parent; a fingerprint of zero is an empty place.
    places: Vec<(u64, u64)>,
    len: usize,
}

const START: usize = 1 << 16;

impl Table {
    pub(super) fn new() -> Table {
        Table { places: vec![(0, 0); START], len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.places.len() * size_of::<(u64, u64)>()
    }

    /// Enters a state. `false` if it was there.
    pub(super) fn insert(&mut self, print: u64, parent: u64) -> bool {
        if self.len * 10 >= self.places.len() * 8 {
            self.grow();
        }
        let at = find(&self.places, print);
        let new = self.places[at].0 == 0;
        if new {
            self.places[at] = (print.max(1), parent.max(1));
            self.len += 1;
        }
        new
    }

    fn grow(&mut self) {
        let mut places = vec![(0, 0); self.places.len() * 2];
        for (print, parent) in self.places.iter().filter(|(print, _)| *print != 0) {
            let at = find(&places, *print);
            places[at] = (*print, *parent);
        }
        self.places = places;
    }

    /// Returns the fingerprints on the way to a state, the first one's first.
    pub(super) fn way_to(&self, print: u64) -> Vec<u64> {
        let mut way = vec![print.max(1)];
        loop {
            let last = way[way.len() - 1];
            let (found, parent) = self.places[find(&self.places, last)];
            if found == 0 || parent == last {
                break;
            }
            way.push(parent);
        }
        way.reverse();
        way
    }
}

/// Returns where a fingerprint is, or the empty place where it belongs.
fn find(places: &[(u64, u64)], print: u64) -> usize {
    let (print, mask) = (print.max(1), places.len() - 1);
    let mut at = mix(print) as usize & mask;
    while places[at].0 != 0 && places[at].0 != print {
        at = (at + 1) & mask;
    }
    at
}
