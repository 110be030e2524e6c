//! E4 of the Pastry paper: how many messages a single node forwards in a second.

use std::time::{Duration, Instant};

use kringle_core::contact::Contact;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Ctx, Input, Outbox, Output};
use kringle_core::id::Id;
use kringle_core::message::{App, Body, HopAck, Payload, Routed, Stage};
use kringle_core::node::Node;
use kringle_core::overlay::NextHop;
use kringle_core::records::NoRecords;

use crate::lab::params::{BASE, LEAF_SET, LOOKUPS, NEIGHBOURHOOD, NETWORK, NODES, SPARES};
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Figure, Want};

pub(super) const PASTRY_SPEED: Scenario = Scenario {
    name: "pastry-speed",
    about: "messages a node forwards per second, in memory, and routing decisions alone",
    anchor: "Pastry (Middleware 2001), experiment E4: one node, over 3,000 messages per second in unoptimised Java",
    params: &[
        (NODES, "5000"),
        (LOOKUPS, "2000000"),
        (BASE, "4"),
        (LEAF_SET, "16"),
        (NEIGHBOURHOOD, "32"),
        (SPARES, "2"),
        (NETWORK, "plane"),
    ],
    run,
};

/// Messages handled between two looks at the clock and at whoever may want to interrupt.
const BATCH: usize = 100_000;

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (nodes, messages) = (lab.count(NODES), lab.count(LOOKUPS));
    let mut world = lab.world()?;
    lab.grow(&mut world, nodes)?;
    lab.rounds(&mut world, 2)?;
    lab.keep("the ring whose first node forwards", &world);
    let Some(node) = world.node(0) else { return Err(Halt::Broken("the first node is gone".to_owned())) };
    let mut dice = SeededDice::derive(lab.seed, 0);
    // Keys this node passes on: it is not responsible for them itself.
    let keys: Vec<Id> =
        std::iter::repeat_with(|| Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll())))
            .filter(|key| matches!(node.next_hop(*key), NextHop::Peer(..)))
            .take(4096)
            .collect();
    let mut desk =
        Desk { node: node.clone(), config: world.config(), now: world.now(), dice, out: Outbox::new() };
    let from = world.contact(1);
    let mut spent = Duration::ZERO;
    let mut forwarded = 0u64;
    for first in (0..messages).step_by(BATCH) {
        lab.progress("messages forwarded", first as f64 / messages as f64)?;
        let batch = BATCH.min(messages - first);
        let start = Instant::now();
        for serial in first..first + batch {
            forwarded += u64::from(desk.forward(from, keys[serial & 4095], serial as u32));
        }
        spent += start.elapsed();
    }
    let start = Instant::now();
    let decided =
        (0..messages).filter(|at| desk.node.next_hop(std::hint::black_box(keys[at & 4095])) != NextHop::Here);
    let decided = decided.count();
    let deciding = start.elapsed();
    lab.report.figures.push(
        Figure::new("messages forwarded", forwarded as f64, 0, "messages")
            .want(Want::AtLeast(messages as f64)),
    );
    let rate = |count: f64, span: Duration| count / span.as_secs_f64().max(1e-9);
    lab.report.machine.figures.push(
        Figure::new("forwarded per second and core", rate(forwarded as f64, spent), 0, "messages/s")
            .paper(3000.0)
            .want(Want::AtLeast(1e6)),
    );
    let decisions = rate(decided as f64, deciding);
    lab.report.machine.figures.push(Figure::new(
        "decisions per second and core",
        decisions,
        0,
        "decisions/s",
    ));
    lab.report.remarks.push(
        "A message counts when it was received, acknowledged, passed on and the next hop's acknowledgement handled; \
         no sockets and no encoding, as in the paper's simulated network."
            .to_owned(),
    );
    Ok(())
}

/// A node and what it needs to be called.
struct Desk<'a> {
    node: Node,
    config: &'a kringle_core::config::Config,
    now: kringle_core::time::Time,
    dice: SeededDice,
    out: Outbox,
}

impl Desk<'_> {
    fn handle(&mut self, from: Contact, body: Body) {
        let Desk { node, config, now, dice, out } = self;
        let mut cx = Ctx { now: *now, wall: 0, config, dice, records: &NoRecords, out };
        node.handle(Input::Message { from, body }, &mut cx);
    }

    /// Hands over one message and acknowledges it in the name of the next hop. Says whether it was passed on.
    fn forward(&mut self, from: Contact, key: Id, serial: u32) -> bool {
        let payload = Payload::App(Box::new(App { purpose: 16, bytes: Vec::new() }));
        let routed =
            Routed { key, origin: from, payload, serial, hop: serial, hops: 1, stage: Stage::Prefix };
        self.handle(from, Body::Routed(routed));
        let mut next = None;
        for output in self.out.drain() {
            if let Output::Forward { to, routed } = output {
                next = Some((to, routed.hop));
            }
        }
        let Some((to, hop)) = next else { return false };
        self.handle(to, Body::HopAck(HopAck { hop, taken: true, better: None }));
        self.out.drain().for_each(drop);
        true
    }
}
