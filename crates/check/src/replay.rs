//! The simulator driven through a schedule, step by step.

use kringle_core::config::{ConfigError, Safeguard};
use kringle_core::edge::{Command, Input};
use kringle_core::id::{Id, Key};
use kringle_core::message::{Body, BodyKind};
use kringle_core::node::Node;
use kringle_core::overlay::pastry::Message as Pastry;
use kringle_sim::invariants::{lease_holders_are_known, one_deliverer_per_key};
use kringle_sim::world::World;

use crate::action::{Action, Flight};
use crate::model::Ring;
use crate::plan::Plan;
use crate::properties::judges_holders;
use crate::schedule::Schedule;

/// What the simulator made of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// After which step two nodes delivered one key, or a lease had a holder its grantor does not know; and who.
    pub broken: Option<(usize, String)>,
    /// Steps that were not possible: the schedule was made for nodes that behave otherwise.
    pub skipped: Vec<usize>,
}

/// Drives a simulated world through a schedule, until two nodes deliver one key.
pub fn replay(plan: Plan, schedule: &Schedule, without: Option<Safeguard>) -> Result<Replay, ConfigError> {
    let ring = Ring::new(plan, without)?;
    let mut driven = Driven::new(&ring);
    for action in ring.setup() {
        driven.step(*action);
    }
    for (from, to) in ring.plan().broken {
        driven.world.network.cut((*from).into(), (*to).into());
    }
    let mut replay = Replay { broken: None, skipped: Vec::new() };
    for (at, action) in schedule.actions.iter().enumerate() {
        if !driven.step(*action) {
            replay.skipped.push(at + 1);
        }
        if let Err(problem) = driven.check() {
            replay.broken = Some((at + 1, problem));
            break;
        }
    }
    Ok(replay)
}

struct Driven<'a> {
    ring: &'a Ring,
    world: World,
    /// Deliveries that were looked at.
    judged: usize,
}

impl Driven<'_> {
    fn new(ring: &Ring) -> Driven<'_> {
        let mut world = World::new((**ring.config()).clone(), 0);
        world.check = ring.config().without.is_none();
        world.hold();
        for byte in ring.plan().ids {
            world.spawn(Id::new(u128::from(*byte) << 120));
        }
        Driven { ring, world, judged: 0 }
    }

    fn find(&self, flight: Flight) -> Option<usize> {
        let Flight { from, to, kind, nth } = flight;
        let fits = |held: &kringle_sim::world::HeldMessage| {
            (held.from, held.to, held.kind()) == (from.into(), to.into(), kind)
        };
        let mut all = self.world.held().iter().enumerate().filter(|(_, held)| fits(held));
        all.nth(usize::from(nth).checked_sub(1)?).map(|(at, _)| at)
    }

    /// Takes one step. `false` if it is not possible.
    fn step(&mut self, action: Action) -> bool {
        let found = match action {
            Action::Deliver(flight) | Action::Lose(flight) | Action::Double(flight) => {
                let Some(at) = self.find(flight) else { return false };
                at
            }
            _ => 0,
        };
        let world = &mut self.world;
        match action {
            Action::Deliver(_) => world.deliver_held(found),
            Action::Lose(_) => world.drop_held(found),
            Action::Double(_) => world.double_held(found),
            Action::Fire(node, timer) => return world.fire(node.into(), timer),
            Action::Create(node) => drop(world.create(node.into())),
            Action::Join(node) => self.join(node),
            Action::Leave(node) => drop(world.command(node.into(), Command::Leave)),
            Action::Crash(node) => world.crash(node.into()),
            Action::Restart(node) => {
                world.restart(node.into());
                self.join(node);
            }
            Action::Pause(node) => world.pause(node.into()),
            Action::Resume(node) => world.resume(node.into()),
            Action::Suspect(by, of) => return self.suspect(by, of),
            Action::Cut(a, b) => world.network.cut_both(a.into(), b.into()),
            Action::CutOff(node) => {
                let others = (0..world.len() as u32).filter(|other| *other != u32::from(node));
                others.for_each(|other| world.network.cut_both(node.into(), other));
            }
            Action::Mend | Action::Relay => world.network.mend(),
            Action::Route(node) => drop(world.route(node.into(), self.ring.rules().key, &[1])),
            Action::Upcall(node) => return world.make_upcall(node.into()),
        }
        true
    }

    fn join(&mut self, node: u8) {
        let seeds: Vec<u32> =
            (0..self.ring.plan().ready).filter(|seed| *seed != node).map(u32::from).collect();
        self.world.join(node.into(), &seeds);
    }

    fn suspect(&mut self, by: u8, of: u8) -> bool {
        let third = (0..self.world.len() as u32).find(|other| ![by, of].map(u32::from).contains(other));
        let Some(third) = third else { return false };
        let sent = self.world.held().len();
        let body = Body::Pastry(Pastry::Obituary(self.world.contact(of.into())));
        let from = self.world.contact(third);
        self.world.arrive(by.into(), Input::Message { from, body });
        let new = self.world.held().iter().skip(sent);
        let ping =
            new.map(|held| (held.to, held.kind())).position(|sent| sent == (of.into(), BodyKind::Ping));
        ping.inspect(|at| self.world.drop_held(sent + at)).is_some()
    }

    fn check(&mut self) -> Result<(), String> {
        let (world, config) = (&self.world, self.world.config());
        for delivery in &world.deliveries()[self.judged..] {
            let may = |node: &Node, key: Key| node.delivers(key, world.now(), config);
            let other = world.running().find(|(at, node)| *at != delivery.node && may(node, delivery.key));
            if let Some((other, _)) = other {
                let (node, key) = (delivery.node, delivery.key);
                return Err(format!("{node} gave {key} to its application, and {other} may deliver it"));
            }
        }
        self.judged = world.deliveries().len();
        if judges_holders(self.ring) {
            lease_holders_are_known(world)?;
        }
        one_deliverer_per_key(world, &self.ring.keys)
    }
}
