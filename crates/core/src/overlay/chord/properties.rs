//! What must be true of a whole ring, seen from outside: five things always, two in the end.
//!
//! Plain functions over one [`View`] per running node. The model checker asks them in every state it meets, simulator and
//! real runs while they run. The names are Zave's. A node's *best successor* is the first entry of its list that is a
//! running member; a *ring member* reaches itself along best successors; the others are *appendages*, about to be woven
//! in. Nodes that do not run are simply not in the slice.

use alloc::vec;
use alloc::vec::Vec;

use super::ring::between;
use crate::contact::Contact;
use crate::id::NodeId;

/// What one running node believes.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The node.
    pub contact: Contact,
    /// Its predecessor, if it knows one.
    pub pred: Option<Contact>,
    /// The nodes after it, nearest first.
    pub succ_list: &'a [Contact],
    /// Whether it is part of the ring.
    pub joined: bool,
}

/// A property: its name, and whether it holds.
pub type Property = (&'static str, fn(&[View<'_>]) -> bool);

/// What holds at all times.
pub const ALWAYS: [Property; 5] = [
    ("at least one ring", at_least_one_ring),
    ("at most one ring", at_most_one_ring),
    ("ordered ring", ordered_ring),
    ("connected appendages", connected_appendages),
    ("ordered successor lists", ordered_lists),
];

/// A property of rings with lists of so many.
pub type PropertyInTheEnd = (&'static str, fn(&[View<'_>], usize) -> bool);

/// What comes to hold when nobody comes or goes any more.
pub const EVENTUALLY: [PropertyInTheEnd; 2] =
    [("correct node data", |views, _| correct_node_data(views)), ("ideal ring", ideal_ring)];

/// Says whether some members form a ring. True if there are no members.
pub fn at_least_one_ring(views: &[View<'_>]) -> bool {
    let map = Map::of(views);
    map.members.is_empty() || map.on_ring().contains(&true)
}

/// Says whether no member is on a ring that another ring member is not on.
pub fn at_most_one_ring(views: &[View<'_>]) -> bool {
    let map = Map::of(views);
    let on_ring = map.on_ring();
    let Some(first) = on_ring.iter().position(|on| *on) else { return true };
    let (mut at, mut met) = (first, 0);
    loop {
        met += 1;
        match map.best[at] {
            Some(next) if next != first => at = next,
            _ => break,
        }
    }
    met == on_ring.iter().filter(|on| **on).count()
}

/// Says whether the ring goes around once: nobody on it lies between a ring member and its best successor.
pub fn ordered_ring(views: &[View<'_>]) -> bool {
    let map = Map::of(views);
    let on_ring = map.on_ring();
    let ring: Vec<usize> = (0..on_ring.len()).filter(|at| on_ring[*at]).collect();
    // Members are sorted, so the best successor has to be the next one that is on a ring.
    ring.iter().enumerate().all(|(nth, at)| map.best[*at] == Some(ring[(nth + 1) % ring.len()]))
}

/// Says whether every member reaches the ring along best successors.
pub fn connected_appendages(views: &[View<'_>]) -> bool {
    let map = Map::of(views);
    // Who always has a next one ends up in a circle; only a dead end is not connected.
    map.best.iter().all(Option::is_some)
}

/// Says whether every list goes clockwise from its owner, at most once around, with nobody in it twice and not its owner.
pub fn ordered_lists(views: &[View<'_>]) -> bool {
    views.iter().all(|view| {
        let me = view.contact.id;
        let distances = || view.succ_list.iter().map(|node| me.clockwise_to(node.id));
        distances().all(|distance| distance > 0) && distances().is_sorted_by(|near, far| near < far)
    })
}

/// Says whether every member has the right predecessor and the right first successor, and lists nobody who is gone. True
/// in the end, when nobody comes or goes any more.
pub fn correct_node_data(views: &[View<'_>]) -> bool {
    let map = Map::of(views);
    let count = map.members.len();
    map.members.iter().enumerate().all(|(at, member)| {
        let (before, after) = ((at + count - 1) % count, (at + 1) % count);
        let head = member.succ_list.first().and_then(|head| map.find(head));
        let pred = member.pred.and_then(|pred| map.find(&pred));
        let alone = count == 1 && member.succ_list.is_empty() && member.pred.is_none();
        alone
            || head == Some(after)
                && pred == Some(before)
                && member.succ_list.iter().all(|node| map.find(node).is_some())
    })
}

/// Says whether the ring is ideal: everybody has the right predecessor, and in its list the next `successors` members, or
/// all others if there are fewer. Where nodes in the end arrive, and stay.
pub fn ideal_ring(views: &[View<'_>], successors: usize) -> bool {
    let map = Map::of(views);
    let count = map.members.len();
    let length = successors.min(count.saturating_sub(1));
    correct_node_data(views)
        && map.members.iter().enumerate().all(|(at, member)| {
            member.succ_list.len() == length
                && member.succ_list.iter().enumerate().all(|(nth, node)| {
                    let wanted = (at + nth + 1) % count;
                    map.find(node) == Some(wanted)
                })
        })
}

/// Says whether an extended list, a node and what it lists, passes over `x`: names somebody before it and somebody after
/// it, but not `x` itself.
pub fn skips(owner: NodeId, list: impl IntoIterator<Item = NodeId>, x: NodeId) -> bool {
    let mut last = owner;
    list.into_iter().any(|node| between(core::mem::replace(&mut last, node), x, node))
}

/// The members by id, and where each one's best successor is.
struct Map<'a, 'v> {
    members: Vec<&'a View<'v>>,
    best: Vec<Option<usize>>,
}

impl<'a, 'v> Map<'a, 'v> {
    fn of(views: &'a [View<'v>]) -> Map<'a, 'v> {
        let mut members: Vec<&View<'_>> = views.iter().filter(|view| view.joined).collect();
        members.sort_unstable_by_key(|view| view.contact.id);
        let mut map = Map { members, best: Vec::new() };
        let best = |view: &&View<'_>| view.succ_list.iter().find_map(|node| map.find(node));
        map.best = map.members.iter().map(best).collect();
        // A member that has no other needs nobody.
        if let [only] = &mut map.best[..] {
            *only = Some(0);
        }
        map
    }

    fn find(&self, node: &Contact) -> Option<usize> {
        let at = self.members.binary_search_by_key(&node.id, |view| view.contact.id).ok()?;
        (self.members[at].contact.incarnation == node.incarnation).then_some(at)
    }

    /// Which members come back to themselves. Each is looked at once: a walk ends where an earlier one has been.
    fn on_ring(&self) -> Vec<bool> {
        let mut on_ring = vec![false; self.members.len()];
        let mut walked_by = vec![usize::MAX; self.members.len()];
        for start in 0..self.members.len() {
            let mut at = Some(start);
            while let Some(here) = at.filter(|here| walked_by[*here] == usize::MAX) {
                walked_by[here] = start;
                at = self.best[here];
            }
            // Only a walk that met itself has found a ring, and only from there on.
            let mut at = at.filter(|here| walked_by[*here] == start);
            while let Some(here) = at.filter(|here| !on_ring[*here]) {
                on_ring[here] = true;
                at = self.best[here];
            }
        }
        on_ring
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::Addr;
    use crate::id::Id;

    fn node(i: u32) -> Contact {
        Contact::new(Id::new(u128::from(i) << 100), 1, Addr(i))
    }

    /// A world from (node, predecessor, list) rows; predecessor 0 stands for none.
    fn holds(rows: &[(u32, u32, &[u32])], property: impl Fn(&[View<'_>]) -> bool) -> bool {
        let lists: Vec<Vec<Contact>> =
            rows.iter().map(|row| row.2.iter().map(|i| node(*i)).collect()).collect();
        let views: Vec<View<'_>> = rows
            .iter()
            .zip(&lists)
            .map(|((i, pred, _), list)| View {
                contact: node(*i),
                pred: Some(*pred).filter(|pred| *pred > 0).map(node),
                succ_list: list,
                joined: true,
            })
            .collect();
        property(&views)
    }

    fn broken(rows: &[(u32, u32, &[u32])]) -> Vec<&'static str> {
        ALWAYS.iter().filter(|(_, property)| !holds(rows, property)).map(|(name, _)| *name).collect()
    }

    #[test]
    fn an_ideal_ring_has_every_property() {
        let ring: &[(u32, u32, &[u32])] =
            &[(3, 2, &[5, 1]), (1, 5, &[2, 3]), (5, 3, &[1, 2]), (2, 1, &[3, 5])];
        assert!(broken(ring).is_empty());
        assert!(holds(ring, correct_node_data) && holds(ring, |views| ideal_ring(views, 2)));
        assert!(!holds(ring, |views| ideal_ring(views, 3)), "lists are too short for that");
    }

    #[test]
    fn rings_of_none_and_one_are_rings() {
        assert!(broken(&[]).is_empty() && holds(&[], |views| ideal_ring(views, 2)));
        assert!(broken(&[(4, 0, &[])]).is_empty() && holds(&[(4, 0, &[])], |views| ideal_ring(views, 2)));
    }

    #[test]
    fn an_appendage_is_not_a_fault_but_not_ideal_either() {
        // 2 has joined, nobody knows it yet.
        let ring: &[(u32, u32, &[u32])] =
            &[(1, 5, &[3, 5]), (2, 0, &[3, 5]), (3, 1, &[5, 1]), (5, 3, &[1, 3])];
        assert!(broken(ring).is_empty());
        assert!(!holds(ring, correct_node_data));
    }

    #[test]
    fn each_fault_has_its_name() {
        assert_eq!(broken(&[(1, 0, &[9]), (2, 0, &[9])]), ["at least one ring", "connected appendages"]);
        assert_eq!(
            broken(&[(1, 0, &[3]), (3, 0, &[1]), (5, 0, &[7]), (7, 0, &[5])]),
            ["at most one ring", "ordered ring"]
        );
        assert_eq!(broken(&[(1, 0, &[5]), (5, 0, &[3]), (3, 0, &[1])]), ["ordered ring"]);
        assert_eq!(broken(&[(1, 0, &[3]), (3, 0, &[1]), (5, 0, &[9])]), ["connected appendages"]);
        assert_eq!(broken(&[(1, 0, &[3, 3]), (3, 0, &[1])]), ["ordered successor lists"]);
        assert_eq!(broken(&[(1, 0, &[3, 1]), (3, 0, &[1])]), ["ordered successor lists"]);
    }

    #[test]
    fn a_former_life_is_nobody() {
        let old = Contact { incarnation: 0, ..node(3) };
        let views = [
            View { contact: node(1), pred: None, succ_list: &[old], joined: true },
            View { contact: node(3), pred: None, succ_list: &[node(1)], joined: true },
        ];
        assert!(!connected_appendages(&views));
    }

    #[test]
    fn lists_skip_whom_they_pass_over() {
        let list = [node(3).id, node(5).id];
        assert!(skips(node(1).id, list, node(2).id) && skips(node(1).id, list, node(4).id));
        for not in [1, 3, 5, 6] {
            assert!(!skips(node(1).id, list, node(not).id), "{not}");
        }
    }
}
