//! Lineages: stores that were founded apart never pretend to be one.
//!
//! A store gets a lineage when it is founded. Nodes say it when they greet each other, and nodes of different lineages
//! refuse each other. A node without a lineage takes that of the first peer that has one. A node that joins and whose store
//! is blank gives its lineage up; of two that would, one does. One slot and one key, which clients create; every step of a
//! greeting is a step here, because others come meanwhile. A recovery is a new generation of the same lineage: old members
//! that were not asked set their stores aside. How survivors tell what they have is in [`super::recovering`].

use stateright::{Model, Property};

use super::quorum;

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// Nodes of different lineages refuse each other.
    Refuses,
    /// A node without a lineage takes the one it hears.
    Adopts,
    /// A greeting counts only if what this node said in it is still so, and a node that gets a lineage closes the connections
    /// that it made without.
    StillSo,
    /// Only a node that has no records and never had peers gives its lineage up.
    OnlyBlank,
    /// It looks again whether that is so when the answer has come.
    LooksAgain,
    /// A node that has accepted such an offer keeps its own lineage; if both did, the lower one.
    OneYields,
    /// A node refuses views of other lineages than its own.
    ViewsFit,
    /// An old member that was not asked sets its store aside when it hears of a recovery.
    SetAside,
    /// A member of a new view has exactly the records that the view has.
    Exact,
}

impl Left {
    /// All of them.
    pub const ALL: [Left; 9] = [
        Left::Refuses,
        Left::Adopts,
        Left::StillSo,
        Left::OnlyBlank,
        Left::LooksAgain,
        Left::OneYields,
        Left::ViewsFit,
        Left::SetAside,
        Left::Exact,
    ];
}

/// How a node begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// It has founded a cluster.
    Founder,
    /// The same, and now it wants to join another one.
    Joins,
    /// It has nothing yet.
    New,
    /// It is a member of a view, together with all others.
    Member,
}

/// A world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Its name.
    pub name: &'static str,
    /// The nodes.
    pub nodes: &'static [Start],
    /// Who may dial whom.
    pub dials: &'static [(u8, u8)],
    /// The nodes at which clients create the key, each once.
    pub creates: &'static [u8],
    /// Whether nodes say no lineage, as those of older versions do.
    pub silent: bool,
    /// Whether the first node, which has lost the others, recovers.
    pub recovers: bool,
    /// How many nodes may restart.
    pub restarts: u8,
    /// The rules that are left out.
    pub left: &'static [Left],
}

const BASE: World = World {
    name: "",
    nodes: &[],
    dials: &[],
    creates: &[],
    silent: false,
    recovers: false,
    restarts: 0,
    left: &[],
};

/// All worlds.
pub const WORLDS: &[World] = &[
    // Two founders that join each other, and a client at each.
    World {
        name: "two-founders",
        nodes: &[Start::Joins, Start::Joins],
        dials: &[(0, 1), (1, 0)],
        creates: &[0, 1, 1],
        ..BASE
    },
    // A founder joins another one with the directory it has, and a third node joins it meanwhile.
    World {
        name: "joined-founder",
        nodes: &[Start::Founder, Start::Joins, Start::New],
        dials: &[(1, 0), (2, 1), (2, 0)],
        creates: &[0, 1],
        restarts: 1,
        ..BASE
    },
    // A new node knows two clusters.
    World {
        name: "newcomer",
        nodes: &[Start::Founder, Start::Founder, Start::New],
        dials: &[(2, 0), (2, 1), (1, 2)],
        creates: &[0, 1, 2],
        restarts: 1,
        ..BASE
    },
    // Two new nodes know each other and a cluster each.
    World {
        name: "newcomers",
        nodes: &[Start::Founder, Start::Founder, Start::New, Start::New],
        dials: &[(2, 0), (3, 1), (2, 3)],
        creates: &[0, 3],
        ..BASE
    },
    // Greetings say nothing: what views say has to do.
    World {
        name: "silent",
        nodes: &[Start::Founder, Start::Founder, Start::New],
        dials: &[(0, 1), (2, 0)],
        creates: &[0, 1],
        silent: true,
        ..BASE
    },
    // The others come back after a recovery.
    World {
        name: "recovered",
        nodes: &[Start::Member, Start::Member, Start::Member],
        dials: &[(1, 2), (1, 0), (2, 0)],
        creates: &[1, 0, 2],
        recovers: true,
        ..BASE
    },
];

const NODES: usize = 4;

/// A view of the slot, and what a node has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot {
    lineage: u8,
    /// The generation, and the epoch in it.
    epoch: (u8, u8),
    members: u8,
    survivors: u8,
    outside: bool,
    /// The keys that were created, as bits.
    records: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    /// The lineage that is written down beside the store. 0: none.
    written: u8,
    slot: Option<Slot>,
    had_peers: bool,
    joining: bool,
    yielded: bool,
    /// The nodes whose offers it has accepted.
    pinned: u8,
    /// Records it has set aside.
    aside: u8,
    links: u8,
}

impl Node {
    fn lineage(&self) -> u8 {
        self.slot.map_or(self.written, |slot| slot.lineage)
    }

    fn is_blank(&self, me: u8) -> bool {
        let blank = |slot: Slot| slot.members == 1 << me && slot.epoch == (0, 1) && slot.records == 0;
        !self.had_peers && self.slot.is_none_or(blank)
    }

    fn may_yield(&self, world: &World, me: u8) -> bool {
        let blank = self.is_blank(me) || !world.has(Left::OnlyBlank);
        self.joining && !self.yielded && self.lineage() != 0 && blank
    }
}

/// A greeting under way: what the node that dialled has said, and what the other one has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Greeting {
    said: u8,
    offers: bool,
    answered: Option<u8>,
    agreed: bool,
    /// The other one has begun a new life since it answered.
    void: bool,
}

/// The state of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: [Node; NODES],
    greetings: Vec<Option<Greeting>>,
    /// In which lineage and generation each key was created: as its client saw it, or as its coordinator did where clients
    /// of two may meet.
    created: Vec<Option<(u8, u8)>>,
    /// The records a recovery began with.
    recovered: Option<u8>,
    restarts: u8,
    refused: bool,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are nodes, and the places of dials and creates")]
pub enum Act {
    /// A node dials another one and says what it is.
    Dial(u8),
    /// The other one accepts that and answers, or refuses.
    Answer(u8),
    /// The first one agrees, gives its lineage up, or refuses.
    Agree(u8),
    /// The other one takes the connection.
    Admit(u8),
    /// A node has another one in its ring.
    Meet { node: u8, peer: u8 },
    /// A client creates the key at a node, which another one coordinates for.
    Create { create: u8, by: u8 },
    /// A view takes in a node.
    Add { by: u8, node: u8 },
    /// A node tells another one its view.
    Tell { from: u8, to: u8 },
    /// The first node recovers alone.
    Recover,
    /// A node restarts, to join.
    Restart(u8),
}

impl World {
    /// Finds a world by its name.
    pub fn named(name: &str) -> Option<World> {
        WORLDS.iter().find(|world| world.name == name).copied()
    }

    /// The same without some rules.
    pub fn without(self, left: &'static [Left]) -> World {
        World { left, ..self }
    }

    fn has(&self, rule: Left) -> bool {
        !self.left.contains(&rule)
    }

    fn nodes(&self) -> impl Iterator<Item = u8> + Clone + use<> {
        0..self.nodes.len() as u8
    }

    fn says(&self, node: &Node) -> u8 {
        if self.silent { 0 } else { node.lineage() }
    }

    /// Whether nodes of two lineages or generations may be connected.
    fn mixes(&self) -> bool {
        self.silent || self.recovers
    }

    /// Whether two lineages keep their nodes apart.
    fn differ(&self, one: u8, other: u8) -> bool {
        one != 0 && other != 0 && one != other
    }
}

impl State {
    fn new(world: &World) -> State {
        let mut nodes = [Node::default(); NODES];
        let all = (1 << world.nodes.len()) - 1;
        for (me, start) in world.nodes().zip(world.nodes) {
            let (lineage, members) = match start {
                Start::Founder | Start::Joins => (me + 1, 1 << me),
                Start::New => (0, 0),
                Start::Member => (1, all),
            };
            let epoch = (0, 1);
            let slot = Slot { lineage, epoch, members, survivors: 0, outside: false, records: 0 };
            nodes[usize::from(me)] = Node {
                written: lineage,
                slot: Some(slot).filter(|_| members != 0),
                had_peers: *start == Start::Member,
                joining: matches!(start, Start::Joins | Start::New),
                ..Node::default()
            };
        }
        State {
            nodes,
            greetings: vec![None; world.dials.len()],
            created: vec![None; world.creates.len()],
            recovered: None,
            restarts: world.restarts,
            refused: false,
        }
    }

    fn node(&mut self, node: u8) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    fn linked(&self, one: u8, other: u8) -> bool {
        one == other || self.nodes[usize::from(one)].links & 1 << other != 0
    }

    fn drop_links(&mut self, node: u8) {
        for other in &mut self.nodes {
            other.links &= !(1 << node);
        }
        self.node(node).links = 0;
    }

    /// A node begins a new life. What it has answered in the old one is heard, but it takes no connection for it.
    fn begin_life(&mut self, world: &World, node: u8) {
        self.drop_links(node);
        for (greeting, (from, to)) in self.greetings.iter_mut().zip(world.dials) {
            if let Some(it) = greeting.as_mut().filter(|it| *to == node && it.answered.is_some()) {
                it.void = true;
            } else if *from == node || *to == node {
                *greeting = None;
            }
        }
    }

    /// A node has heard the lineage of a peer.
    fn adopt(&mut self, world: &World, node: u8, lineage: u8) {
        if self.node(node).lineage() == 0 && lineage != 0 && world.has(Left::Adopts) {
            self.node(node).written = lineage;
            if world.has(Left::StillSo) {
                self.drop_links(node);
                for (greeting, _) in
                    self.greetings.iter_mut().zip(world.dials).filter(|(_, dial)| dial.0 == node)
                {
                    greeting.take_if(|greeting| greeting.agreed);
                }
            }
        }
    }

    fn dial(&mut self, world: &World, dial: u8) -> bool {
        let (from, to) = world.dials[usize::from(dial)];
        let it = self.nodes[usize::from(from)];
        let offers = it.pinned == 0 && it.may_yield(world, from);
        let greeting = Greeting { said: world.says(&it), offers, answered: None, agreed: false, void: false };
        let free = self.greetings[usize::from(dial)].replace(greeting).is_none();
        free && !self.linked(from, to)
    }

    fn answer(&mut self, world: &World, dial: u8) -> bool {
        let (from, to) = world.dials[usize::from(dial)];
        let Some(greeting) = self.greetings[usize::from(dial)] else { return false };
        let it = self.node(to);
        let differ = world.differ(it.lineage(), greeting.said);
        if greeting.answered.is_some() {
            return false;
        }
        let answered = Some(world.says(it));
        if differ && greeting.offers {
            it.pinned |= 1 << from;
        }
        let accepts = !differ || greeting.offers || !world.has(Left::Refuses);
        self.refused |= !accepts;
        self.greetings[usize::from(dial)] = Some(Greeting { answered, ..greeting }).filter(|_| accepts);
        true
    }

    fn agree(&mut self, world: &World, dial: u8) -> bool {
        let (from, to) = world.dials[usize::from(dial)];
        let Some(greeting) = self.greetings[usize::from(dial)] else { return false };
        let Some(theirs) = greeting.answered.filter(|_| !greeting.agreed) else { return false };
        let it = self.nodes[usize::from(from)];
        let changed = greeting.said != world.says(&it) && world.has(Left::StillSo);
        if !world.differ(it.lineage(), theirs) || !world.has(Left::Refuses) {
            if !changed {
                self.adopt(world, from, theirs);
                self.node(from).joining = false;
            }
            self.greetings[usize::from(dial)] =
                Some(Greeting { agreed: true, ..greeting }).filter(|_| !changed);
            return true;
        }
        self.greetings[usize::from(dial)] = None;
        let may = it.may_yield(world, from) || !world.has(Left::LooksAgain);
        // If both have accepted each other, both know.
        let pinned = it.pinned != 0 && (it.pinned != 1 << to || from < to) && world.has(Left::OneYields);
        if greeting.offers && may && !pinned {
            self.begin_life(world, from);
            let it = self.node(from);
            *it = Node { written: theirs, joining: true, yielded: true, ..Node::default() };
        } else {
            self.refused = true;
        }
        true
    }

    fn admit(&mut self, world: &World, dial: u8) -> bool {
        let (from, to) = world.dials[usize::from(dial)];
        let Some(greeting) = self.greetings[usize::from(dial)].take() else { return false };
        let it = self.nodes[usize::from(to)];
        let changed = greeting.answered != Some(world.says(&it)) && world.has(Left::StillSo);
        let differ = world.differ(it.lineage(), greeting.said) && world.has(Left::Refuses);
        if !differ && !changed && !greeting.void {
            self.adopt(world, to, greeting.said);
            self.node(from).links |= 1 << to;
            self.node(to).links |= 1 << from;
        }
        greeting.agreed
    }

    /// The members that a coordinator reaches and that answer it, if they are a quorum. Steps name the epoch only.
    fn reached(&self, world: &World, by: u8) -> Option<Vec<u8>> {
        let slot = self.nodes[usize::from(by)].slot.filter(|slot| !slot.outside)?;
        let answers = |node: &u8| {
            let other = self.nodes[usize::from(*node)].slot;
            let same = other.is_some_and(|other| other.epoch == slot.epoch && !other.outside);
            slot.members & 1 << node != 0 && self.linked(by, *node) && same
        };
        let reached: Vec<u8> = world.nodes().filter(answers).collect();
        (reached.len() as u32 >= quorum(slot.members.count_ones())).then_some(reached)
    }

    fn read(&self, reached: &[u8]) -> u8 {
        let records = |node: &u8| self.nodes[usize::from(*node)].slot.map_or(0, |slot| slot.records);
        reached.iter().map(records).fold(0, |all, records| all | records)
    }

    fn create(&mut self, world: &World, create: u8, by: u8) -> bool {
        let at = world.creates[usize::from(create)];
        let Some(reached) = self.reached(world, by) else { return false };
        let generation = self.nodes[usize::from(by)].slot.map_or(0, |slot| slot.epoch.0);
        let seen = (self.seen_at(if world.mixes() { by } else { at }, by), generation);
        if self.created[usize::from(create)].is_some() || !self.linked(at, by) || self.read(&reached) != 0 {
            return false;
        }
        self.created[usize::from(create)] = Some(seen);
        for node in reached {
            if let Some(slot) = &mut self.node(node).slot {
                slot.records |= 1 << create;
            }
        }
        true
    }

    /// Whether a node lets a view in. If not, it may have set its store aside.
    fn lets_in(&mut self, world: &World, node: u8, view: Slot) -> bool {
        let it = self.node(node);
        let Some(slot) = it.slot else { return true };
        if slot.epoch >= view.epoch || slot.lineage != view.lineage && world.has(Left::ViewsFit) {
            return false;
        }
        let behind = view.epoch.0 > slot.epoch.0 && !slot.outside && view.survivors & 1 << node == 0;
        if behind && world.has(Left::SetAside) {
            (it.aside, it.slot) = (it.aside | slot.records, None);
            self.begin_life(world, node);
            return false;
        }
        true
    }

    fn install(&mut self, world: &World, node: u8, view: Slot) {
        let member = view.members & 1 << node != 0;
        let exact = world.has(Left::Exact);
        let it = self.node(node);
        let kept = it.slot.filter(|_| !exact).map_or(0, |slot| slot.records);
        let records = kept | if member { view.records } else { 0 };
        it.slot = Some(Slot { outside: !member, records, ..view });
        let known = std::mem::replace(&mut it.written, view.lineage);
        if known != 0 && known != view.lineage {
            self.begin_life(world, node);
        }
    }

    fn add(&mut self, world: &World, by: u8, node: u8) -> bool {
        let Some(reached) = self.reached(world, by).filter(|_| by != node && self.linked(by, node)) else {
            return false;
        };
        let Node { slot: Some(view), had_peers: true, .. } = self.nodes[usize::from(by)] else {
            return false;
        };
        if view.members & 1 << node != 0 {
            return false;
        }
        let before = self.clone();
        let epoch = (view.epoch.0, view.epoch.1 + 1);
        let view = Slot { epoch, members: view.members | 1 << node, records: self.read(&reached), ..view };
        if self.lets_in(world, node, view) {
            for member in reached.into_iter().chain([node]) {
                self.install(world, member, view);
            }
        }
        *self != before
    }

    fn tell(&mut self, world: &World, from: u8, to: u8) -> bool {
        let Some(view) = self.nodes[usize::from(from)].slot.filter(|slot| !slot.outside) else {
            return false;
        };
        let known = self.nodes[usize::from(to)].slot.is_some();
        if !self.linked(from, to) || from == to || !known {
            return false;
        }
        if self.lets_in(world, to, view) {
            self.install(world, to, view);
        }
        true
    }

    fn recover(&mut self, world: &World) -> bool {
        let alone = self.reached(world, 0).is_none();
        let it = self.node(0);
        let Some(slot) = it.slot.filter(|slot| slot.epoch.0 == 0 && alone) else { return false };
        it.slot = Some(Slot { epoch: (1, 1), members: 1, survivors: 1, ..slot });
        self.recovered = Some(slot.records);
        true
    }

    fn restart(&mut self, world: &World, node: u8) -> bool {
        let left = self.restarts;
        self.restarts = left.saturating_sub(1);
        self.begin_life(world, node);
        let it = self.node(node);
        (it.joining, it.yielded, it.pinned) = (true, false, 0);
        left > 0
    }

    /// The lineage that a client of a node takes for its own: that of the node, or of the first coordinator it finds.
    fn seen_at(&self, at: u8, by: u8) -> u8 {
        let lineage = |node: u8| self.nodes[usize::from(node)].lineage();
        if lineage(at) == 0 { lineage(by) } else { lineage(at) }
    }

    /// A client gets what was created in its own lineage, and nothing else, whoever coordinates.
    fn answers_truly(&self, world: &World) -> bool {
        world.nodes().all(|at| {
            let serves = |by: &u8| self.linked(at, *by) && self.reached(world, *by).is_some();
            let mut coordinators = world.nodes().filter(serves).peekable();
            let Some(lineage) = coordinators.peek().map(|by| self.seen_at(at, *by)) else { return true };
            let own = (0..).zip(&self.created).filter(|(_, seen)| seen.is_some_and(|seen| seen.0 == lineage));
            let own = own.fold(0, |all, (create, _)| all | 1 << create);
            coordinators.filter_map(|by| self.reached(world, by)).all(|reached| self.read(&reached) == own)
        })
    }

    fn is_created_once(&self) -> bool {
        let mut seen: Vec<(u8, u8)> = self.created.iter().flatten().copied().collect();
        seen.sort_unstable();
        seen.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// What was created is served by some node, or set aside.
    fn keeps_all(&self) -> bool {
        let kept = |node: &Node| node.aside | node.slot.map_or(0, |slot| slot.records);
        let kept = self.nodes.iter().map(kept).fold(0, |all, records| all | records);
        (0..).zip(&self.created).all(|(create, seen)| seen.is_none() || kept & 1 << create != 0)
    }

    /// A member of a view holds nothing of other lineages and generations.
    fn holds_own(&self) -> bool {
        self.nodes.iter().filter_map(|node| node.slot.filter(|slot| !slot.outside)).all(|slot| {
            let start = if slot.epoch.0 > 0 { self.recovered.unwrap_or(0) } else { 0 };
            let own =
                (0..).zip(&self.created).filter(|(_, seen)| *seen == &Some((slot.lineage, slot.epoch.0)));
            let own = own.fold(start, |all, (create, _)| all | 1 << create);
            slot.records & !own == 0
        })
    }
}

impl Model for World {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, _: &State, acts: &mut Vec<Act>) {
        for dial in 0..self.dials.len() as u8 {
            acts.extend([Act::Dial, Act::Answer, Act::Agree, Act::Admit].map(|act| act(dial)));
        }
        for node in self.nodes() {
            acts.extend((0..self.creates.len() as u8).map(|create| Act::Create { create, by: node }));
            acts.push(Act::Restart(node));
            for other in self.nodes() {
                acts.extend([
                    Act::Meet { node, peer: other },
                    Act::Add { by: node, node: other },
                    Act::Tell { from: node, to: other },
                ]);
            }
        }
        acts.extend(self.recovers.then_some(Act::Recover));
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let mut next = state.clone();
        let done = match act {
            Act::Dial(dial) => next.dial(self, dial),
            Act::Answer(dial) => next.answer(self, dial),
            Act::Agree(dial) => next.agree(self, dial),
            Act::Admit(dial) => next.admit(self, dial),
            Act::Meet { node, peer } => {
                next.node(node).had_peers = true;
                node != peer && state.linked(node, peer)
            }
            Act::Create { create, by } => next.create(self, create, by),
            Act::Add { by, node } => next.add(self, by, node),
            Act::Tell { from, to } => next.tell(self, from, to),
            Act::Recover => next.recover(self),
            Act::Restart(node) => next.restart(self, node),
        };
        (done && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let mut all = vec![
            Property::always("what was created is kept", |_: &World, state: &State| state.keeps_all()),
            Property::always("a store holds only what is its own", |_: &World, state: &State| {
                state.holds_own()
            }),
            Property::always("no key is created twice", |_: &World, state: &State| state.is_created_once()),
            Property::always("a store is left", |_: &World, state: &State| {
                state.nodes.iter().any(|node| node.slot.is_some())
            }),
            Property::sometimes("a view has two members", |_: &World, state: &State| {
                let grown = |slot: Slot| slot.epoch.1 > 1 && slot.members.count_ones() > 1;
                state.nodes.iter().any(|node| node.slot.is_some_and(grown))
            }),
        ];
        if !self.mixes() {
            all.push(Property::always("clients get what is their own", |world: &World, state: &State| {
                state.answers_truly(world)
            }));
            all.push(Property::sometimes("a node is refused", |_: &World, state: &State| state.refused));
        }
        if self.recovers {
            all.push(Property::sometimes("a store is set aside", |_: &World, state: &State| {
                state.nodes.iter().any(|node| node.aside != 0)
            }));
        }
        all
    }
}
