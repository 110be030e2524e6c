//! Views: who holds a slot, and what one node knows about it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use minicbor::{Decode, Encode};

use super::coding::Sum;
use crate::id::{Id, Key, NodeId};
use crate::time::Time;

/// A holder: a node, and the disk it has. A node that lost its disk is another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Member {
    /// The node.
    #[n(0)]
    pub id: NodeId,
    /// A number made when its disk was empty.
    #[n(1)]
    pub born: u32,
}

/// Who holds a slot. Epochs of one slot follow one another; of two successive ones, one has at most one member more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct View {
    /// Counts up.
    #[n(0)]
    pub epoch: u64,
    /// Made when the cluster was: views of different lineages have nothing to do with each other.
    #[n(1)]
    pub lineage: u64,
    /// The replicas, in the order of the ring: the node that answers for the middle of the slot first. At most 16.
    #[n(2)]
    pub members: Vec<Member>,
    /// The replicas that were there when the view was last rebuilt without a quorum. What others had then is not part of
    /// the cluster any more.
    #[n(3)]
    #[cbor(default)]
    pub survivors: Vec<NodeId>,
}

/// Epochs from here on belong to the next generation: see [`View::generation`].
pub(crate) const GENERATION: u64 = 1 << 40;

impl View {
    /// Returns how many members are more than half.
    pub fn quorum(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// Returns how often the view was rebuilt from what survived, without a quorum. It is the upper part of the epoch, so
    /// every rebuilt view is later than whatever old members may still decide among themselves.
    pub fn generation(&self) -> u64 {
        self.epoch / GENERATION
    }

    /// Returns the place of a node in the view.
    pub fn place(&self, id: NodeId) -> Option<usize> {
        self.members.iter().position(|member| member.id == id)
    }

    /// Says whether this very disk is in the view.
    pub fn has(&self, member: Member) -> bool {
        self.members.contains(&member)
    }
}

/// Orders the attempts to change a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Ballot {
    /// Counts up.
    #[n(0)]
    pub round: u32,
    /// Who tries.
    #[n(1)]
    pub node: NodeId,
}

/// What follows an epoch: its members, and the state they begin with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Next {
    /// The members.
    #[n(0)]
    pub members: Vec<Member>,
    /// The sum of the records.
    #[n(1)]
    pub state: Sum,
}

/// What a node is for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Standing {
    /// A member that has caught up with its epoch.
    #[n(0)]
    Ready,
    /// A member that has yet to get the state its epoch began with.
    #[n(1)]
    Behind,
    /// A member that does not trust its own records and gets them from a quorum of others. Holds who has been heard.
    #[n(2)]
    Doubting(#[n(0)] u16),
    /// Not a member: about to become one, or no longer.
    #[n(3)]
    Outside,
}

/// One slot, as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) view: View,
    /// The state the epoch began with, if that is known.
    pub(crate) entered: Option<Sum>,
    /// The greatest ballot promised for the successor of the epoch. If there is one, nothing is served.
    pub(crate) promised: Option<Ballot>,
    pub(crate) accepted: Option<(Ballot, Next)>,
    pub(crate) standing: Standing,
    /// The sum of all records, and how many there are.
    pub(crate) state: Sum,
    pub(crate) records: u32,
    /// A lower bound on the version of the oldest tombstone.
    pub(crate) grave: Option<super::version::Version>,
    /// When something last happened about the view.
    pub(crate) since: Time,
    /// The attempt of this node to change the view.
    pub(crate) round: Option<Box<Round>>,
    /// Who is to become a member, and whether it has the records.
    pub(crate) learner: Option<Learner>,
    /// Members that said they have the very same state, since it last changed.
    pub(crate) agreed: u16,
    /// Members that have caught up with an epoch we are not in.
    pub(crate) safe: u16,
    /// While the node doubts its records: what they added up to when it did not. Having that again ends the doubt.
    pub(crate) remembered: Option<Sum>,
    /// The cells it doubts, if that is all it doubts; otherwise it is any of them.
    pub(crate) doubted: Option<Vec<u64>>,
    /// And the members that it has told so, and that have answered.
    pub(crate) told: u16,
    /// A promise, or what was told with it, may be lost: the node serves nothing until the next epoch, for which it votes.
    pub(crate) abstains: bool,
    /// A lower bound on the time from which some bytes are garbage: a value has ended, or its set is gone.
    pub(crate) expiry: Option<u64>,
    /// The highest version of a record there has been.
    pub(crate) last: super::version::Version,
}

/// A node that is to become a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Learner {
    pub(crate) id: NodeId,
    /// Its disk, once it has the records, and when it said so.
    pub(crate) learnt: Option<(u32, Time)>,
    pub(crate) told: Time,
    /// When it was told first.
    pub(crate) begun: Time,
    /// Whether it takes the place of a node that leaves.
    pub(crate) stands_in: bool,
}

/// For how long it counts that a node said it has the records: it may have left since, or died.
pub(super) const LEARNT: Duration = Duration::from_secs(3);

impl Learner {
    /// Begins with a node. `before` is the node that was to become a member until now.
    pub(crate) fn new(id: NodeId, before: Option<Learner>, stands_in: bool, now: Time) -> Learner {
        let begun = before.filter(|before| before.id == id).map_or(now, |before| before.begun);
        Learner { id, learnt: None, told: now, begun, stands_in }
    }

    /// Returns its disk, if it has the records and said so just now.
    pub(crate) fn born(&self, now: Time) -> Option<u32> {
        self.learnt.filter(|(_, at)| now.since(*at) < LEARNT).map(|(born, _)| born)
    }
}

/// An attempt to change a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Round {
    pub(crate) ballot: Ballot,
    /// The members this node wants; what was accepted before goes first.
    pub(crate) wish: Vec<Member>,
    /// Who has promised, its state then, and whether that counts: it had caught up.
    pub(crate) frozen: Vec<(NodeId, Sum, bool)>,
    /// What was accepted before, under the greatest ballot.
    pub(crate) found: Option<(Ballot, Next)>,
    /// Whose state is being put together with ours.
    pub(crate) merging: Vec<NodeId>,
    /// The state that a quorum is to have.
    pub(crate) state: Option<Sum>,
    pub(crate) settled: Vec<NodeId>,
    pub(crate) next: Option<Next>,
    pub(crate) accepted: Vec<NodeId>,
    pub(crate) again: Time,
    pub(crate) begun: Time,
}

impl Slot {
    pub(crate) fn new(view: View, entered: Option<Sum>, standing: Standing, now: Time) -> Slot {
        Slot {
            view,
            entered,
            promised: None,
            accepted: None,
            standing,
            state: Sum::default(),
            records: 0,
            grave: None,
            since: now,
            round: None,
            learner: None,
            agreed: 0,
            safe: 0,
            remembered: None,
            doubted: None,
            told: 0,
            abstains: false,
            expiry: None,
            last: super::version::Version::ZERO,
        }
    }

    /// Says whether operations are served.
    pub(crate) fn serves(&self) -> bool {
        self.is_ready() && self.promised.is_none()
    }

    /// Says whether the node has the records and keeps its promises.
    pub(crate) fn is_ready(&self) -> bool {
        self.standing == Standing::Ready && !self.abstains
    }

    /// Says whether all other members know that this node doubts its records.
    pub(crate) fn is_known_to_doubt(&self) -> bool {
        self.told.count_ones() as usize + 1 >= self.view.members.len()
    }

    /// Says whether its records are what this node told when it last voted.
    pub(crate) fn is_whole(&self) -> bool {
        self.remembered.is_none_or(|remembered| remembered == self.state)
    }

    /// Returns what is kept of it on the disk.
    pub(crate) fn kept(&self) -> Kept {
        Kept {
            view: self.view.clone(),
            entered: self.entered,
            promised: self.promised,
            accepted: self.accepted.clone(),
            standing: self.standing,
            remembered: self.remembered,
            abstains: self.abstains,
            doubted: self.doubted.clone(),
        }
    }

    /// Returns what is kept of its records on the disk.
    pub(crate) fn tally(&self) -> Tally {
        let (state, records, last) = (self.state, self.records, self.last);
        Tally { state, records, grave: self.grave, expiry: self.expiry, last }
    }

    pub(crate) fn set_tally(&mut self, tally: Tally) {
        let Tally { state, records, grave, expiry, last } = tally;
        (self.state, self.records, self.grave, self.expiry, self.last) =
            (state, records, grave, expiry, last);
    }
}

/// What the records of a slot add up to. Kept on the disk with every change, so that a start need not read them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Tally {
    #[n(0)]
    pub(crate) state: Sum,
    #[n(1)]
    pub(crate) records: u32,
    #[n(2)]
    pub(crate) grave: Option<super::version::Version>,
    #[n(3)]
    pub(crate) expiry: Option<u64>,
    #[n(4)]
    pub(crate) last: super::version::Version,
}

/// What is kept of a slot on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Kept {
    #[n(0)]
    pub(crate) view: View,
    #[n(1)]
    pub(crate) entered: Option<Sum>,
    #[n(2)]
    pub(crate) promised: Option<Ballot>,
    #[n(3)]
    pub(crate) accepted: Option<(Ballot, Next)>,
    #[n(4)]
    pub(crate) standing: Standing,
    #[n(5)]
    pub(crate) remembered: Option<Sum>,
    #[n(6)]
    #[cbor(default)]
    pub(crate) abstains: bool,
    #[n(7)]
    #[cbor(default)]
    pub(crate) doubted: Option<Vec<u64>>,
    // 8 was a ballot in place of lost promises.
}

/// How the ring is cut into slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    bits: u32,
}

/// As long as the longest key a disk can have.
const BEYOND: usize = 65_535;

/// Parts of a slot that are compared on their own.
pub(crate) const PARTS: usize = 64;

impl Cut {
    pub(crate) fn of(slots: u32) -> Cut {
        Cut { bits: slots.trailing_zeros() }
    }

    pub(crate) fn count(self) -> u32 {
        1 << self.bits
    }

    /// Returns the slot of a key.
    pub(crate) fn slot(self, key: Key) -> u32 {
        if self.bits == 0 { 0 } else { (key.value() >> (128 - self.bits)) as u32 }
    }

    /// Returns the first id of a slot.
    pub(crate) fn start(self, slot: u32) -> Id {
        if self.bits == 0 { Id::ZERO } else { Id::new(u128::from(slot) << (128 - self.bits)) }
    }

    /// Returns the id in the middle of a slot: whoever answers for it holds the slot.
    pub(crate) fn middle(self, slot: u32) -> Id {
        self.start(slot).plus(1 << (127 - self.bits))
    }

    /// Returns where the keys of a slot begin and end on the disk.
    pub(crate) fn range(self, slot: u32) -> (Vec<u8>, Vec<u8>) {
        self.span(slot, 0, PARTS)
    }

    /// Returns which part of its slot a key is in.
    pub(crate) fn part(self, key: Key) -> usize {
        (key.value() << self.bits >> 122) as usize
    }

    /// Returns where the keys of some parts of a slot begin and end on the disk.
    pub(crate) fn span(self, slot: u32, from: usize, to: usize) -> (Vec<u8>, Vec<u8>) {
        let step = 1u128 << (122 - self.bits);
        let start = self.start(slot);
        let end = start.value().wrapping_add(step.wrapping_mul(to as u128));
        let end = if to > 0 && end <= start.value() {
            // The end of the ring: beyond every id.
            alloc::vec![0xff; BEYOND]
        } else {
            Id::new(end).to_bytes().to_vec()
        };
        (start.plus(step * from as u128).to_bytes().to_vec(), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_parts_cover_the_ring() {
        for slots in [1, 2, 16, 4096, 65_536] {
            let cut = Cut::of(slots);
            assert_eq!(cut.count(), slots);
            for key in [Id::ZERO, Id::new(1), Id::MAX, Id::new(1 << 127), Id::new(0x1234_5678 << 96)] {
                let slot = cut.slot(key);
                let (from, to) = cut.range(slot);
                let mut bytes = key.to_bytes().to_vec();
                bytes.push(b'k');
                assert!(from <= bytes && bytes < to, "{slots} {key:?}");
                let part = cut.part(key);
                let (from, to) = cut.span(slot, part, part + 1);
                assert!(from <= bytes && bytes < to, "{slots} {key:?} part {part}");
            }
            assert_eq!(cut.slot(cut.middle(slots - 1)), slots - 1);
        }
    }
}
