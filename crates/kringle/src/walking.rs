//! A walk over the keys of the whole ring.

use std::future::IntoFuture;
use std::time::{Duration, SystemTime};

use kringle_core::id::Key;
use kringle_core::store::op::{Action, Answer, Found, Level, Name};
use kringle_core::store::version::Version;
use kringle_runtime::handle::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::StoreError;
use crate::node::Node;
use crate::request::{Pending, WITHIN, request};
use crate::storing::{Told, moment, unfitting};

/// Keys of a page if not said otherwise, and at most.
const PAGE: u32 = 100;
const PAGE_MAX: u32 = 1000;
/// How many parts of the ring are asked at the same time, if they have few keys.
const ABREAST: usize = 64;

/// Keys, in the order of their places on the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The keys. There may be none on a page that is not the last.
    pub keys: Vec<KeyInfo>,
    /// Where the next page begins; `None`: this was the last.
    pub next: Option<Cursor>,
}

/// One key of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The key.
    pub key: Vec<u8>,
    /// Its version.
    pub version: Version,
    /// Whether it holds a set.
    pub is_set: bool,
    /// When it ends; `None`: it stays.
    pub expires: Option<SystemTime>,
}

/// Where a walk over the keys is. It can go on at any node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    place: Key,
    after: Vec<u8>,
}

request! {
    /// Lists keys. Made by [`Node::keys`]. Needs a Tokio runtime.
    KeysRequest { from: Cursor, limit: u32 } -> Result<Page, StoreError>, run
}

impl Node {
    /// Lists the keys of the whole ring, page by page. What changes meanwhile may be missed; the rest is listed once.
    ///
    /// ```no_run
    /// # async fn example(node: kringle::Node) -> Result<(), kringle::Error> {
    /// let mut page = node.keys().await?;
    /// loop {
    ///     for found in &page.keys {
    ///         println!("{}", String::from_utf8_lossy(&found.key));
    ///     }
    ///     let Some(next) = page.next else { break };
    ///     page = node.keys().from(next).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(&self) -> KeysRequest {
        let from = Cursor { place: Key::ZERO, after: Vec::new() };
        KeysRequest { handle: self.handle.clone(), within: WITHIN, from, limit: PAGE }
    }
}

impl KeysRequest {
    /// Begins where another page ended.
    pub fn from(mut self, cursor: Cursor) -> Self {
        self.from = cursor;
        self
    }

    /// Lists so many keys at most, 1 to 1000; 100 if not said.
    pub fn limit(mut self, keys: u32) -> Self {
        self.limit = keys.clamp(1, PAGE_MAX);
        self
    }

    /// Goes on until the page is full, or most of the time is gone. The store answers for one slot at a time, and most
    /// are nearly empty, so several are asked ahead; an answer counts only if the one before it ends where it begins.
    async fn run(self) -> Result<Page, StoreError> {
        let KeysRequest { handle, within, from: mut at, limit } = self;
        let slots = handle.look(|view| view.config.slots).await?;
        let (end, mut keys, mut abreast, mut begun) = (Instant::now() + within, Vec::new(), 1, false);
        while keys.len() < limit as usize {
            let left = end.saturating_duration_since(Instant::now());
            if begun && left < within / 4 {
                break;
            }
            let (wanted, before) = (limit - keys.len() as u32, keys.len());
            for (spot, found) in ask(&handle, spots(&at, slots, abreast), wanted, left).await {
                if spot != at || keys.len() >= limit as usize {
                    break;
                }
                let mut found = match found.and_then(page) {
                    Ok(found) => found,
                    // What was found before is worth having; whoever goes on from there is told what is wrong then.
                    Err(_) if begun => return Ok(Page { keys, next: Some(at) }),
                    Err(error) => return Err(error),
                };
                begun = true;
                let room = limit as usize - keys.len();
                if found.keys.len() > room {
                    found.keys.truncate(room);
                    found.next = found.keys.last().map(|last| Cursor::after(&last.key));
                }
                keys.append(&mut found.keys);
                match found.next {
                    None => return Ok(Page { keys, next: None }),
                    Some(next) => at = next,
                }
            }
            let few = (keys.len() - before) * 2 < wanted as usize;
            abreast = if few { (abreast * 2).min(ABREAST) } else { (abreast / 2).max(1) };
        }
        Ok(Page { keys, next: Some(at) })
    }
}

impl Cursor {
    /// Returns where a walk is that has just seen a key.
    fn after(key: &[u8]) -> Cursor {
        Cursor { place: kringle_runtime::key::key_of(key), after: key.to_vec() }
    }
}

/// Asks for the keys at these places, at the same time, and returns what came in their order.
async fn ask(
    handle: &Handle,
    spots: Vec<Cursor>,
    limit: u32,
    within: Duration,
) -> Vec<(Cursor, Result<Answer, StoreError>)> {
    let mut asked = JoinSet::new();
    for (number, spot) in spots.into_iter().enumerate() {
        let handle = handle.clone();
        asked.spawn(async move {
            let action = Action::Keys { after: spot.after.clone(), limit };
            let name = Name { id: spot.place, bytes: Vec::new() };
            let told = Told { name, action, level: Level::default() };
            (number, spot, told.ask(&handle, within).await)
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(number, ..)| *number);
    answers.into_iter().map(|(_, spot, answer)| (spot, answer)).collect()
}

/// Returns where to ask: here, and at the beginnings of the slots after it.
fn spots(at: &Cursor, slots: u32, count: usize) -> Vec<Cursor> {
    // A ring of one slot has no bits to shift by.
    let Some(width) = 128_u32.checked_sub(slots.max(1).ilog2()).filter(|width| *width < 128) else {
        return vec![at.clone()];
    };
    let slot = u128::from_be_bytes(at.place.to_bytes()) >> width;
    let starts = (slot + 1..u128::from(slots))
        .map(|slot| Cursor { place: Key::new(slot << width), after: Vec::new() });
    [at.clone()].into_iter().chain(starts).take(count).collect()
}

fn page(answer: Answer) -> Result<Page, StoreError> {
    let Found::Keys { keys, next } = answer.found else { return Err(unfitting()) };
    let keys = keys.into_iter().map(|listed| KeyInfo {
        key: listed.name.bytes,
        version: listed.version,
        is_set: listed.is_set,
        expires: listed.expires.map(moment),
    });
    Ok(Page { keys: keys.collect(), next: next.map(|(place, after)| Cursor { place, after }) })
}

#[cfg(test)]
mod tests {
    use kringle_core::id::Id;
    use kringle_core::store::op::Listed;
    use kringle_runtime::key::name_of;

    use super::*;

    #[test]
    fn pages_keep_their_order_and_where_they_end() {
        let listed = Listed { name: name_of("k"), version: Version(7), is_set: true, expires: None };
        let found = Found::Keys { keys: vec![listed], next: Some((Id::new(9), b"k".to_vec())) };
        let page = page(Answer { found, acked: 2, wanted: 2, replicas: 3, hops: 1 }).unwrap();
        assert!(page.keys[0].key == b"k" && page.keys[0].is_set);
        assert_eq!(page.next, Some(Cursor { place: Id::new(9), after: b"k".to_vec() }));
    }

    #[test]
    fn the_slots_ahead_are_asked_where_they_begin() {
        let at = Cursor { place: Id::new(0xfe12 << 112), after: b"k".to_vec() };
        let spots = |slots, count| spots(&at, slots, count);
        assert_eq!(spots(256, 9), [at.clone(), Cursor { place: Id::new(0xff << 120), after: Vec::new() }]);
        assert_eq!(spots(1, 9), spots(256, 1));
        assert_eq!(spots(4096, 3).len(), 3);
    }
}
