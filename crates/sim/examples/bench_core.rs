//! Figures of the core: routing decisions per second, bytes of state per node, cost of encoding.
//!
//! `cargo xtask bench core [--nodes N] [--seed S] [--decisions N] [--callgrind]`. The ring is built by real joins through
//! the simulator; nothing is set up by hand. With `--callgrind` only the hot loop runs, for counting instructions.

use std::hint::black_box;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use kringle_core::config::{ClusterId, Settings};
use kringle_core::contact::{Addr, Contact};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::id::Id;
use kringle_core::message::Body;
use kringle_core::node::Node;
use kringle_core::overlay::NextHop;
use kringle_core::overlay::pastry::{Join, JoinReply, Message, Versions};
use kringle_core::wire;
use kringle_sim::network::Topology;
use kringle_sim::world::World;

struct Options {
    nodes: usize,
    seed: u64,
    decisions: usize,
    callgrind: bool,
}

fn main() {
    let options = match options() {
        Ok(options) => options,
        Err(problem) => {
            eprintln!(
                "bench_core: {problem}\nusage: bench_core [--nodes N] [--seed S] [--decisions N] [--callgrind]"
            );
            std::process::exit(2);
        }
    };
    println!("seed {}  nodes {}  b=4  leaf set 32  {}", options.seed, options.nodes, std::env::consts::ARCH);
    let world = ring(&options);
    let nodes: Vec<&Node> = world.ready().map(|(_, node)| node).collect();
    decisions(&nodes, &options);
    if !options.callgrind {
        state(&nodes);
        encoding();
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options { nodes: 100_000, seed: 1, decisions: 20_000_000, callgrind: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--callgrind" {
            options.callgrind = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?;
        let number: u64 = value.parse().map_err(|_| format!("{name}: {value:?} is not a number"))?;
        match name.as_str() {
            "--nodes" if number >= 2 => options.nodes = number as usize,
            "--nodes" => return Err("--nodes must be at least 2".into()),
            "--seed" => options.seed = number,
            "--decisions" => options.decisions = number as usize,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}

/// Builds the ring: real joins on a plane, the whole protocol running. Upkeep is as rare as in FreePastry, since the
/// ring stands still while it waits for the next wave.
fn ring(options: &Options) -> World {
    let settings = Settings {
        heartbeat: Duration::from_secs(30),
        leaf_exchange: Duration::from_secs(60),
        row_swap: Duration::from_secs(900),
        neighbourhood_exchange: Duration::from_secs(900),
        ..Settings::lab()
    };
    let mut world = World::new(settings, options.seed);
    world.network.topology = Topology::Plane { side: Duration::from_millis(50) };
    world.check = false;
    let start = Instant::now();
    world.grow_together(options.nodes, |world| {
        if std::io::stderr().is_terminal() {
            eprint!("\rbuilding  {:>9} of {} nodes   {:.0?} ", world.len(), options.nodes, start.elapsed());
        }
        true
    });
    world.run_for(Duration::from_secs(60));
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = world.handled() as f64 / seconds / 1e6;
    println!(
        "ring       {} nodes by real joins, {} events in {seconds:.1} s ({rate:.2} M/s), trace {:016x}",
        world.len(),
        world.handled(),
        world.trace_hash()
    );
    world
}

/// Decisions per second: over one node's tables, and over the tables of all nodes in random order.
fn decisions(nodes: &[&Node], options: &Options) {
    let mut dice = SeededDice::new(options.seed);
    let keys: Vec<Id> =
        (0..4096).map(|_| Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()))).collect();
    // Which node decides next is read in order, so that only what the node itself holds can be out of the cache.
    let cold: Vec<&Node> = (0..1 << 20).map(|_| nodes[dice.below(nodes.len())]).collect();
    let hot = vec![nodes[0]; 1 << 20];
    let mut here = 0usize;
    let mut timed = |name: &str, nodes: &[&Node], count: usize| {
        let start = Instant::now();
        for at in 0..count {
            let next = black_box(nodes[at & 0xf_ffff]).next_hop(black_box(keys[at & 4095]));
            here += usize::from(next == NextHop::Here);
        }
        let elapsed = start.elapsed();
        let nanos = elapsed.as_nanos() as f64 / count as f64;
        println!("next_hop   {name:28} {:6.1} M/s  {nanos:6.1} ns", 1e3 / nanos);
    };
    timed("hot tables (one node)", &hot, options.decisions);
    if !options.callgrind {
        timed("cold tables (all nodes)", &cold, options.decisions / 4);
    }
    black_box(here);
}

/// Bytes a node holds, on average.
fn state(nodes: &[&Node]) {
    let count = nodes.len() as f64;
    let mean =
        |part: &dyn Fn(&Node) -> usize| nodes.iter().map(|node| part(node)).sum::<usize>() as f64 / count;
    let tables = mean(&|node| size_of::<Node>() + node.memory().0.tables);
    let spares = mean(&|node| node.memory().0.spares);
    let neighbourhood = mean(&|node| node.memory().0.neighbourhood);
    let cache = mean(&|node| node.memory().0.cache);
    let open = mean(&|node| node.memory().0.open + node.memory().1);
    let router = |node: &Node| node.overlay().as_pastry().map_or(0, |p| p.router().table().holders().count());
    println!("state      node value and tables        {tables:7.0} B   ({} B value)", size_of::<Node>());
    println!("           with spares and neighbours   {:7.0} B", tables + spares + neighbourhood);
    println!("           remembered proximities       {cache:7.0} B");
    println!("           open probes and messages     {open:7.0} B");
    println!("           routing-table holders        {:7.1}", mean(&router));
}

/// A join reply with a hundred contacts.
fn encoding() {
    let mut dice = SeededDice::new(1);
    let mut contact = || {
        let id = Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()));
        Contact::new(id, 1, Addr(dice.roll() as u32))
    };
    let contacts: Vec<Contact> = (0..64).map(|_| contact()).collect();
    let leaves: Vec<Contact> = (0..32).map(|_| contact()).collect();
    let path = (0..4).map(|_| (contact(), Versions::default())).collect();
    let join = Join { nonce: 7, rows_done: 4, path, contacts };
    let reply = JoinReply { join, whole: false, leaves, versions: Versions::default() };
    let body = Body::Pastry(Message::JoinReply(Box::new(reply)));
    let cluster = ClusterId::default();
    let mut bytes = Vec::new();
    wire::encode(&body, cluster, &wire::IndexBook, &mut bytes);
    let rounds = 200_000u32;
    let start = Instant::now();
    for _ in 0..rounds {
        let mut out = Vec::with_capacity(bytes.len());
        wire::encode(black_box(&body), cluster, &wire::IndexBook, &mut out);
        black_box(out);
    }
    let encode = start.elapsed() / rounds;
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(wire::decode(black_box(&bytes), cluster, &mut wire::IndexBook).is_ok());
    }
    let decode = start.elapsed() / rounds;
    println!(
        "wire       join reply, 100 contacts     {:7} B   encode {encode:?}  decode {decode:?}",
        bytes.len()
    );
}
