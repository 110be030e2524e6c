//! What most scenarios do: let a ring grow, keep it up for some rounds, send messages through it and measure them.

use std::time::{Duration, Instant};

use kringle_core::config::Ownership;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, Reply, Timer};
use kringle_core::id::Key;
use kringle_core::node::Node;
use kringle_core::overlay::pastry::router::Router;

use super::params::{LOSS, NETWORK};
use super::{CALM, Halt, Lab};
use crate::network::{Network, Topology};
use crate::report::{Figure, Histogram, Want};
use crate::world::World;

/// What became of many lookups.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Hops each one took.
    pub hops: Histogram,
    /// How far they travelled, all together, in microseconds.
    pub travelled: f64,
    /// How far it would have been straight to where they ended.
    pub direct: f64,
    /// The sum of each one's own ratio of the two.
    pub ratios: f64,
    /// Lookups that were not answered, or with a failure.
    pub lost: u64,
    /// Lookups that ended at another node than they should.
    pub wrong: u64,
}

impl Routes {
    /// Nothing routed yet; `name` is what the hops are called in a report.
    pub fn new(name: &str) -> Routes {
        let (travelled, direct, ratios) = (0.0, 0.0, 0.0);
        Routes { hops: Histogram::new(name), travelled, direct, ratios, lost: 0, wrong: 0 }
    }

    /// Adds a route that took so many hops through these nodes.
    pub fn add(&mut self, hops: u64, path: &[u32], network: &Network) {
        let leg = |pair: &[u32]| network.direct(pair[0], pair[1]).as_micros() as f64;
        self.hops.add(hops);
        let travelled: f64 = path.windows(2).map(leg).sum();
        self.travelled += travelled;
        if let (Some(from), Some(to)) = (path.first(), path.last())
            && from != to
        {
            let direct = leg(&[*from, *to]);
            self.direct += direct;
            self.ratios += travelled / direct.max(1.0);
        }
    }

    /// Returns the distance travelled, relative to going straight: the ratio of the means.
    pub fn distance(&self) -> f64 {
        self.travelled / self.direct.max(1.0)
    }

    /// Returns the mean of each lookup's own ratio.
    pub fn mean_ratio(&self) -> f64 {
        self.ratios / self.hops.total().max(1) as f64
    }
}

/// One lookup: from which node, for which key, and which node should answer.
pub type Lookup = (u32, Key, u32);

/// Lookups under way at once: enough to keep the queue busy, few enough to stay in memory.
const BATCH: usize = 20_000;
/// How long a round of upkeep takes; long enough for its questions to be answered.
const ROUND: Duration = Duration::from_secs(10);
/// Exchanges of leaf sets in a round.
const LEAF_EXCHANGES: u32 = 6;

impl Lab<'_> {
    /// Makes an empty world with the settings, network and loss of this run.
    ///
    /// # Errors
    /// If the parameters do not go together.
    pub fn world(&self) -> Result<World, Halt> {
        self.world_of(self.settings())
    }

    /// Makes an empty world with the network and loss of this run, and other settings.
    ///
    /// # Errors
    /// If the parameters do not go together.
    pub fn world_of(&self, settings: kringle_core::config::Settings) -> Result<World, Halt> {
        let impossible = |problem: String| Halt::Impossible(problem);
        settings.clone().check().map_err(|problem| impossible(format!("--{problem}")))?;
        let mut world = World::new(settings, self.seed);
        world.check = false;
        if self.params.has(NETWORK) {
            world.network.topology =
                Topology::parse(self.params.text(NETWORK), self.seed).map_err(impossible)?;
        }
        if self.params.has(LOSS) {
            world.network.loss_per_million = (self.params.real(LOSS) * 1e4) as u32;
        }
        Ok(world)
    }

    /// Lets nodes join until there are `count`.
    ///
    /// # Errors
    /// [`Halt::Interrupted`].
    pub fn grow(&mut self, world: &mut World, count: usize) -> Result<(), Halt> {
        let step = format!("{count} nodes join");
        self.progress(&step, 0.0)?;
        let mut outcome = Ok(());
        let start = Instant::now();
        let (before, handled) = (world.len(), world.handled());
        world.grow_together(count, |world| {
            outcome = self.progress(&step, world.len() as f64 / count as f64);
            outcome.is_ok()
        });
        outcome?;
        let seconds = start.elapsed().as_secs_f64();
        let mut formed = Figure::new(format!("{count} nodes formed in"), seconds, 1, "s");
        // With leases, and with upkeep as often as in the product, a ring takes longer to form.
        let calm = world.config().ownership == Ownership::Hint && world.config().heartbeat == CALM;
        formed.want = match (before, count) {
            (0, 10_000) if calm => Some(Want::AtMost(5.0)),
            (0, 1_000_000) if calm => Some(Want::AtMost(600.0)),
            _ => None,
        };
        let rate = (world.handled() - handled) as f64 / seconds.max(1e-9);
        self.report.machine.figures.push(formed);
        self.report.machine.figures.push(Figure::new(
            format!("events per second, {count} nodes"),
            rate,
            0,
            "",
        ));
        Ok(())
    }

    /// Tells how many bytes a node of this world holds, tables and all, on average.
    pub fn tell_state(&mut self, world: &World) {
        let heap = |node: &Node| {
            let (tables, messages) = node.memory();
            tables.tables + tables.spares + tables.neighbourhood + tables.cache + tables.open + messages
        };
        let (sum, count) =
            world.running().fold((0, 0), |(sum, count), (_, node)| (sum + heap(node), count + 1));
        let mean = size_of::<Node>() as f64 + sum as f64 / f64::from(count.max(1));
        let mut figure = Figure::new("state per node", mean / 1000.0, 1, "KB");
        figure.want = (world.len() == 10_000).then_some(Want::AtMost(10.0));
        self.report.figures.push(figure);
    }

    /// Lets every node do its upkeep this many times: it swaps each row with a member of it, neighbourhood sets with a
    /// neighbour, and leaf sets with a few leaves, which is done more often in the product, too.
    ///
    /// # Errors
    /// [`Halt::Interrupted`].
    pub fn rounds(&mut self, world: &mut World, rounds: usize) -> Result<(), Halt> {
        for round in 0..rounds {
            self.progress("maintenance rounds", round as f64 / rounds as f64)?;
            world.hasten(Timer::RowSwap, ROUND);
            world.hasten(Timer::Neighbourhood, ROUND);
            for _ in 0..LEAF_EXCHANGES {
                world.hasten(Timer::LeafExchange, ROUND / LEAF_EXCHANGES);
                world.run_for(ROUND / LEAF_EXCHANGES);
            }
            world.run_for(Duration::from_secs(2));
        }
        Ok(())
    }

    /// Routes messages between random pairs of nodes, each to the other's id.
    ///
    /// # Errors
    /// [`Halt::Interrupted`].
    pub fn routes(&mut self, world: &mut World, name: &str, count: usize) -> Result<Routes, Halt> {
        let ready: Vec<u32> = world.ready().map(|(node, _)| node).collect();
        let mut dice = SeededDice::derive(self.seed, PAIRS);
        let mut pairs = || {
            let from = dice.below(ready.len());
            let to = (from + 1 + dice.below(ready.len() - 1)) % ready.len();
            (ready[from], ready[to])
        };
        self.lookups(world, name, count, |world| {
            let (from, to) = pairs();
            (from, world.contact(to).id, to)
        })
    }

    /// Sends lookups, many at a time: `next` says from which node, for which key, and which node should answer.
    ///
    /// # Errors
    /// [`Halt::Interrupted`].
    pub fn lookups(
        &mut self,
        world: &mut World,
        name: &str,
        count: usize,
        next: impl FnMut(&World) -> Lookup,
    ) -> Result<Routes, Halt> {
        self.traced(world, name, (count, BATCH), next, |_, _, _| {})
    }

    /// Sends so many lookups, so many at a time, and shows each one that was answered with the nodes it visited.
    ///
    /// # Errors
    /// [`Halt::Interrupted`].
    pub fn traced(
        &mut self,
        world: &mut World,
        name: &str,
        (count, at_once): (usize, usize),
        mut next: impl FnMut(&World) -> Lookup,
        mut show: impl FnMut(&World, Lookup, &[u32]),
    ) -> Result<Routes, Halt> {
        let mut routes = Routes::new(name);
        let mut done = 0;
        while done < count {
            self.progress("lookups", done as f64 / count as f64)?;
            world.take_replies();
            let batch = at_once.clamp(1, count - done);
            let deadline = Duration::from_secs(60);
            let mut open = Vec::with_capacity(batch);
            for _ in 0..batch {
                let lookup = next(world);
                let command = Command::Lookup { key: lookup.1, trace: true, deadline };
                open.push((world.command(lookup.0, command), lookup));
            }
            world.run_until(deadline, |world| world.answers() >= batch);
            let mut replies = world.take_replies();
            replies.sort_by_key(|answered| answered.request.0);
            let mut replies = replies.into_iter().peekable();
            for (request, lookup) in open {
                while replies.next_if(|answered| answered.request.0 < request.0).is_some() {}
                match replies.next_if(|answered| answered.request == request).map(|answered| answered.reply) {
                    Some(Ok(Reply::Found { root, hops, path, .. })) => {
                        let path: Vec<u32> = path.iter().map(|hop| hop.node.addr.0).collect();
                        routes.wrong += u64::from(root.addr.0 != lookup.2);
                        routes.add(hops.into(), &path, &world.network);
                        show(world, lookup, &path);
                    }
                    _ => routes.lost += 1,
                }
            }
            done += batch;
        }
        self.progress("lookups", 1.0)?;
        Ok(routes)
    }
}

/// Returns how many nodes a node knows, on average: leaves, and holders of cells that are no leaves.
pub fn entries(world: &World) -> f64 {
    let known = |router: &Router| {
        let leaves = router.leaf_set();
        let cells = router.table().holders().filter(|entry| leaves.get(entry.contact.id).is_none());
        leaves.members().len() + cells.count()
    };
    let (sum, count) =
        routers(world).fold((0, 0), |(sum, count), (_, router)| (sum + known(router), count + 1));
    sum as f64 / f64::from(count.max(1))
}

/// Returns what every ready node routes by.
pub fn routers(world: &World) -> impl Iterator<Item = (u32, &Router)> {
    world.ready().filter_map(|(at, node)| Some((at, node.overlay().as_pastry()?.router())))
}

/// Keeps the choice of pairs apart from other things drawn from the same seed.
const PAIRS: u64 = 5 << 40;
