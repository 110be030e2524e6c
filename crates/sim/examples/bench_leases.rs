//! One deliverer per key, counted: messages routed through a ring to which everything happens at once.
//!
//! `cargo xtask bench leases [--lookups N] [--nodes N] [--seed S]`. Every simulated second a thousand messages are
//! routed to random keys from random nodes. All the while 5 % of all packets are lost, nodes crash and come back, nodes
//! are stopped for longer than a lease, and single links are cut for ten seconds. At every delivery, and at every
//! sending, all nodes are asked whether they would deliver that key now: never two, and how often nobody.

use std::collections::{BTreeMap, HashSet};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use kringle_core::config::Settings;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::Reply;
use kringle_core::id::{Id, Key, NodeId};
use kringle_core::overlay::{Overlay, Status};
use kringle_sim::world::World;

/// Messages sent per simulated second.
const RATE: u64 = 1000;
const LOSS_PER_MILLION: u32 = 50_000;
const CUT: Duration = Duration::from_secs(10);

fn main() {
    let (mut lookups, mut nodes, mut seed) = (10_000_000, 200, 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let number = arguments.next().and_then(|value| value.parse::<u64>().ok());
        match (name.as_str(), number) {
            ("--lookups", Some(number)) => lookups = number,
            ("--nodes", Some(number)) if number >= 20 => nodes = number,
            ("--seed", Some(number)) => seed = number,
            _ => {
                eprintln!("usage: bench_leases [--lookups N] [--nodes N (20 or more)] [--seed S]");
                std::process::exit(2);
            }
        }
    }
    let mut trial = Trial::new(nodes as usize, seed);
    let start = Instant::now();
    let bar = std::io::stderr().is_terminal();
    let mut printed = 0;
    while trial.sent < lookups {
        trial.second();
        let percent = trial.sent * 100 / lookups;
        if bar && percent > printed || percent >= printed + 10 {
            printed = percent;
            let end = if bar { "\r" } else { "\n" };
            eprint!("{percent} %  {} sent  {} twice  {:?}  {end}", trial.sent, trial.twice, start.elapsed());
        }
    }
    trial.report(seed, start.elapsed());
    if trial.twice > 0 {
        std::process::exit(1);
    }
}

struct Trial {
    world: World,
    dice: SeededDice,
    /// When each fault ends: the second, and what.
    ends: BTreeMap<u64, Vec<Fault>>,
    second: u64,
    sent: u64,
    delivered: u64,
    answered: u64,
    failed: u64,
    twice: u64,
    nobody: u64,
    /// Messages delivered by now, and how many came a second time: the first node had crashed or stopped before the
    /// acknowledgement got through.
    seen: HashSet<(NodeId, u32)>,
    again: u64,
    faults: [u64; 3],
}

#[derive(Clone, Copy)]
enum Fault {
    Down(u32),
    Stopped(u32),
    Cut(u32, u32),
}

impl Trial {
    fn new(nodes: usize, seed: u64) -> Trial {
        let settings = Settings::default();
        println!(
            "seed {seed}  nodes {nodes}  leaf set {}  lease {:?}  loss 5 %  single links cut for {CUT:?}",
            settings.leaf_set, settings.lease
        );
        let mut world = World::new(settings, seed);
        world.check = false;
        world.grow(nodes);
        world.network.loss_per_million = LOSS_PER_MILLION;
        let dice = SeededDice::derive(seed, 1 << 41);
        let (ends, faults) = (BTreeMap::new(), [0; 3]);
        let (second, sent, delivered, answered, failed, twice, nobody) = (0, 0, 0, 0, 0, 0, 0);
        Trial {
            world,
            dice,
            ends,
            second,
            sent,
            delivered,
            answered,
            failed,
            twice,
            nobody,
            seen: HashSet::new(),
            again: 0,
            faults,
        }
    }

    fn second(&mut self) {
        self.second += 1;
        for fault in self.ends.remove(&self.second).unwrap_or_default() {
            match fault {
                Fault::Down(node) => {
                    self.world.restart(node);
                    self.world.join(node, &[0, 1, 2, 3]);
                }
                Fault::Stopped(node) => self.world.resume(node),
                Fault::Cut(one, other) => self.world.network.mend_both(one, other),
            }
        }
        // The first four stay, so that there is somebody to join through.
        let members: Vec<u32> = self.members().filter(|node| *node > 3).collect();
        let any = |dice: &mut SeededDice| members[dice.below(members.len())];
        if self.second.is_multiple_of(10) && members.len() > self.world.len() / 2 {
            let node = any(&mut self.dice);
            self.world.crash(node);
            let seconds = 30 + self.dice.below(60) as u64;
            self.until(seconds, Fault::Down(node), 0);
        }
        if self.second.is_multiple_of(15) {
            let node = any(&mut self.dice);
            if self.world.node(node).is_some() {
                self.world.pause(node);
                // From well below a lease to well above.
                let seconds = 1 + self.dice.below(20) as u64;
                self.until(seconds, Fault::Stopped(node), 1);
            }
        }
        if self.second.is_multiple_of(2) {
            let one = any(&mut self.dice);
            // Beside each other it hurts most.
            let other =
                match self.world.node(one).and_then(|node| node.overlay().neighbours().first().copied()) {
                    Some(neighbour) if self.dice.below(2) == 0 => neighbour.addr.0,
                    _ => any(&mut self.dice),
                };
            self.world.network.cut_both(one, other);
            self.until(CUT.as_secs(), Fault::Cut(one, other), 2);
        }
        let senders: Vec<u32> = self.members().collect();
        for _ in 0..RATE {
            let from = senders[self.dice.below(senders.len())];
            let key = Id::new(u128::from(self.dice.roll()) << 64 | u128::from(self.dice.roll()));
            match self.deliverers(key) {
                0 => self.nobody += 1,
                1 => {}
                _ => self.twice += 1,
            }
            self.world.route(from, key, b"abc");
            self.sent += 1;
            self.pass(Duration::from_secs(1) / RATE as u32);
        }
        for answered in self.world.take_replies() {
            match answered.reply {
                Ok(Reply::Delivered { .. }) => self.answered += 1,
                Ok(_) => {}
                Err(_) => self.failed += 1,
            }
        }
    }

    /// Lets time pass and looks at every delivery at the moment it happens.
    fn pass(&mut self, span: Duration) {
        let (mut seen, mut twice) = (0, 0);
        let watched: Result<(), ()> = self.world.run_watched(span, |world| {
            for delivery in &world.deliveries()[seen..] {
                let others = world.running().filter(|(node, _)| *node != delivery.node);
                let others =
                    others.filter(|(_, node)| node.delivers(delivery.key, world.now(), world.config()));
                twice += others.count() as u64;
            }
            seen = world.deliveries().len();
            Ok(())
        });
        watched.expect("watching does not fail");
        self.twice += twice;
        for delivery in self.world.take_deliveries() {
            self.delivered += 1;
            self.again += u64::from(!self.seen.insert((delivery.origin, delivery.serial)));
        }
    }

    fn deliverers(&self, key: Key) -> usize {
        let (now, config) = (self.world.now(), self.world.config());
        self.world.running().filter(|(_, node)| node.delivers(key, now, config)).count()
    }

    /// Nodes that are part of the ring and run.
    fn members(&self) -> impl Iterator<Item = u32> + '_ {
        let ready = self.world.running().filter(|(_, node)| node.status() == Status::Ready);
        ready.map(|(index, _)| index).filter(|index| !self.world.is_paused(*index))
    }

    fn until(&mut self, seconds: u64, fault: Fault, kind: usize) {
        self.faults[kind] += 1;
        self.ends.entry(self.second + seconds.max(1)).or_default().push(fault);
    }

    fn report(&self, seed: u64, took: Duration) {
        let share = |part: u64| part as f64 * 100.0 / self.sent as f64;
        let [crashes, pauses, cuts] = self.faults;
        println!(
            "{crashes} crashes and returns, {pauses} pauses of 1 to 20 s, {cuts} cuts, in {} s of simulated time",
            self.second
        );
        println!("sent                                  {:>12}", self.sent);
        println!("delivered                             {:>12}", self.delivered);
        println!(
            "  answered                            {:>12}  {:.4} %",
            self.answered,
            share(self.answered)
        );
        println!("  ended with an error                 {:>12}  {:.4} %", self.failed, share(self.failed));
        println!("  messages delivered a second time    {:>12}", self.again);
        println!("double deliverers seen                {:>12}", self.twice);
        println!("share of time a key had no deliverer  {:>12.4} %", share(self.nobody));
        println!(
            "{} events in {took:.1?}, trace {:016x} (seed {seed})",
            self.world.handled(),
            self.world.trace_hash()
        );
    }
}
