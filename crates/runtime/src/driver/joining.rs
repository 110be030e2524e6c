//! Finding the ring: seeds are resolved, reached and asked who they are, again and again until somebody is there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use kringle_core::contact::Contact;
use kringle_core::edge::{Command, Failure, Reply, Timer};
use kringle_core::node::Node;
use kringle_core::overlay::Status;
use kringle_core::wire::AddressBook;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::timeout;

use super::peers::DialError;
use super::{Driver, NEVER, Shell};
use crate::error::RequestError;
use crate::handle::Ending;
use crate::launch::give_store;
use crate::report::What;
use crate::seeds::Seed;
use crate::transport::hello::Why;

/// A client that waits for the outcome of a search.
pub(super) struct Client {
    reply: oneshot::Sender<Result<(), RequestError>>,
    /// The seeds it named, and those of them that were not known before.
    seeds: Vec<Seed>,
    added: Vec<Seed>,
}

/// First and longest pause between two rounds over the seeds.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long the others are waited for once one seed has answered.
const COMPANY: Duration = Duration::from_millis(100);
/// How long a name may take to be resolved.
const RESOLVE: Duration = Duration::from_secs(5);

/// What a round over the seeds has shown.
#[derive(Default)]
struct Round {
    found: Vec<Contact>,
    /// Seeds that have an address, by their places in the list.
    tried: BTreeSet<usize>,
    /// Seeds that turned out to be this node itself.
    myself: BTreeSet<usize>,
    /// Seeds that refused this node for a reason that stays, and the reason. A name may stand for several addresses, of
    /// which some do not answer.
    refused: BTreeMap<usize, RequestError>,
    /// A seed whose store was founded apart from ours, in words.
    apart: Option<String>,
    last_error: Option<String>,
}

impl Driver {
    /// The node starts its life: it founds a ring, joins one, or comes back to one.
    pub(super) fn begin(&mut self) {
        self.note_lineage();
        let remembered = self.remembered_peers();
        if self.seeds.is_empty() && remembered.is_empty() {
            return self.found();
        }
        self.look_for_ring(remembered, None);
    }

    fn remembered_peers(&mut self) -> Vec<Contact> {
        let Some(home) = &self.home else { return Vec::new() };
        let (peers, warning) = home.peers();
        if let Some(warning) = warning {
            tracing::warn!(%warning, "the list of known peers is lost; seeds will do");
        }
        let me = self.me.identity.id();
        let mut contacts = Vec::new();
        for peer in peers.iter().filter(|peer| peer.id != me) {
            let addr = self.book.learn(peer.id, peer.incarnation, &peer.endpoints);
            contacts.push(Contact::new(peer.id, peer.incarnation, addr));
        }
        contacts
    }

    /// Founds a ring of this node alone.
    fn found(&mut self) {
        let reply = self.reply_to_clients();
        self.command(Command::Create, reply);
        self.note_lineage();
    }

    /// A handle asks for a ring.
    pub(super) fn join(&mut self, seeds: Vec<Seed>, reply: oneshot::Sender<Result<(), RequestError>>) {
        let added: Vec<Seed> = seeds.iter().filter(|seed| !self.seeds.contains(seed)).cloned().collect();
        for seed in &added {
            self.seeds.insert(0, seed.clone());
        }
        self.seeds.truncate(64);
        let client = Client { reply, seeds: seeds.clone(), added };
        if self.joining {
            // The search under way tries them, too.
            if let Some(named) = &mut self.named {
                named.extend(seeds);
                named.truncate(64);
            }
            self.clients.push(client);
            if let Some(shell) = self.shell.upgrade() {
                shell.seeded.notify_one();
            }
            return;
        }
        self.look_for_ring(Vec::new(), Some(client));
        self.named = Some(seeds);
    }

    fn look_for_ring(&mut self, remembered: Vec<Contact>, client: Option<Client>) {
        let Some(shell) = self.shell.upgrade() else { return };
        (self.joining, self.yielded, self.named) = (true, false, None);
        self.clients.extend(client);
        spawn_local(async move { shell.find_ring(remembered).await });
    }

    /// Returns where the core's answer goes: to the clients that wait for it.
    fn reply_to_clients(&mut self) -> oneshot::Sender<Result<Reply, Failure>> {
        let (tell, told) = oneshot::channel::<Result<Reply, Failure>>();
        let (payload, clients) = (self.config.payload, std::mem::take(&mut self.clients));
        if !clients.is_empty() {
            spawn_local(async move {
                let answer = match told.await {
                    Ok(answer) => answer.map(drop).map_err(|failure| RequestError::of(failure, payload)),
                    Err(_) => Err(RequestError::Gone),
                };
                for client in clients {
                    let _ = client.reply.send(answer.clone());
                }
            });
        }
        tell
    }

    /// Draws the consequences of a round that found no ring. A client whose seeds have all refused this node for good
    /// hears so, and they are not tried again. A node that was started for this ring ends if all seeds refuse it. Returns
    /// whether the search is over.
    fn was_turned_away(&mut self, seeds: &[Seed], round: &Round) -> bool {
        let apart = match &round.apart {
            Some(what) if !self.is_blank() => Some(RequestError::FoundedApart(what.clone())),
            // Not for good: it is about to give way, or another node to it.
            Some(_) => return false,
            None => None,
        };
        for client in std::mem::take(&mut self.clients) {
            match apart.clone().or_else(|| round.refusal(|at| client.seeds.contains(&seeds[at]))) {
                Some(error) => {
                    self.seeds.retain(|seed| !client.added.contains(seed));
                    let _ = client.reply.send(Err(error));
                }
                None => self.clients.push(client),
            }
        }
        if let Some(named) = &mut self.named {
            named.retain(|seed| self.clients.iter().any(|client| client.seeds.contains(seed)));
            self.joining = !self.clients.is_empty();
            return !self.joining;
        }
        match apart.or_else(|| round.refusal(|_| !self.had_peers)) {
            Some(RequestError::FoundedApart(what)) => self.finish(Ending::FoundedApart { what }),
            Some(RequestError::WrongCluster(what)) => self.finish(Ending::WrongCluster { what }),
            Some(RequestError::Refused(what)) => self.finish(Ending::Refused { what }),
            Some(error) => self.finish(Ending::Failed { what: error.to_string() }),
            None => return false,
        }
        true
    }

    /// A member was found: the core takes over.
    fn found_ring(&mut self, mut contacts: Vec<Contact>, remembered: Vec<Contact>) {
        self.joining = false;
        if self.ending.is_some() {
            return;
        }
        let back = self.had_peers;
        for contact in remembered {
            if !contacts.iter().any(|known| known.id == contact.id) {
                contacts.push(contact);
            }
        }
        let reply = self.reply_to_clients();
        let command = match self.node.status() {
            Status::Out if back => Command::Rejoin { seeds: contacts },
            Status::Out => Command::Join { seeds: contacts },
            _ => Command::Meet { peers: contacts },
        };
        self.command(command, reply);
    }

    /// This identity was known in a later life: it goes on as one that is later still, with nothing kept.
    pub(super) fn be_reborn(&mut self, at_least: u32) {
        if self.ending.is_some() {
            return;
        }
        tracing::warn!("a later life of this node was known; going on as a later one still");
        // What is kept is from before the later life: others may have built on what it promised since.
        self.forget_everything();
        self.begin_anew(at_least);
    }

    /// Goes on as after a restart, with the store as it is on the disk.
    pub(super) fn begin_anew(&mut self, at_least: u32) {
        if self.ending.is_some() {
            return;
        }
        let incarnation = match &self.home {
            Some(home) => match home.raise_incarnation(at_least) {
                Ok(incarnation) => incarnation,
                Err(error) => return self.finish(Ending::Failed { what: error.to_string() }),
            },
            None => at_least,
        };
        tracing::info!(incarnation, "a new life begins");
        let mut peers: Vec<Contact> = self.node.routes().neighbours();
        self.renew(incarnation, false);
        peers.extend(self.remembered_peers());
        self.had_peers |= !peers.is_empty();
        match peers.is_empty() && self.seeds.is_empty() {
            true => self.begin(),
            false => self.look_for_ring(peers, None),
        }
    }

    /// Begins a life with an empty store, without looking for a ring.
    pub(super) fn begin_life(&mut self, at_least: u32, first: bool) {
        self.forget_everything();
        let raised = self.home.as_ref().map(|home| home.raise_incarnation(at_least)).transpose();
        match raised {
            Ok(raised) => self.renew(raised.unwrap_or(at_least), first),
            Err(error) => self.finish(Ending::Failed { what: error.to_string() }),
        }
    }

    /// Replaces the node by a new one, with the store as it is. `first`: no earlier life has promised anything.
    fn renew(&mut self, incarnation: u32, first: bool) {
        let me = self.node.me();
        self.me.incarnation = incarnation;
        let addr = self.book.prove(me.id, incarnation, &self.about.endpoints);
        let node = Node::by_config(me.id, incarnation, addr, &self.config);
        let node = if first { node.in_its_first_life() } else { node };
        self.node = match give_store(node, &mut self.engine, &self.config) {
            Ok(node) => node,
            Err(error) => return self.finish(Ending::Failed { what: error.to_string() }),
        };
        #[cfg(any(test, feature = "checks"))]
        {
            self.has_handled = false;
        }
        self.timers = [NEVER; Timer::ALL.len()];
        self.soon.clear();
        self.tell_room();
        // What the old life had to say must not be said by the new one.
        for dialling in self.dialling.values_mut() {
            self.waiting_to_leave -= dialling.clear();
        }
        let _ = self.ready.send(false);
        for link in self.links.values().flat_map(super::PeerLinks::all) {
            link.close(false);
        }
        for (_, waiting) in self.waiting.drain() {
            let _ = waiting.send(Err(Failure::Ended));
        }
    }
}

impl Shell {
    /// Looks for somebody, for as long as it takes.
    async fn find_ring(self: Rc<Shell>, remembered: Vec<Contact>) {
        let mut pause = PAUSE_MIN;
        loop {
            if self.driver.borrow().ending.is_some() {
                return;
            }
            let (seeds, yielded) = {
                let driver = self.driver.borrow();
                // A client hears of the seeds it named, not of others that this node knows.
                (driver.named.as_ref().unwrap_or(&driver.seeds).clone(), driver.yielded)
            };
            let round = self.try_seeds(&seeds).await;
            if !round.found.is_empty() || !remembered.is_empty() {
                return self.enter(|driver| driver.found_ring(round.found, remembered));
            }
            if !round.tried.is_empty() && round.myself == round.tried {
                return self.enter(|driver| driver.found_nobody_else());
            }
            if !yielded && self.driver.borrow().yielded {
                // This node has another lineage now: the same seeds will take it.
                continue;
            }
            // The cluster it gave way to is gone: another one may do.
            self.driver.borrow_mut().yielded = false;
            if self.enter(|driver| driver.was_turned_away(&seeds, &round)) {
                return;
            }
            let why = round.last_error.unwrap_or_else(|| "no seed has an address".into());
            tracing::warn!(why, "no seed answers; trying again");
            self.enter(|driver| {
                driver
                    .tell(What::Refused { peer: "seeds".into(), reason: format!("no seed answers: {why}") });
            });
            pause = match timeout(pause, self.seeded.notified()).await {
                Ok(()) => PAUSE_MIN,
                Err(_) => (pause * 2).min(PAUSE_MAX),
            };
        }
    }

    /// A search that goes on for long tries the seeds anew: names may lead elsewhere by now.
    pub(super) async fn look_again(self: Rc<Shell>) {
        let (seeds, joining) = {
            let driver = self.driver.borrow();
            (driver.seeds.clone(), driver.joining)
        };
        if joining || seeds.is_empty() {
            return;
        }
        let peers = self.try_seeds(&seeds).await.found;
        if !peers.is_empty() && self.driver.borrow().ending.is_none() {
            self.enter(|driver| driver.command(Command::Meet { peers }, oneshot::channel().0));
        }
    }

    async fn try_seeds(self: &Rc<Shell>, seeds: &[Seed]) -> Round {
        let mut round = Round::default();
        let mut addresses: Vec<(SocketAddr, usize)> = Vec::new();
        for (at, seed) in seeds.iter().enumerate() {
            match resolve(seed).await {
                Ok(found) => addresses.extend(found.into_iter().map(|address| (address, at))),
                Err(why) => round.last_error = Some(why),
            }
        }
        addresses.sort();
        addresses.dedup_by_key(|(address, _)| *address);
        let mut asking = JoinSet::new();
        for (address, at) in addresses.into_iter().take(64) {
            let shell = self.clone();
            round.tried.insert(at);
            asking.spawn_local(async move { (address, at, shell.resolve(address).await) });
        }
        loop {
            // The first is enough to start from; the others have a moment to add themselves.
            let next = match round.found.is_empty() {
                true => asking.join_next().await,
                false => timeout(COMPANY, asking.join_next()).await.ok().flatten(),
            };
            match next {
                None => return round,
                Some(Ok((_, _, Ok(contact)))) => round.found.push(contact),
                Some(Ok((_, at, Err(DialError::Myself)))) => drop(round.myself.insert(at)),
                Some(Ok((address, at, Err(error)))) => {
                    let text = format!("{address}: {error}");
                    match error.why() {
                        Some(Why::Cluster) => {
                            round.refused.insert(at, RequestError::WrongCluster(text.clone()));
                        }
                        _ if error.stays() => {
                            round.refused.entry(at).or_insert_with(|| RequestError::Refused(text.clone()));
                        }
                        _ => {}
                    }
                    round.apart = error.founded_apart().map(String::from).or(round.apart);
                    round.last_error = Some(text);
                }
                Some(Err(_)) => {}
            }
        }
    }
}

impl Round {
    /// Returns why these seeds will never take this node, if all of them that were tried have said so.
    fn refusal(&self, named: impl Fn(usize) -> bool) -> Option<RequestError> {
        let mut tried = self.tried.iter().filter(|at| named(**at));
        let reason = self.refused.iter().find(|(at, _)| named(**at)).map(|(_, reason)| reason.clone());
        reason.filter(|_| tried.all(|at| self.refused.contains_key(at) || self.myself.contains(at)))
    }
}

impl Driver {
    /// Every seed is this node itself: it is the first of its ring, unless it has been part of one.
    fn found_nobody_else(&mut self) {
        self.joining = false;
        match self.node.status() {
            Status::Out if !self.had_peers => self.found(),
            _ => drop(self.reply_to_clients().send(Err(Failure::NoSeeds))),
        }
    }
}

async fn resolve(seed: &Seed) -> Result<Vec<SocketAddr>, String> {
    match seed {
        Seed::Address(address) => Ok(vec![*address]),
        Seed::Name(host, port) => {
            match timeout(RESOLVE, tokio::net::lookup_host((host.as_str(), *port))).await {
                Ok(Ok(addresses)) => Ok(addresses.take(16).collect()),
                Ok(Err(error)) => Err(format!("{host}: {error}")),
                Err(_) => Err(format!("{host}: the name could not be resolved within five seconds")),
            }
        }
    }
}
