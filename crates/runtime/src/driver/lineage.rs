//! Stores that were founded apart never become one.
//!
//! The lineage of a store is a number made when its cluster was founded. It stands in every greeting and in
//! `cluster.json`. Two nodes with different lineages refuse each other, because merging their stores by version would
//! lose acknowledged writes. One exception: a node that joins and whose store is *blank* drops its own lineage, for good,
//! and takes that of the cluster.
//!
//! Two blank founders may join each other at the same time; exactly one of them must yield, or no store is left. A
//! joining node says in its greeting that it would yield. A node that accepts such a greeting is *pinned*: it keeps its
//! own lineage until the other has either yielded or given up the handshake. If each pinned the other, the one with the
//! higher id yields.

use std::time::Duration;

use kringle_core::id::NodeId;
use kringle_core::store::Store;
use kringle_core::time::Time;

use super::Driver;
use crate::transport::hello::{Hello, Refused, Why};

/// How long an accepted offer to yield pins a node: longer than a handshake may take.
const PIN: Duration = Duration::from_secs(10);
/// Peers of other lineages that are remembered, so that each is reported once.
const APART_MAX: usize = 1024;

/// What a node has promised about its own lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    /// The peer whose offer was accepted; `None` if there were several.
    by: Option<NodeId>,
    until: Time,
}

impl Driver {
    /// Returns the lineage of this node's store, or that of the cluster it is joining.
    pub(super) fn lineage(&self) -> Option<u64> {
        self.node.store().and_then(Store::lineage).or(self.me.lineage)
    }

    /// Returns how many records this node holds, tombstones included.
    pub(super) fn record_count(&self) -> u64 {
        self.node.store().map_or(0, Store::record_count)
    }

    /// Says whether nothing is lost if this node drops its lineage: it has never had peers, holds every slot alone, and
    /// there is no record in any. A slot that does not serve may have records that cannot be read.
    pub(super) fn is_blank(&self) -> bool {
        !self.had_peers && self.holds_nothing()
    }

    /// Says whether this node has no peers, and no record or part of a view that another node relies on.
    pub(super) fn holds_nothing(&self) -> bool {
        let blank = |store: &Store| {
            store.is_sole_replica() && store.record_count() == 0 && store.survey().waiting == 0
        };
        self.node.routes().neighbours().is_empty() && self.node.store().is_none_or(blank)
    }

    /// Says whether this node offers to drop its lineage.
    pub(super) fn offers_to_yield(&self) -> bool {
        let pinned = self.pin.is_some_and(|pin| self.now < pin.until);
        !pinned && self.may_yield()
    }

    /// Once in a search: seeds of several lineages would have it change from one to the other.
    fn may_yield(&self) -> bool {
        self.joining && !self.yielded && self.lineage().is_some() && self.is_blank()
    }

    /// Refuses a peer whose store was founded apart from this node's.
    pub(super) fn check_lineage(&self, hello: &Hello, peer: NodeId) -> Result<(), Refused> {
        let (Some(ours), Some(theirs)) = (self.lineage(), hello.lineage) else { return Ok(()) };
        if ours == theirs {
            return Ok(());
        }
        let side = |id: NodeId, lineage: u64, records: u64| {
            let s = if records == 1 { "" } else { "s" };
            format!("node {:.8} has lineage {:08x} and {records} record{s}", id.to_string(), lineage >> 32)
        };
        let text = format!(
            "the two stores were founded apart and cannot become one: {}, {}",
            side(peer, theirs, hello.records),
            side(self.me.identity.id(), ours, self.record_count()),
        );
        Err(Refused::new(Why::Lineage, text))
    }

    /// Decides about the lineage of a node that has dialled this one. One that offers to yield is accepted: it will not
    /// use this connection, but come back with our lineage.
    pub(super) fn judge_lineage(&mut self, hello: &Hello, peer: NodeId) -> Result<(), Refused> {
        let Err(refused) = self.check_lineage(hello, peer) else { return Ok(()) };
        if hello.yields {
            let other = self.pin.filter(|pin| self.now < pin.until && pin.by != Some(peer));
            self.pin = Some(Pin { by: other.is_none().then_some(peer), until: self.now.after(PIN) });
            return Ok(());
        }
        if self.joining && self.is_blank() {
            // Not for good: its own search decides.
            return Err(Refused::new(Why::Other, "this node is joining a ring; try again"));
        }
        Err(refused)
    }

    /// Decides about the lineage of a node that this one has dialled. `offered`: this node has said that it yields.
    pub(super) fn judge_lineage_answer(
        &mut self,
        hello: &Hello,
        peer: NodeId,
        offered: bool,
    ) -> Result<(), Refused> {
        let Err(refused) = self.check_lineage(hello, peer) else { return Ok(()) };
        let Some(lineage) = hello.lineage.filter(|_| offered && self.may_yield()) else {
            return Err(refused);
        };
        let me = self.me.identity.id();
        let pinned = self.pin.filter(|pin| self.now < pin.until);
        // Pinned by that very node: then both have accepted, and both know.
        if pinned.is_some_and(|pin| pin.by != Some(peer) || me < peer) {
            return Err(Refused::new(Why::Other, "another node is joining this one; try again"));
        }
        self.yield_to(lineage, hello)?;
        Err(Refused::new(Why::Orderly, "this node has dropped its empty store, and comes back"))
    }

    /// Drops this node's lineage together with its empty store, durably, and takes that of a peer, with its settings.
    fn yield_to(&mut self, lineage: u64, hello: &Hello) -> Result<(), Refused> {
        let ours = self.lineage().unwrap_or(0);
        tracing::warn!(
            dropped = format!("{:08x}", ours >> 32),
            taken = format!("{:08x}", lineage >> 32),
            "the store is empty and was founded apart: this node joins without it"
        );
        self.adopt(hello)?;
        self.pin = None;
        self.me.lineage = None;
        self.adopt_lineage(lineage)
    }

    /// Takes the lineage of the cluster this node joins, if it has none. On disk before a message is exchanged, so
    /// before a view of that lineage is stored.
    pub(super) fn adopt_lineage(&mut self, lineage: u64) -> Result<(), Refused> {
        if self.lineage().is_some() {
            return Ok(());
        }
        self.me.lineage = Some(lineage);
        self.write_membership().map_err(|error| {
            self.me.lineage = None;
            tracing::error!(%error, "cannot keep the lineage of the cluster");
            Refused::new(Why::Other, "this node cannot write to its data directory")
        })?;
        self.close_links();
        Ok(())
    }

    /// Closes connections whose other ends know another lineage of this node, or none: that is said when one is opened.
    fn close_links(&self) {
        for link in self.links.values().flat_map(super::PeerLinks::all) {
            link.close(false);
        }
    }

    /// Writes down the lineage of the store, if it is not known yet: after founding, and for directories of older
    /// versions.
    pub(super) fn note_lineage(&mut self) {
        let Some(found) = self.node.store().and_then(Store::lineage) else { return };
        let known = self.me.lineage.replace(found);
        if known == Some(found) {
            return;
        }
        self.save_membership();
        self.close_links();
    }

    /// Counts a refusal between stores that were founded apart. Returns whether it is the first of this peer.
    pub(super) fn is_news_of(&mut self, peer: NodeId) -> bool {
        self.metrics.founded_apart.inc();
        if self.apart.len() >= APART_MAX {
            self.apart.clear();
        }
        self.apart.insert(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{enter, run};
    use super::*;
    use crate::Builder;
    use crate::handle::Handle;
    use crate::transport::hello::Purpose;
    use crate::transport::mem::Hub;

    /// A founder that is about to join, and what it says.
    async fn joiner(hub: &Hub) -> (Handle, Hello) {
        let node = Builder::new("t").memory(hub).start_here().await.unwrap();
        node.ready().await.unwrap();
        let hello = enter(&node, |driver| {
            driver.joining = true;
            driver.hello(Purpose::Peer, NodeId::ZERO)
        });
        let hello = hello.await;
        assert!(hello.yields && hello.lineage.is_some());
        (node, hello)
    }

    async fn accept(node: &Handle, hello: &Hello, from: &Handle) -> Result<(), Refused> {
        let (hello, from) = (hello.clone(), from.id());
        enter(node, move |driver| driver.judge_lineage(&hello, from)).await
    }

    async fn answered(node: &Handle, hello: &Hello, from: &Handle) -> Why {
        let (hello, from) = (hello.clone(), from.id());
        enter(node, move |driver| driver.judge_lineage_answer(&hello, from, true)).await.unwrap_err().why
    }

    #[test]
    fn if_both_accept_each_other_the_higher_id_yields() {
        run(async {
            let hub = Hub::new();
            let (mut low, mut high) = (joiner(&hub).await, joiner(&hub).await);
            if low.0.id() > high.0.id() {
                std::mem::swap(&mut low, &mut high);
            }
            accept(&low.0, &high.1, &high.0).await.unwrap();
            accept(&high.0, &low.1, &low.0).await.unwrap();
            assert_eq!(answered(&low.0, &high.1, &high.0).await, Why::Other);
            assert_eq!(answered(&high.0, &low.1, &low.0).await, Why::Orderly);
            assert_eq!(enter(&low.0, |driver| driver.lineage()).await, low.1.lineage);
            assert_eq!(enter(&high.0, |driver| driver.lineage()).await, low.1.lineage);
        });
    }

    #[test]
    fn a_node_that_another_yields_to_keeps_its_lineage() {
        run(async {
            let hub = Hub::new();
            let (node, other, third) = (joiner(&hub).await, joiner(&hub).await, joiner(&hub).await);
            accept(&node.0, &third.1, &third.0).await.unwrap();
            assert!(!enter(&node.0, |driver| driver.offers_to_yield()).await);
            assert_eq!(answered(&node.0, &other.1, &other.0).await, Why::Other);
            // Two have its word: it is not free by being the higher of one pair.
            accept(&node.0, &other.1, &other.0).await.unwrap();
            assert_eq!(answered(&node.0, &other.1, &other.0).await, Why::Other);
            assert_eq!(enter(&node.0, |driver| driver.lineage()).await, node.1.lineage);
        });
    }

    #[test]
    fn a_node_that_is_not_joining_never_yields() {
        run(async {
            let hub = Hub::new();
            let (node, other) = (joiner(&hub).await, joiner(&hub).await);
            enter(&node.0, |driver| driver.joining = false).await;
            let calm = enter(&node.0, |driver| driver.hello(Purpose::Peer, NodeId::ZERO)).await;
            assert!(!calm.yields);
            assert_eq!(answered(&node.0, &other.1, &other.0).await, Why::Lineage);
            enter(&other.0, |driver| driver.joining = false).await;
            assert_eq!(accept(&other.0, &calm, &node.0).await.unwrap_err().why, Why::Lineage);
        });
    }
}
