//! What stays broken until it is mended: cut links, cut pairs, partitions, slow nodes.

use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};

use super::Network;

/// Into which groups the nodes are split.
#[derive(Clone, Debug)]
pub(super) enum Partition {
    /// Not at all.
    Whole,
    /// Into this many, by a hash of the node.
    Hashed(u32),
    /// The group of each node.
    Listed(Vec<u8>),
}

/// Keep cut pairs and groups apart from other things drawn from the same seed.
const PAIRS: u64 = 4 << 40;
const GROUPS: u64 = 5 << 40;

impl Network {
    /// Cuts the link from one node to another, in this direction only.
    pub fn cut(&mut self, from: u32, to: u32) {
        self.cuts.insert((from, to));
    }

    /// Cuts both directions. While both can talk to a third node, reachability is not transitive.
    pub fn cut_both(&mut self, a: u32, b: u32) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Mends both directions of a link that was cut by name; pairs and partitions are mended by [`Network::mend`] only.
    pub fn mend_both(&mut self, a: u32, b: u32) {
        self.cuts.remove(&(a, b));
        self.cuts.remove(&(b, a));
    }

    /// Splits the nodes into this many groups of about the same size, drawn from the seed. Messages between groups are
    /// lost until [`Network::mend`]. Nodes that come later have their group, too. One group is no partition.
    pub fn split(&mut self, parts: u32) {
        self.partition = if parts > 1 { Partition::Hashed(parts) } else { Partition::Whole };
    }

    /// Splits the nodes into the groups listed, one entry per node; nodes beyond the list belong to group 0. Messages
    /// between groups are lost until [`Network::mend`].
    pub fn split_by(&mut self, groups: Vec<u8>) {
        self.partition = Partition::Listed(groups);
    }

    /// Returns the group a node is in: 0 for everybody unless the network is split.
    pub fn group(&self, node: u32) -> u32 {
        match &self.partition {
            Partition::Whole => 0,
            Partition::Hashed(parts) => {
                SeededDice::derive(self.seed ^ GROUPS, node.into()).below(*parts as usize) as u32
            }
            Partition::Listed(groups) => groups.get(node as usize).copied().unwrap_or(0).into(),
        }
    }

    /// Mends everything: cut links, cut pairs, partitions. What has no place, like loss and slowness, stays.
    pub fn mend(&mut self) {
        self.cuts.clear();
        self.cut_pairs_per_million = 0;
        self.partition = Partition::Whole;
    }

    /// Multiplies all delays to and from a node, as if it were overloaded. A factor of 1 ends it.
    pub fn slow(&mut self, node: u32, factor: u32) {
        self.slow.retain(|(slow, _)| *slow != node);
        if factor > 1 {
            let at = self.slow.partition_point(|(slow, _)| *slow < node);
            self.slow.insert(at, (node, factor));
        }
    }

    /// Ends all faults: mends everything, and nothing is lost, doubled, held up or slow any more.
    pub fn quiet(&mut self) {
        self.mend();
        self.loss_per_million = 0;
        self.doubled_per_million = 0;
        self.reordered_per_million = 0;
        self.slow.clear();
    }

    /// Says whether messages from one node to another are lost for certain.
    pub fn is_cut(&self, from: u32, to: u32) -> bool {
        !self.cuts.is_empty() && self.cuts.contains(&(from, to))
            || self.cut_pairs_per_million > 0 && self.is_cut_pair(from, to)
            || !matches!(self.partition, Partition::Whole) && self.group(from) != self.group(to)
    }

    /// Says whether a connection between two nodes cannot work: it needs both directions.
    pub fn is_parted(&self, a: u32, b: u32) -> bool {
        self.is_cut(a, b) || self.is_cut(b, a)
    }

    fn is_cut_pair(&self, from: u32, to: u32) -> bool {
        // The smaller one first, so that both directions share a fate. A node always reaches itself.
        let pair = u64::from(from.min(to)) << 32 | u64::from(from.max(to));
        let mut dice = SeededDice::derive(self.seed ^ PAIRS, pair);
        from != to && dice.below(1_000_000) < self.cut_pairs_per_million as usize
    }

    pub(super) fn slowed(&self, delay: Duration, from: u32, to: u32) -> Duration {
        if self.slow.is_empty() {
            return delay;
        }
        delay.saturating_mul(self.factor(from)).saturating_mul(self.factor(to))
    }

    fn factor(&self, node: u32) -> u32 {
        self.slow.binary_search_by_key(&node, |(slow, _)| *slow).map_or(1, |at| self.slow[at].1)
    }
}
