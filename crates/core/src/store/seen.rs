//! Which requests of other nodes came before.

use alloc::collections::{BTreeMap, VecDeque};

use super::record::Origin;
use super::version::Version;

/// How many requests are remembered.
const SEEN_MAX: usize = 8192;

/// The requests that came last, so that one that comes twice is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Seen {
    versions: BTreeMap<Origin, Version>,
    order: VecDeque<Origin>,
}

impl Seen {
    /// Takes note of a request. Says whether it came before, with this version.
    pub(super) fn is_again(&mut self, origin: Origin, version: Version) -> bool {
        match self.versions.insert(origin, version) {
            Some(before) => before == version,
            None => {
                self.order.push_back(origin);
                if self.order.len() > SEEN_MAX
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.versions.remove(&oldest);
                }
                false
            }
        }
    }
}
