//! What others may know of a store: what it holds, what keeps it from serving, and what is wrong with its disk.

use core::time::Duration;

use super::Store;
use super::view::{Cut, Member, Standing, View};
use crate::config::Config;
use crate::id::Key;
use crate::overlay::Routes;
use crate::records::{Gap, Records, Space};
use crate::time::Time;

/// How long a node waits for the slots that the ring gives it before it counts as ready without them.
const AWAITED: Duration = Duration::from_secs(30);

impl Store {
    /// Looks at the slots this node is a member of.
    pub fn survey(&self) -> Survey {
        let mut survey = Survey { has_room: self.room, ..Survey::default() };
        for slot in self.slots.values().filter(|slot| slot.view.has(self.me)) {
            survey.slots += 1;
            survey.records += u64::from(slot.records);
            survey.waiting += u32::from(!self.answers(slot));
            survey.doubting += u32::from(matches!(slot.standing, Standing::Doubting(_)) || slot.abstains);
            survey.rebuilt += u32::from(slot.view.generation() > 0);
            let alive = slot.view.members.iter().filter(|member| !self.is_gone(member)).count();
            // The first that is alive speaks for the slot, so that nothing is counted twice.
            if slot.view.members.iter().find(|member| !self.is_gone(member)) == Some(&self.me) {
                survey.led += 1;
                survey.led_records += u64::from(slot.records);
                survey.stuck += u32::from(alive < slot.view.quorum());
                survey.moving += u32::from(slot.learner.is_some() || slot.round.is_some());
                survey.pairs += u32::from(slot.view.members.len() == 2);
                survey.thin += u32::from(alive < slot.view.members.len());
            }
        }
        survey.pulls = (self.pulls.len() + self.to_pull.len() + self.learners.len()) as u32;
        survey
    }

    /// Says what keeps this node from serving what it should.
    pub fn unready(&self, ring: &dyn Routes, now: Time, config: &Config) -> Unready {
        let mut unready = Unready::default();
        for slot in self.slots.values().filter(|slot| slot.view.has(self.me)) {
            unready.behind += u32::from(!slot.is_ready() || !self.is_proved(slot));
            unready.no_quorum += u32::from(!self.can_decide(slot));
        }
        // Slots the ring gives this node. If none comes for long, that is not this node's fault: they have no quorum.
        let young = self.time.part_since().is_none_or(|since| now.since(since) < AWAITED);
        let others =
            ring.neighbours().iter().any(|peer| self.peers.get(&peer.id).is_some_and(|p| p.has_store));
        if (young && others) || !self.learners.is_empty() {
            let (cut, copies) = (Cut::of(config.slots), usize::from(config.replicas.max(1)));
            let mine = |number: &u32| {
                let middle = cut.middle(*number);
                ring.covers(middle) && ring.replicas(middle, copies).iter().any(|node| node.id == self.me.id)
            };
            let held = |number: &u32| self.slots.get(number).is_some_and(|slot| slot.view.has(self.me));
            unready.awaited = (0..cut.count()).filter(|number| !held(number) && mine(number)).count() as u32;
        }
        unready
    }

    /// Returns the view of a slot, if this node is a member of it, and whether it serves it.
    pub fn view(&self, slot: u32) -> Option<(&View, bool)> {
        let slot = self.slots.get(&slot)?;
        slot.view.has(self.me).then(|| (&slot.view, self.answers(slot)))
    }

    /// Returns the members of the next view of a slot that this node has voted for. It may have been decided.
    pub fn next_members(&self, slot: u32) -> Option<&[Member]> {
        let (_, next) = self.slots.get(&slot)?.accepted.as_ref()?;
        Some(&next.members)
    }

    /// Returns the slots this node is a member of, their views, and whether it serves them.
    pub fn views(&self) -> impl Iterator<Item = (u32, &View, bool)> {
        let mine = self.slots.iter().filter(|(_, slot)| slot.view.has(self.me));
        mine.map(|(number, slot)| (*number, &slot.view, self.answers(slot)))
    }

    /// Distrusts what is missing from the disk, until other replicas have sent what they have of it.
    ///
    /// # Errors
    /// What is missing says which slots this node holds, or what it promised about them: nothing on the disk can be relied
    /// on, and it must be replaced by an empty one.
    pub fn doubt_gaps(
        &mut self,
        gaps: &[Gap],
        records: &dyn Records,
        config: &Config,
    ) -> Result<(), Unreliable> {
        if gaps.iter().any(|gap| matches!(gap.space, Space::Views | Space::Meta)) {
            return Err(Unreliable);
        }
        let cut = Cut::of(config.slots);
        for number in 0..cut.count() {
            let (from, to) = cut.range(number);
            let touches = |low: &[u8], high: &[u8]| low < to.as_slice() && high > from.as_slice();
            // The key of a promise begins with one byte more.
            let promise = |gap: &Gap, member: u8| {
                let key = |bytes: &[u8]| [&[member], bytes].concat();
                *gap.from < *key(&to) && *gap.to > *key(&from)
            };
            let mut doubts = gaps.iter().filter(|gap| match gap.space {
                Space::Promises => promise(gap, 0) || promise(gap, 1),
                _ => touches(&gap.from, &gap.to),
            });
            let Some(first) = doubts.next() else { continue };
            let abstains = core::iter::once(first).chain(doubts).any(|gap| gap.space == Space::Promises);
            self.doubt_slot(number, records, config);
            if let Some(slot) = self.slots.get_mut(&number) {
                // Whatever was there.
                slot.doubted = None;
            }
            if abstains {
                self.abstain(number);
            }
        }
        Ok(())
    }

    /// Returns the lineage of this store: the number made when its cluster was founded. `None`: it holds no slot and never
    /// did.
    pub fn lineage(&self) -> Option<u64> {
        self.slots.values().next().map(|slot| slot.view.lineage)
    }

    /// Says whether no other node has ever held a slot together with this one, as far as its views tell.
    pub fn is_sole_replica(&self) -> bool {
        self.slots.values().all(|slot| slot.view.members == [self.me] && slot.view.epoch == 1)
    }

    /// Returns how many records there are on the disk, of any slot, tombstones included.
    pub fn record_count(&self) -> u64 {
        self.slots.values().map(|slot| u64::from(slot.records)).sum()
    }

    /// Returns the slot of a key.
    pub fn slot_of(key: Key, config: &Config) -> u32 {
        Cut::of(config.slots).slot(key)
    }
}

/// A disk that has lost what nothing can replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreliable;

/// What keeps a node from serving what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Unready {
    /// Slots it is a replica of and whose records it has yet to get, or to rely on.
    pub behind: u32,
    /// Slots it is to become a replica of.
    pub awaited: u32,
    /// Slots it is a replica of that have no quorum.
    pub no_quorum: u32,
}

/// What a node holds, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Survey {
    /// Slots it is a member of.
    pub slots: u32,
    /// Records of these, those that stand for deleted ones included.
    pub records: u64,
    /// Slots it can not serve right now.
    pub waiting: u32,
    /// Slots it speaks for.
    pub led: u32,
    /// Records of the slots it speaks for.
    pub led_records: u64,
    /// Of these slots, those with a copy on a node that is down.
    pub thin: u32,
    /// Those of which half the members or more are down.
    pub stuck: u32,
    /// Those that are about to get another member.
    pub moving: u32,
    /// Those with two members: less available than with one.
    pub pairs: u32,
    /// Slots being copied to this node, or waiting for it.
    pub pulls: u32,
    /// Slots this node does not trust its own records of.
    pub doubting: u32,
    /// Slots that were rebuilt without a quorum.
    pub rebuilt: u32,
    /// Whether the disk has room.
    pub has_room: bool,
}
