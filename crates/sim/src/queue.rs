//! The event queue: earliest first, and first come first served at equal times.

use std::cmp::Reverse;

use kringle_core::time::Time;
use radix_heap::RadixHeapMap;

/// Events in time order. Time only moves forward, which is what makes the radix heap fast.
pub(crate) struct Queue<E> {
    heap: RadixHeapMap<Reverse<u128>, u32>,
    /// Events lie here and the heap moves only their numbers: they are large, and the heap moves entries often.
    slab: Vec<Option<E>>,
    free: Vec<u32>,
    count: u64,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue { heap: RadixHeapMap::new(), slab: Vec::new(), free: Vec::new(), count: 0 }
    }

    /// Adds an event. `at` must not lie before the last event taken out.
    pub(crate) fn push(&mut self, at: Time, event: E) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slab[slot as usize] = Some(event);
                slot
            }
            None => {
                self.slab.push(Some(event));
                u32::try_from(self.slab.len() - 1).expect("fewer than 2^32 events are pending")
            }
        };
        // The number of the event breaks ties, so that a run does not depend on the heap's inner order.
        self.heap.push(Reverse(u128::from(at.micros()) << 64 | u128::from(self.count)), slot);
        self.count += 1;
    }

    /// Takes out the earliest event.
    pub(crate) fn pop(&mut self) -> Option<(Time, E)> {
        let (Reverse(key), slot) = self.heap.pop()?;
        let event = self.slab[slot as usize].take()?;
        self.free.push(slot);
        Some((Time::from_micros((key >> 64) as u64), event))
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_in_time_order_and_first_come_first_served() {
        let mut queue = Queue::new();
        let at = Time::from_micros;
        for (time, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (9, 'e')] {
            queue.push(at(time), name);
        }
        assert_eq!(queue.pop(), Some((at(3), 'b')));
        queue.push(at(3), 'f');
        let rest: Vec<char> = std::iter::from_fn(|| queue.pop().map(|(_, name)| name)).collect();
        assert_eq!(rest, ['d', 'f', 'a', 'c', 'e']);
        assert_eq!(queue.len(), 0);
    }
}
