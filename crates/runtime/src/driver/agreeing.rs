//! Nodes agree on the settings they share ([`crate::protocol`]) before they exchange a message.
//!
//! A node that joins says in its greeting which of its settings it would change: those that its operator did not give.
//! A member accepts such a greeting although the values differ. The joiner reads the member's values from the answer,
//! begins a new life with them and greets again. Any other difference is refused, KR0421, with both values.
//!
//! The number of copies is no reason to refuse a member: it can change while members are away. Each change has a higher
//! version than the one before, and the highest version wins. It is told in greetings and over open connections.

use std::rc::Rc;

use kringle_core::config::{Config, ConfigError};
use kringle_core::edge::Input;
use kringle_core::overlay::Status;

use super::{Driver, PeerLinks};
use crate::error::RequestError;
use crate::protocol::{ALL, COPIES, Protocol, bit, mismatch};
use crate::transport::hello::{Greeting, Hello, Refused, Why};
use crate::transport::link::Link;

/// In a set of settings to adopt: the node has never been part of a ring, so its values are not those of a cluster.
const UNSETTLED: u64 = 1 << 63;

impl Driver {
    /// Returns the settings that this node shares with its cluster.
    pub(super) fn protocol(&self) -> Protocol {
        Protocol::of(&self.config)
    }

    /// Returns which settings this node would change to those of a ring it joins. Once in a search: seeds of several
    /// clusters would have it change from one to the other.
    pub(super) fn adopts(&self) -> u64 {
        let new = self.joining && !self.yielded && self.lineage().is_none();
        let free = new && (!self.had_peers || self.discarded) && self.holds_nothing();
        let unsettled = !self.had_peers && self.node.status() != Status::Ready;
        let adopts = if free || self.offers_to_yield() { ALL & !self.me.said } else { 0 };
        adopts | if unsettled { UNSETTLED } else { 0 }
    }

    /// Returns the settings in which a peer differs from this node. The number of copies counts only for a node that joins.
    fn differences(&self, hello: &Hello, joins: bool) -> Vec<u64> {
        let mut found = self.protocol().differences(&hello.protocol);
        found.retain(|number| *number != COPIES || joins);
        found
    }

    /// Says which setting of a ring a node that joins does not have.
    fn refuse(&self, number: u64, ring: &Protocol, node: &Protocol) -> Refused {
        let text = mismatch(&self.about.cluster, number, ring.value(number), node.value(number));
        Refused::new(Why::Cluster, text)
    }

    /// Decides about the settings of a node that has dialled this one. A node that adopts ours is accepted: it will not
    /// use this connection, but come back with our values.
    pub(super) fn judge_protocol(&self, hello: &Hello) -> Result<(), Refused> {
        let mut differ = self.differences(hello, false);
        differ.retain(|number| bit(*number) & hello.adopts == 0);
        let ours = self.adopts();
        match differ.iter().find(|number| bit(**number) & ours == 0) {
            Some(number) => Err(self.refuse(*number, &self.protocol(), &hello.protocol)),
            None if differ.is_empty() => Ok(()),
            // Not for good: its own search decides.
            None => Err(Refused::new(Why::Other, "this node is joining a ring; try again")),
        }
    }

    /// Decides about the settings of a node that this one has dialled, and takes them if this node is joining. `offered`:
    /// the settings that this node said it would change.
    pub(super) fn judge_protocol_answer(&mut self, hello: &Hello, offered: u64) -> Result<(), Refused> {
        let joins = offered != 0 && (offered | self.me.said) & bit(COPIES) != 0;
        let differ = self.differences(hello, joins);
        if differ.is_empty() {
            return Ok(());
        }
        let may = offered & self.adopts();
        if let Some(number) = differ.iter().find(|number| bit(**number) & may == 0) {
            return Err(self.refuse(*number, &hello.protocol, &self.protocol()));
        }
        let theirs = differ.iter().fold(UNSETTLED, |set, number| set | bit(*number));
        if hello.adopts & theirs != 0 {
            return Err(Refused::new(Why::Other, "that node is joining a ring, too; try again"));
        }
        if self.lineage().is_some() {
            // It takes them together with the lineage, or not at all.
            return Ok(());
        }
        self.adopt(hello)?;
        self.write_membership().map_err(|error| {
            tracing::error!(%error, "cannot keep the settings of the cluster");
            Refused::new(Why::Other, "this node cannot write to its data directory")
        })?;
        Err(Refused::new(Why::Orderly, "this node has taken the settings of the cluster, and comes back"))
    }

    /// Refuses a peer whose settings differ right now.
    pub(super) fn check_protocol(&self, hello: &Hello) -> Result<(), Refused> {
        match self.differences(hello, false).first() {
            Some(number) => Err(self.refuse(*number, &self.protocol(), &hello.protocol)),
            None => Ok(()),
        }
    }

    /// Begins a new life, with an empty store and the settings of a peer's cluster.
    pub(super) fn adopt(&mut self, hello: &Hello) -> Result<(), Refused> {
        let config = self.config_with(&hello.protocol)?;
        if config != self.config {
            tracing::info!(cluster = self.about.cluster, "this node takes the settings of the cluster");
        }
        (self.config, self.me.copies_version) = (config, hello.copies_version);
        self.yielded = true;
        self.begin_life(self.me.incarnation.saturating_add(1), self.me.first_life);
        Ok(())
    }

    fn config_with(&self, protocol: &Protocol) -> Result<Config, Refused> {
        let mut settings = (*self.config).clone();
        let applied = protocol.apply(ALL & !self.me.said, &mut settings);
        let checked = applied.and_then(|()| settings.check().map_err(|error| error.to_string()));
        checked.map_err(|error| {
            let text = format!("this node cannot take the settings of the cluster: {error} (KR0421)");
            Refused::new(Why::Cluster, text)
        })
    }

    /// An operator changes the number of copies.
    pub(super) fn change_copies(&mut self, count: u8) -> Result<Result<(), ConfigError>, RequestError> {
        if self.node.status() != Status::Ready {
            return Err(RequestError::NotJoined);
        }
        Ok(self.set_copies(self.me.copies_version.saturating_add(1), count))
    }

    /// A peer says how many copies there are to be.
    pub(super) fn hear_copies(&mut self, version: u64, count: u64) {
        if (version, count) <= (self.me.copies_version, self.config.replicas.into()) {
            return;
        }
        let heard = u8::try_from(count).map_err(|_| count.to_string());
        let set = heard.and_then(|count| self.set_copies(version, count).map_err(|error| error.to_string()));
        if let Err(error) = set {
            tracing::warn!(count, error, "a peer named a number of copies that is impossible here");
        }
    }

    fn set_copies(&mut self, version: u64, count: u8) -> Result<(), ConfigError> {
        let mut settings = (*self.config).clone();
        settings.replicas = count;
        self.config = settings.check()?;
        self.me.copies_version = version;
        tracing::info!(copies = count, version, "the number of copies has changed");
        self.save_membership();
        let links: Vec<Rc<Link>> = self.links.values().flat_map(PeerLinks::all).collect();
        links.iter().filter(|link| !link.bulk).for_each(|link| self.tell_copies(link));
        self.input(Input::Reconfigured);
        Ok(())
    }

    /// Tells a peer how many copies there are to be.
    pub(super) fn tell_copies(&mut self, link: &Rc<Link>) {
        let (version, count) = (self.me.copies_version, self.config.replicas.into());
        if self.put_control(link, &Greeting::Copies { version, count }) == Some(true) {
            self.dirty.push(link.clone());
        }
    }
}
