//! The nodes of the demo: started, found by name, ended.

use std::time::{Duration, Instant};

use kringle::{Hub, Node, NodeId, Settings, app_fn};
use kringle_core::config::OverlayKind;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::overlay::{Overlay, Status};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::failure::Failure;

/// The most nodes a demo has.
pub(crate) const NODES_MAX: usize = 1000;
/// What every node of the demo runs: it answers with its name and what it was told.
pub(crate) const PURPOSE: u32 = 16;
/// The name of the demo's cluster.
const CLUSTER: &str = "demo";
/// Slots of the store. All nodes share one thread here, and every slot changes hands a few times while they join.
const SLOTS: u32 = 256;
/// Nodes that may be joining at a time. More would only be in each other's way.
const ABREAST: usize = 16;
/// How long a ring may take to heal before we say that it has not.
const HEAL: Duration = Duration::from_secs(30);
/// How long a ring may take to settle before it is shown all the same.
const SETTLE: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// A node of the demo.
#[derive(Clone)]
pub(crate) struct Member {
    /// Counts from 1; never given twice.
    pub(crate) number: usize,
    pub(crate) node: Node,
}

impl Member {
    pub(crate) fn name(&self) -> String {
        name(self.number)
    }

    /// The name, and enough of the id to recognise it.
    pub(crate) fn title(&self) -> String {
        format!("{} ({})", &self.node.id().to_string()[..6], self.name())
    }
}

fn name(number: usize) -> String {
    format!("demo-{number}")
}

/// All nodes that are alive, by number.
pub(crate) struct Ring {
    hub: Hub,
    seed: u64,
    overlay: OverlayKind,
    members: Vec<Member>,
    /// The number of the next node.
    next: usize,
    dice: SeededDice,
}

impl Ring {
    /// Starts a ring and waits until everybody is part of it. Tells how many are.
    pub(crate) async fn start(
        count: usize,
        seed: u64,
        overlay: OverlayKind,
        mut tell: impl FnMut(usize),
    ) -> Result<Ring, Failure> {
        let mut ring = Ring {
            hub: Hub::new(),
            seed,
            overlay,
            members: Vec::new(),
            next: 1,
            dice: SeededDice::derive(seed, u64::MAX),
        };
        ring.grow(count, &mut tell).await?;
        // The last leases may still be on their way; if they take long, everybody can watch.
        let _ = timeout(SETTLE, ring.healed()).await;
        Ok(ring)
    }

    /// Adds nodes and waits until they are part of the ring. A few join at a time, each through some node that is there.
    pub(crate) async fn grow(
        &mut self,
        count: usize,
        tell: &mut impl FnMut(usize),
    ) -> Result<Vec<Member>, Failure> {
        let newcomers = self.next..self.next + count;
        let mut waiting = newcomers.map(|number| Newcomer::new(self.seed, self.overlay, number));
        self.next += count;
        let (mut joining, mut new) = (JoinSet::new(), Vec::new());
        loop {
            // The first one is the ring the others join.
            let abreast = if self.members.is_empty() { 1 } else { ABREAST };
            while joining.len() < abreast
                && let Some(newcomer) = waiting.next()
            {
                let through = self.members.get(self.dice.below(self.members.len())).cloned();
                joining.spawn_local(newcomer.join(self.hub.clone(), through));
            }
            let Some(joined) = joining.join_next().await else { break };
            let member = joined.map_err(|error| trouble(&error.to_string()))??;
            new.push(member.clone());
            self.members.push(member);
            tell(self.members.len());
        }
        self.members.sort_by_key(|member| member.number);
        new.sort_by_key(|member| member.number);
        Ok(new)
    }

    /// Returns the nodes that are alive, by number.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the node that is asked: the first that is alive.
    pub(crate) fn here(&self) -> &Member {
        self.members.first().expect("the last node is never ended before the demo is")
    }

    /// Returns the name of a node, if it is one of ours.
    pub(crate) fn name_of(&self, id: &str) -> Option<String> {
        self.by_id(id).map(Member::name)
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<&Member> {
        let id: NodeId = id.parse().ok()?;
        self.members.iter().find(|member| member.node.id() == id)
    }

    /// Finds a node by its name, its number, or the beginning of its id.
    pub(crate) fn find(&self, text: &str) -> Result<&Member, Failure> {
        let gone = |number: usize| {
            Failure::usage(
                format!("{} is not there any more", name(number)),
                "Type 'ring' for those that are, or 'spawn' for a new one.",
            )
        };
        if let Some(number) = number(text).filter(|number| (1..self.next).contains(number)) {
            return self.members.iter().find(|member| member.number == number).ok_or_else(|| gone(number));
        }
        let start = text.to_ascii_lowercase();
        let fits = |member: &&Member| member.node.id().to_string().starts_with(&start);
        let found: Vec<&Member> = self.members.iter().filter(fits).collect();
        match found.as_slice() {
            [one] => Ok(one),
            [] => Err(Failure::usage(
                format!("there is no node {text:?}"),
                "Use a name like demo-3, its number, or the beginning of an id; 'ring' lists them.",
            )),
            many => {
                let titles: Vec<String> = many.iter().take(8).map(|member| member.title()).collect();
                let more = if many.len() > 8 { ", ..." } else { "" };
                Err(Failure::usage(
                    format!("{} nodes begin with {text}: {}{more}", many.len(), titles.join(", ")),
                    "Write more digits, or the name.",
                ))
            }
        }
    }

    /// Takes a node out of the list, if so many remain: one, or two if it is not going to say goodbye. Ending it is the
    /// caller's.
    pub(crate) fn remove(&mut self, number: usize, remaining: usize) -> Result<Member, Failure> {
        let at = self.members.iter().position(|member| member.number == number);
        match at {
            Some(at) if self.members.len() > remaining => Ok(self.members.remove(at)),
            Some(_) if self.members.len() > 1 => Err(Failure::usage(
                "of two nodes the other one could not tell a crash from being cut off, and would stop answering",
                "Type 'spawn' for another one first, or let it say goodbye: leave NODE",
            )),
            _ => Err(Failure::usage(
                format!("{} is the last node", name(number)),
                "Type 'spawn' for another one first, or 'quit' to end the demo.",
            )),
        }
    }

    /// Waits until every node has the right neighbours, nobody counts on a node that is gone, and every key has a node
    /// that may deliver for it. Returns how long that took.
    pub(crate) async fn healed(&self) -> Result<Duration, Failure> {
        let began = Instant::now();
        while !self.is_whole().await {
            if began.elapsed() > HEAL {
                return Err(Failure::failed(
                    format!("the ring has not healed within {} seconds", HEAL.as_secs()),
                    "That should not happen. Look at it with 'status', and please tell us.",
                ));
            }
            sleep(LOOK).await;
        }
        Ok(began.elapsed())
    }

    async fn is_whole(&self) -> bool {
        let mut ids: Vec<NodeId> = self.members.iter().map(|member| member.node.id()).collect();
        ids.sort_unstable();
        for member in &self.members {
            let look = member.node.handle().look(|view| {
                let (node, overlay) = (view.node, view.node.overlay());
                let entitled = overlay.entitled(view.now, view.config).is_some();
                let beside = match (overlay.as_pastry(), overlay.as_chord()) {
                    (Some(pastry), _) => {
                        let leaves = pastry.router().leaf_set();
                        (leaves.left().next(), leaves.right().next())
                    }
                    (_, Some(chord)) => (chord.predecessor(), chord.successors().first().copied()),
                    (None, None) => return None,
                };
                let beside = (beside.0.map(|contact| contact.id), beside.1.map(|contact| contact.id));
                let members: Vec<NodeId> = overlay.neighbours().iter().map(|leaf| leaf.id).collect();
                (node.status() == Status::Ready && entitled).then_some((beside, members))
            });
            let Ok(Some((beside, leaves))) = look.await else { return false };
            let known = leaves.iter().all(|leaf| ids.binary_search(leaf).is_ok());
            let Ok(at) = ids.binary_search(&member.node.id()) else { return false };
            let at_step =
                |step: usize| Some(ids[(at + step) % ids.len()]).filter(|id| *id != member.node.id());
            if !known || beside != (at_step(ids.len() - 1), at_step(1)) {
                return false;
            }
        }
        true
    }

    /// Ends everybody.
    pub(crate) async fn end(&mut self) {
        let mut ending = JoinSet::new();
        for member in self.members.drain(..) {
            ending.spawn_local(async move { member.node.handle().kill().await });
        }
        ending.join_all().await;
    }
}

/// Reads a name or a number of a node: demo-3 or 3. More than four digits are the beginning of an id.
fn number(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("demo-").unwrap_or(text);
    let plain = digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain && !digits.starts_with('0'))
}

/// A node that is going to join.
struct Newcomer {
    number: usize,
    overlay: OverlayKind,
    key: [u8; 32],
}

impl Newcomer {
    fn new(seed: u64, overlay: OverlayKind, number: usize) -> Newcomer {
        let mut dice = SeededDice::derive(seed, number as u64);
        let mut key = [0; 32];
        key.chunks_mut(8).for_each(|part| part.copy_from_slice(&dice.roll().to_be_bytes()));
        Newcomer { number, overlay, key }
    }

    /// Starts the node and waits until it is part of the ring.
    async fn join(self, hub: Hub, through: Option<Member>) -> Result<Member, Failure> {
        let name = name(self.number);
        let echo = {
            let name = name.clone();
            app_fn(move |_, message| {
                Some(format!("{name}: {}", String::from_utf8_lossy(&message.bytes)).into_bytes())
            })
        };
        let builder = Node::builder(CLUSTER).settings(Settings {
            slots: SLOTS,
            overlay: self.overlay,
            ..Settings::demo()
        });
        let builder = builder.memory(&hub).name(name).key(self.key).app(PURPOSE, echo);
        let members = through.map(|member| member.node.address());
        let builder = builder.join(members).map_err(|error| trouble(&error.to_string()))?;
        let node = builder.start_here().await.map_err(|error| trouble(&error.to_string()))?;
        node.ready().await.map_err(|error| trouble(&error.to_string()))?;
        Ok(Member { number: self.number, node })
    }
}

fn trouble(why: &str) -> Failure {
    Failure::failed(format!("a node did not start: {why}"), "Try again with fewer: kringle demo --nodes 16")
}
