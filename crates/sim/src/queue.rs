//! The event queue: earliest first, and first come first served at equal times.
//!
//! A calendar. Time is cut into ticks; a tick's events are appended to a list as they are pushed and sorted when their
//! tick comes. So the events of a tick are read in the order they lie in memory, and the next ones are known before
//! they are due: in a ring of a million nodes that is what hides the time memory takes to answer.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use kringle_core::time::Time;

/// A tick is 2^8 microseconds, a turn of the near calendar 2^11 ticks: half a second.
const TICK_BITS: u32 = 8;
const TURN_BITS: u32 = 11;
const TICKS: usize = 1 << TURN_BITS;
/// Emptied lists that are kept.
const SPARE_MAX: usize = 256;

/// Events in time order. Time only moves forward. There are two sorts of them, large and small, so that millions of
/// armed timers do not take the room of messages.
pub(crate) struct Queue<L, S> {
    /// The tick whose events are being taken.
    tick: u64,
    events: Tick<L, S>,
    /// In the order they are due: microsecond and number, and where in `events`.
    order: Vec<(u64, Place)>,
    next: usize,
    /// Events pushed into the tick after it was sorted.
    late: BinaryHeap<Late<L, S>>,
    /// The later ticks of this turn.
    near: Vec<Tick<L, S>>,
    occupied: [u64; TICKS / 64],
    /// Later turns.
    far: BTreeMap<u64, Tick<L, S>>,
    /// Lists that were emptied, to be used again. Most ticks have small events only, and must not hold the room large
    /// ones once took.
    spare: Spare<L, S>,
    len: usize,
}

struct Spare<L, S> {
    large: Vec<Vec<Option<Entry<L>>>>,
    small: Vec<Vec<Option<Entry<S>>>>,
}

/// An event of either sort.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Either<L, S> {
    Large(L),
    Small(S),
}

#[derive(Clone, Copy)]
enum Place {
    Large(u32),
    Small(u32),
}

/// What was pushed for one tick, in the order of pushing.
struct Tick<L, S> {
    large: Vec<Option<Entry<L>>>,
    small: Vec<Option<Entry<S>>>,
}

struct Entry<E> {
    at: u64,
    count: u64,
    event: E,
}

struct Late<L, S>(Entry<Either<L, S>>);

impl<L, S> Ord for Late<L, S> {
    // The heap's greatest is the earliest.
    fn cmp(&self, other: &Late<L, S>) -> Ordering {
        (other.0.at, other.0.count).cmp(&(self.0.at, self.0.count))
    }
}

impl<L, S> PartialOrd for Late<L, S> {
    fn partial_cmp(&self, other: &Late<L, S>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<L, S> PartialEq for Late<L, S> {
    fn eq(&self, other: &Late<L, S>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<L, S> Eq for Late<L, S> {}

impl<L, S> Default for Tick<L, S> {
    fn default() -> Tick<L, S> {
        Tick { large: Vec::new(), small: Vec::new() }
    }
}

impl<L, S> Tick<L, S> {
    fn push(&mut self, Entry { at, count, event }: Entry<Either<L, S>>, spare: &mut Spare<L, S>) {
        match event {
            Either::Large(event) => self.push_large(Entry { at, count, event }, spare),
            Either::Small(event) => self.push_small(Entry { at, count, event }, spare),
        }
    }

    fn push_large(&mut self, entry: Entry<L>, spare: &mut Spare<L, S>) {
        if self.large.capacity() == 0 {
            self.large = spare.large.pop().unwrap_or_default();
        }
        self.large.push(Some(entry));
    }

    fn push_small(&mut self, entry: Entry<S>, spare: &mut Spare<L, S>) {
        if self.small.capacity() == 0 {
            self.small = spare.small.pop().unwrap_or_default();
        }
        self.small.push(Some(entry));
    }
}

impl<L, S> Queue<L, S> {
    pub(crate) fn new() -> Queue<L, S> {
        Queue {
            tick: 0,
            events: Tick::default(),
            order: Vec::new(),
            next: 0,
            late: BinaryHeap::new(),
            near: (0..TICKS).map(|_| Tick::default()).collect(),
            occupied: [0; TICKS / 64],
            far: BTreeMap::new(),
            spare: Spare { large: Vec::new(), small: Vec::new() },
            len: 0,
        }
    }

    /// Adds an event. `at` must not lie before the last event taken out, `count` grows from event to event and decides
    /// between those at equal times.
    pub(crate) fn push(&mut self, at: Time, count: u64, event: Either<L, S>) {
        let at = at.micros();
        let tick = at >> TICK_BITS;
        let entry = Entry { at, count, event };
        self.len += 1;
        if tick <= self.tick {
            self.late.push(Late(entry));
        } else if tick >> TURN_BITS == self.tick >> TURN_BITS {
            let (list, spare) = self.in_turn(tick);
            list.push(entry, spare);
        } else {
            self.far.entry(tick >> TURN_BITS).or_default().push(entry, &mut self.spare);
        }
    }

    /// Returns the list of a tick of this turn that is about to be pushed to.
    fn in_turn(&mut self, tick: u64) -> (&mut Tick<L, S>, &mut Spare<L, S>) {
        let slot = tick as usize & (TICKS - 1);
        self.occupied[slot / 64] |= 1 << (slot % 64);
        (&mut self.near[slot], &mut self.spare)
    }

    /// Takes out the earliest event.
    pub(crate) fn pop(&mut self) -> Option<(Time, Either<L, S>)> {
        self.open();
        let sorted = self.order.get(self.next).map(|(key, _)| *key);
        let late = self.late.peek().map(|late| self.key(late.0.at, late.0.count));
        let (at, event) = match (sorted, late) {
            (None, None) => return None,
            (Some(sorted), late) if late.is_none_or(|late| sorted < late) => {
                let (_, place) = self.order[self.next];
                self.next += 1;
                self.events.take(place)?
            }
            _ => self.late.pop().map(|Late(entry)| (entry.at, entry.event))?,
        };
        self.len -= 1;
        Some((Time::from_micros(at), event))
    }

    /// Returns a large event that is due soon: the one `ahead` places after the next of this tick, if it is large.
    pub(crate) fn upcoming(&self, ahead: usize) -> Option<&L> {
        match self.order.get(self.next + ahead)?.1 {
            Place::Large(at) => self.events.large[at as usize].as_ref().map(|entry| &entry.event),
            Place::Small(_) => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Orders events of one tick: by microsecond, then by number. There are fewer than 2^56.
    fn key(&self, at: u64, count: u64) -> u64 {
        (at & ((1 << TICK_BITS) - 1)) << (64 - TICK_BITS) | count
    }

    /// Goes on to the next tick that has events, if this one has none left.
    fn open(&mut self) {
        while self.next == self.order.len() && self.late.is_empty() && self.len > 0 {
            match self.next_tick() {
                Some(tick) => self.start(tick),
                None => {
                    let Some((turn, events)) = self.far.pop_first() else { return };
                    self.tick = turn << TURN_BITS;
                    for entry in events.large.into_iter().flatten() {
                        let (list, spare) = self.in_turn(entry.at >> TICK_BITS);
                        list.push_large(entry, spare);
                    }
                    for entry in events.small.into_iter().flatten() {
                        let (list, spare) = self.in_turn(entry.at >> TICK_BITS);
                        list.push_small(entry, spare);
                    }
                }
            }
        }
    }

    /// Returns the next tick of this turn that has events.
    fn next_tick(&self) -> Option<u64> {
        let from = self.tick as usize & (TICKS - 1);
        let first = self.occupied[from / 64] & (!0 << (from % 64));
        let words = std::iter::once(first).chain(self.occupied[from / 64 + 1..].iter().copied());
        let (skipped, word) = words.enumerate().find(|(_, word)| *word != 0)?;
        let slot = (from / 64 + skipped) * 64 + word.trailing_zeros() as usize;
        Some((self.tick >> TURN_BITS) << TURN_BITS | slot as u64)
    }

    fn start(&mut self, tick: u64) {
        let slot = tick as usize & (TICKS - 1);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        self.tick = tick;
        let emptied = std::mem::replace(&mut self.events, std::mem::take(&mut self.near[slot]));
        keep(emptied.large, &mut self.spare.large);
        keep(emptied.small, &mut self.spare.small);
        self.next = 0;
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        let large = self.events.large.iter().flatten().zip(0..);
        order.extend(large.map(|(entry, at)| (self.key(entry.at, entry.count), Place::Large(at))));
        let small = self.events.small.iter().flatten().zip(0..);
        order.extend(small.map(|(entry, at)| (self.key(entry.at, entry.count), Place::Small(at))));
        order.sort_unstable_by_key(|(key, _)| *key);
        self.order = order;
    }
}

/// Keeps the room of a list for another one.
fn keep<E>(mut list: Vec<E>, spare: &mut Vec<Vec<E>>) {
    // Room that was hardly used is given back.
    let roomy = list.capacity() > 64 && list.capacity() > 4 * list.len();
    if list.capacity() > 0 && !roomy && spare.len() < SPARE_MAX {
        list.clear();
        spare.push(list);
    }
}

impl<L, S> Tick<L, S> {
    fn take(&mut self, place: Place) -> Option<(u64, Either<L, S>)> {
        match place {
            Place::Large(at) => {
                let Entry { at, event, .. } = self.large[at as usize].take()?;
                Some((at, Either::Large(event)))
            }
            Place::Small(at) => {
                let Entry { at, event, .. } = self.small[at as usize].take()?;
                Some((at, Either::Small(event)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kringle_core::dice::{Dice, SeededDice};

    use super::*;

    #[test]
    fn events_come_out_in_time_order_and_first_come_first_served() {
        let mut queue: Queue<char, char> = Queue::new();
        // Past the first tick, which is open from the start.
        let at = |micros: u64| Time::from_micros(1_000 + micros);
        for (count, (time, name)) in
            [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (9, 'e')].into_iter().enumerate()
        {
            let event = if name == 'c' { Either::Small(name) } else { Either::Large(name) };
            queue.push(at(time), count as u64, event);
        }
        assert_eq!(queue.pop(), Some((at(3), Either::Large('b'))));
        assert_eq!(queue.upcoming(1), Some(&'a'));
        queue.push(at(3), 5, Either::Small('f'));
        let rest: Vec<char> = std::iter::from_fn(|| {
            queue.pop().map(|(_, event)| match event {
                Either::Large(name) | Either::Small(name) => name,
            })
        })
        .collect();
        assert_eq!(rest, ['d', 'f', 'a', 'c', 'e']);
        assert_eq!(queue.len(), 0);
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn whatever_the_spans_the_order_is_that_of_a_sorted_list() {
        for seed in 0..20 {
            let mut dice = SeededDice::new(seed);
            let (mut queue, mut list): (Queue<u64, u64>, _) = (Queue::new(), BTreeMap::new());
            let mut now = 0u64;
            for count in 0..20_000u64 {
                // From the same microsecond to months ahead, so that ticks, turns and gaps are crossed.
                let at = now + (dice.roll() >> (24 + dice.below(40)));
                let small = dice.below(2) == 0;
                queue.push(
                    Time::from_micros(at),
                    count,
                    if small { Either::Small(count) } else { Either::Large(count) },
                );
                list.insert((at, count), small);
                while list.len() > 1000 || dice.below(3) == 0 {
                    let Some(((at, number), small)) = list.pop_first() else { break };
                    let event = if small { Either::Small(number) } else { Either::Large(number) };
                    assert_eq!(queue.pop(), Some((Time::from_micros(at), event)), "seed {seed}");
                    now = at;
                }
                assert_eq!(queue.len(), list.len());
            }
        }
    }
}
