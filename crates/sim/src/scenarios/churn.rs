//! Nodes come and go all the time, and the others go on asking: what it costs and what goes wrong.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, Reply, RequestId};
use kringle_core::id::{Id, Key};
use kringle_core::message::BodyKind;
use kringle_core::overlay::Status;
use kringle_core::time::Time;

use super::mass_failure::{product, random_key};
use crate::churn::{Change, Churn, Event, Sessions, Trace};
use crate::lab::params::{BASE, CHURN, DURATION, LEAF_SET, LOSS, NETWORK, NODES, OWNERSHIP, SESSION, SPARES};
use crate::lab::traffic::Traffic;
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Axis, Figure, Histogram, Plot, Role, Series, Shape, Table};
use crate::world::{Answered, World};

/// See the module.
pub(super) const CHURN_SCENARIO: Scenario = Scenario {
    name: "churn",
    about: "nodes come and go: delay, traffic, wrong and lost lookups",
    anchor: "MSPastry (DSN 2004), Gnutella trace on a transit-stub network: 1,300 to 2,700 nodes, mean session 2.3 h, \
             0.01 lookups per second and node, b=4, L=32; its figures are remembered, not read, and gate nothing",
    params: &[
        (NODES, "2000"),
        (SESSION, "2.3h"),
        (CHURN, "poisson"),
        (DURATION, "1h"),
        (LOSS, "0"),
        (BASE, "4"),
        (LEAF_SET, "32"),
        (SPARES, "2"),
        (NETWORK, "transit-stub"),
        (OWNERSHIP, "hint"),
    ],
    run,
};

/// Lookups per second and node.
const RATE: f64 = 0.01;
/// How long a lookup may stay unanswered.
const DEADLINE: Duration = Duration::from_secs(30);
/// The shape of Weibull sessions: as measured in deployed systems.
const SHAPE: f64 = 0.5;
/// Curves have about so many points.
const POINTS: u32 = 60;
/// A newcomer knows so many members.
const SEEDS: usize = 3;
/// Lookups and what follows from them; everything else keeps the ring up.
const ASKING: [BodyKind; 5] =
    [BodyKind::Lookup, BodyKind::Trace, BodyKind::HopAck, BodyKind::Receipt, BodyKind::RoutedReceipt];
/// Keeps lookups and seeds apart from other things drawn from the same seed.
const LOOKUPS: u64 = 13 << 40;

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let churn = parse(lab.params.text(CHURN), lab.params.span(SESSION)).map_err(Halt::Impossible)?;
    let sessions = churn.sessions(lab.count(NODES) as u32, lab.seed).map_err(Halt::Impossible)?;
    let mut world = lab.world_of(product(lab, Settings::wan()))?;
    let loss = std::mem::take(&mut world.network.loss_per_million);
    let mut ring = Ring::found(lab, &mut world, sessions)?;
    world.network.loss_per_million = loss;
    ring.live(lab, &mut world)?;
    lab.keep("a ring under churn", &world);
    ring.tell(lab);
    Ok(())
}

/// Reads how nodes come and go.
fn parse(text: &str, mean_session: Duration) -> Result<Churn, String> {
    match text.split_once(':').unwrap_or((text, "")) {
        ("poisson", "") => Ok(Churn::Poisson { mean_session }),
        ("weibull", "") => Ok(Churn::Weibull { shape: SHAPE, mean_session }),
        ("trace", path) if !path.is_empty() => {
            Trace::read(path).map(Churn::Trace).map_err(|problem| format!("--churn: {problem}"))
        }
        _ => Err(format!("--churn: {text:?} is none of poisson, weibull, trace:FILE")),
    }
}

/// Steps of a join, by the status a node has meanwhile.
const STEPS: [(Status, &str); 3] = [
    (Status::Joining, "search for a nearby node and for the root"),
    (Status::Waiting, "probes of the leaf set"),
    (Status::Ok, "leases of both neighbours"),
];
/// How often the status of joining nodes is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A join under way.
struct Join {
    node: u32,
    at: Time,
    /// How long it has been in each of [`STEPS`], all attempts together.
    steps: [Duration; 3],
}

/// A lookup under way.
struct Asked {
    at: Time,
    from: u32,
    key: Key,
}

/// What was counted in a part of the run.
#[derive(Clone, Debug)]
struct Stretch {
    end: f64,
    control: f64,
    live: f64,
}

/// The ring under churn, as somebody sees it who knows everything.
struct Ring {
    sessions: Peekable<Sessions>,
    /// When the first nodes came: a trace may begin at any time.
    start: Duration,
    /// Where each of the churn's nodes is.
    slots: BTreeMap<u32, u32>,
    /// Who is part of the ring, and since when.
    members: BTreeMap<Id, (u32, Time)>,
    /// The same nodes, to draw from.
    drawn: Vec<u32>,
    joining: BTreeMap<RequestId, Join>,
    open: BTreeMap<RequestId, Asked>,
    dice: SeededDice,
    joins: u64,
    leaves: u64,
    asked: u64,
    right: u64,
    wrong: u64,
    lost: u64,
    /// Why, as far as somebody said so.
    reasons: BTreeMap<String, u64>,
    /// Whoever asked was gone before the answer came.
    orphaned: u64,
    hops: Histogram,
    join_waits: Histogram,
    /// The same by step.
    step_waits: [Histogram; 3],
    /// How long lookups took on their way, and how long they would have gone straight, in microseconds.
    delay: f64,
    direct: f64,
    /// The same without what was lost to silent hops.
    travelled: f64,
    node_seconds: f64,
    /// Members of a leaf set that are gone, per node, when the run ended.
    dead_leaves: f64,
    control: u64,
    traffic: Option<Traffic>,
    stretches: Vec<Stretch>,
}

impl Ring {
    /// Lets those who are there from the start form a ring.
    fn found(lab: &mut Lab<'_>, world: &mut World, sessions: Sessions) -> Result<Ring, Halt> {
        let mut sessions = sessions.peekable();
        let start = sessions.peek().map(|event| event.at);
        let mut slots = BTreeMap::new();
        while let Some(Event { what: Change::Up(node), .. }) =
            sessions.next_if(|event| Some(event.at) == start && matches!(event.what, Change::Up(_)))
        {
            slots.insert(node, slots.len() as u32);
        }
        lab.grow(world, slots.len())?;
        let mut ring = Ring {
            sessions,
            start: start.unwrap_or_default(),
            slots,
            members: BTreeMap::new(),
            drawn: Vec::new(),
            joining: BTreeMap::new(),
            open: BTreeMap::new(),
            dice: SeededDice::derive(lab.seed, LOOKUPS),
            joins: 0,
            leaves: 0,
            asked: 0,
            right: 0,
            wrong: 0,
            lost: 0,
            reasons: BTreeMap::new(),
            dead_leaves: 0.0,
            orphaned: 0,
            hops: Histogram::new("hops of lookups under churn"),
            join_waits: Histogram::new("milliseconds a join takes"),
            step_waits: STEPS.map(|(_, step)| Histogram::new(format!("milliseconds of a join: {step}"))),
            delay: 0.0,
            direct: 0.0,
            travelled: 0.0,
            node_seconds: 0.0,
            control: 0,
            traffic: None,
            stretches: Vec::new(),
        };
        let founders: Vec<u32> = world.ready().map(|(node, _)| node).collect();
        founders.into_iter().for_each(|node| ring.enter(world, node, Time::ZERO));
        // Tables are those of a ring that has been there for a while.
        lab.rounds(world, 2)?;
        world.take_replies();
        Ok(ring)
    }

    fn live(&mut self, lab: &mut Lab<'_>, world: &mut World) -> Result<(), Halt> {
        let (start, span) = (world.now(), lab.params.span(DURATION));
        let mut next_lookup = self.gap();
        let mut marks = (1..=POINTS).map(|point| span * point / POINTS).peekable();
        let (mut before, mut sent) = (Duration::ZERO, control(world));
        let (begun, tally) = (sent, world.tally.clone());
        let mut seconds = 0.0;
        loop {
            let event =
                self.sessions.peek().map_or(Duration::MAX, |event| event.at.saturating_sub(self.start));
            let mark = marks.peek().copied().unwrap_or(span);
            let until = event.min(next_lookup).min(mark).min(span);
            let now = world.now().since(start);
            if until > now {
                let passed = (until - now).as_secs_f64() * self.members.len() as f64;
                (self.node_seconds, seconds) = (self.node_seconds + passed, seconds + passed);
                self.pass(world, until - now);
            }
            self.take_answers(world);
            if until == mark {
                lab.progress("nodes come and go", mark.as_secs_f64() / span.as_secs_f64())?;
                let now = control(world);
                let (end, live) = (mark.as_secs_f64(), seconds / (mark - before).as_secs_f64().max(1e-9));
                self.stretches.push(Stretch { end, control: (now - sent) as f64 / seconds.max(1e-9), live });
                (before, sent, seconds) = (mark, now, 0.0);
                marks.next();
            }
            if until >= span {
                break;
            }
            if until == event
                && let Some(event) = self.sessions.next()
            {
                self.change(world, event.what);
            } else if until == next_lookup {
                self.ask(world);
                next_lookup = until + self.gap();
            }
        }
        self.control = control(world) - begun;
        self.traffic = Some(Traffic::since(&tally, &world.tally));
        self.dead_leaves = dead_leaves(world);
        // The last lookups have their time, too; nobody comes or goes meanwhile.
        for _ in 0..DEADLINE.as_secs() + 1 {
            lab.progress("the last answers come", 1.0)?;
            if self.open.is_empty() {
                break;
            }
            world.run_for(Duration::from_secs(1));
            self.take_answers(world);
        }
        self.lost += std::mem::take(&mut self.open).len() as u64;
        Ok(())
    }

    /// Lets time pass, and looks how far joins are.
    fn pass(&mut self, world: &mut World, mut span: Duration) {
        while !span.is_zero() {
            let step = if self.joining.is_empty() { span } else { span.min(LOOK) };
            for join in self.joining.values_mut() {
                let status = world.node(join.node).map(|node| node.status());
                let at = STEPS.iter().position(|(of, _)| Some(*of) == status);
                at.into_iter().for_each(|at| join.steps[at] += step);
            }
            world.run_for(step);
            self.take_answers(world);
            span -= step;
        }
    }

    /// Draws the time to the next lookup of anybody.
    fn gap(&mut self) -> Duration {
        let unit = (self.dice.roll() >> 11) as f64 / (1u64 << 53) as f64;
        let rate = RATE * self.members.len().max(1) as f64;
        Duration::from_secs_f64(-(1.0 - unit).ln() / rate)
    }

    fn change(&mut self, world: &mut World, what: Change) {
        match what {
            Change::Up(node) => {
                let slot = match self.slots.get(&node) {
                    Some(slot) => {
                        world.restart(*slot);
                        *slot
                    }
                    None => {
                        let slot = world.spawn_random();
                        self.slots.insert(node, slot);
                        slot
                    }
                };
                self.joins += 1;
                let seeds: Vec<u32> = match self.drawn.len() {
                    0 => Vec::new(),
                    count => (0..SEEDS).map(|_| self.drawn[self.dice.below(count)]).collect(),
                };
                // If nobody is left, there is nobody to join: a new ring.
                let request = if seeds.is_empty() { world.create(slot) } else { world.join(slot, &seeds) };
                self.joining.insert(request, Join { node: slot, at: world.now(), steps: Default::default() });
            }
            Change::Down(node) => {
                let Some(slot) = self.slots.get(&node).copied() else { return };
                self.leaves += 1;
                world.crash(slot);
                self.members.remove(&world.contact(slot).id);
                self.drawn.retain(|other| *other != slot);
                self.joining.retain(|_, join| join.node != slot);
                let before = self.open.len();
                self.open.retain(|_, asked| asked.from != slot);
                self.orphaned += (before - self.open.len()) as u64;
            }
        }
    }

    fn enter(&mut self, world: &World, node: u32, at: Time) {
        if self.members.insert(world.contact(node).id, (node, at)).is_none() {
            self.drawn.push(node);
        }
    }

    fn ask(&mut self, world: &mut World) {
        if self.drawn.is_empty() {
            return;
        }
        let (from, key) = (self.drawn[self.dice.below(self.drawn.len())], random_key(&mut self.dice));
        let request = world.command(from, Command::Lookup { key, trace: true, deadline: DEADLINE });
        self.asked += 1;
        self.open.insert(request, Asked { at: world.now(), from, key });
    }

    fn take_answers(&mut self, world: &mut World) {
        for Answered { at, node, request, reply } in world.take_replies() {
            if let Some(join) = self.joining.remove(&request) {
                if reply.is_ok() {
                    self.join_waits.add(at.since(join.at).as_millis() as u64);
                    for (waits, step) in self.step_waits.iter_mut().zip(join.steps) {
                        waits.add(step.as_millis() as u64);
                    }
                    self.enter(world, join.node, at);
                }
                continue;
            }
            let Some(asked) = self.open.remove(&request) else { continue };
            let (root, hops, path) = match reply {
                Ok(Reply::Found { root, hops, path, .. }) => (root, hops, path),
                other => {
                    self.lost += 1;
                    let reason =
                        other.map_or_else(|failure| format!("{failure:?}"), |reply| format!("{reply:?}"));
                    *self.reasons.entry(reason).or_default() += 1;
                    continue;
                }
            };
            if self.is_right(&asked, root.id) {
                self.right += 1;
            } else {
                self.wrong += 1;
            }
            self.hops.add(hops.into());
            if root.addr.0 == node {
                continue;
            }
            let leg = |from: u32, to: u32| world.network.direct(from, to).as_micros() as f64;
            let nodes: Vec<u32> = path.iter().map(|hop| hop.node.addr.0).collect();
            self.travelled += nodes.windows(2).map(|pair| leg(pair[0], pair[1])).sum::<f64>();
            // The answer comes back the straight way.
            let back = leg(root.addr.0, node);
            self.delay += at.since(asked.at).as_micros() as f64 - back;
            self.direct += leg(node, root.addr.0);
        }
    }

    /// Says whether no node that was a member all the while is nearer to the key than the one that answered.
    fn is_right(&self, asked: &Asked, root: Id) -> bool {
        let there = |(_, (_, since)): &(&Id, &(u32, Time))| *since <= asked.at;
        let key = asked.key;
        let after = self.members.range(key..).chain(self.members.iter()).find(there);
        let before = self.members.range(..key).rev().chain(self.members.iter().rev()).find(there);
        let around = after.into_iter().chain(before).map(|(id, _)| *id);
        around.map(|id| key.closeness(id)).min().is_none_or(|nearest| key.closeness(root) <= nearest)
    }

    fn tell(self, lab: &mut Lab<'_>) {
        let leases = lab.params.text(OWNERSHIP) == "lease";
        let report = &mut lab.report;
        let share = |count: u64| count as f64 / self.asked.max(1) as f64;
        let penalty = self.delay / self.direct.max(1.0);
        let traffic = self.control as f64 / self.node_seconds.max(1e-9);
        report.figures.extend([
            Figure::new("relative delay penalty", penalty, 3, "").paper(1.8),
            Figure::new(
                "relative delay penalty without waiting",
                self.travelled / self.direct.max(1.0),
                3,
                "",
            ),
            Figure::new("control messages per second and node", traffic, 3, "messages/s").paper(0.245),
            Figure::new("lookups answered by the wrong node", self.wrong as f64, 0, ""),
            Figure::new("lookups lost", self.lost as f64, 0, ""),
            Figure::new("share of lookups wrong", share(self.wrong), 7, ""),
            Figure::new("share of lookups lost", share(self.lost), 7, ""),
            Figure::new("lookups", self.asked as f64, 0, ""),
            Figure::new("mean hops", self.hops.mean(), 3, "hops"),
            Figure::new("dead leaves per node at the end", self.dead_leaves, 2, ""),
            Figure::new("joins", self.joins as f64, 0, ""),
            Figure::new("leaves", self.leaves as f64, 0, ""),
            Figure::new("median join", self.join_waits.quantile(0.5) as f64, 0, "ms"),
            Figure::new("99th percentile of joins", self.join_waits.quantile(0.99) as f64, 0, "ms"),
        ]);
        let kinds = self.traffic.iter().flat_map(Traffic::kinds).filter(|(_, count)| *count > 0.0);
        let rate = |count: f64| format!("{:.4}", count / self.node_seconds.max(1e-9));
        let what = |kind| if ASKING.contains(&kind) { "lookups" } else { "control" };
        let row = |(kind, count): (BodyKind, f64)| {
            vec![kind.name().to_owned(), what(kind).to_owned(), format!("{count:.0}"), rate(count)]
        };
        let rows = kinds.map(row).collect();
        let columns = ["message", "part of", "sent under churn", "per second and node"];
        let columns = columns.map(str::to_owned).to_vec();
        report.tables.push(Table { title: "Messages by kind".to_owned(), columns, rows });
        if !self.reasons.is_empty() {
            let rows = self.reasons.iter().map(|(why, count)| vec![why.clone(), count.to_string()]).collect();
            let columns = ["failure", "lookups"].map(str::to_owned).to_vec();
            report.tables.push(Table { title: "Why lookups were lost".to_owned(), columns, rows });
            report.remarks.push(
                "an answer is sent once and straight: where messages are lost, so are some answers to lookups that \
                 arrived, and these count as lost"
                    .to_owned(),
            );
        }
        let curve = |name: &str, title: &str, label: &str, of: fn(&Stretch) -> f64| Plot {
            name: name.to_owned(),
            title: title.to_owned(),
            shape: Shape::Lines,
            x: Axis { label: "minutes".to_owned(), log: false },
            y: Axis { label: label.to_owned(), log: false },
            series: vec![Series {
                name: "Kringle".to_owned(),
                role: Role::Ours,
                points: self.stretches.iter().map(|stretch| (stretch.end / 60.0, of(stretch))).collect(),
            }],
        };
        let label = "control messages per second and node";
        let mut traffic = curve("traffic", "Control traffic under churn", label, |stretch| stretch.control);
        if let Some(points) = self.stretches.first().zip(self.stretches.last()) {
            let points = [points.0, points.1].map(|stretch| (stretch.end / 60.0, 0.245)).to_vec();
            let name = "MSPastry 2004, remembered".to_owned();
            traffic.series.push(Series { name, role: Role::Paper, points });
        }
        report.plots.push(traffic);
        report.plots.push(curve("live", "Members of the ring", "nodes", |stretch| stretch.live));
        report.remarks.push(format!(
            "the product's settings for machines far apart, ownership by {}",
            if leases { "lease" } else { "hint" }
        ));
        report.remarks.push(
            "wrong: a node that was a member from question to answer is nearer to the key than the one that \
             answered; lost: no answer within 30 s, or a failure"
                .to_owned(),
        );
        report.remarks.push(
            "the delay penalty is the ratio of means, from question to arrival with all waiting for silent hops; \
             MSPastry's figures are remembered from the paper and gate nothing"
                .to_owned(),
        );
        if self.orphaned > 0 {
            let orphaned = self.orphaned;
            report
                .remarks
                .push(format!("{orphaned} lookups whose node was gone before the answer are not judged"));
        }
        report.counts.push(self.hops);
        report.counts.push(self.join_waits);
        report.counts.extend(self.step_waits);
    }
}

/// Members of leaf sets that are not there any more, per node.
fn dead_leaves(world: &World) -> f64 {
    let (mut dead, mut nodes) = (0, 0);
    for pastry in world.ready().filter_map(|(_, node)| node.overlay().as_pastry()) {
        let leaves = pastry.router().leaf_set().members();
        dead += leaves.iter().filter(|leaf| world.node(leaf.addr.0).is_none()).count();
        nodes += 1;
    }
    dead as f64 / f64::from(nodes.max(1))
}

fn control(world: &World) -> u64 {
    let kinds = BodyKind::ALL.iter().filter(|kind| !ASKING.contains(kind));
    kinds.map(|kind| world.tally.messages(*kind)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Unwatched;
    use crate::report::Report;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn figure(report: &Report, name: &str) -> f64 {
        report.figures.iter().find(|figure| figure.name == name).expect(name).ours
    }

    fn done(pairs: &[(&str, &str)]) -> Report {
        let (report, halt) = CHURN_SCENARIO.run(&given(pairs), 1, &mut Unwatched).expect("possible");
        assert_eq!(halt, None);
        report
    }

    #[test]
    fn a_small_ring_answers_while_nodes_come_and_go() {
        for churn in ["poisson", "weibull"] {
            let report = done(&[("nodes", "150"), ("session", "20m"), ("duration", "5m"), ("churn", churn)]);
            assert!(figure(&report, "joins") >= 10.0 && figure(&report, "leaves") >= 10.0);
            assert!(figure(&report, "lookups") >= 300.0);
            // A node that dies with a message in hand takes it along: about one in a thousand.
            assert!(figure(&report, "share of lookups lost") <= 0.01);
            assert!(figure(&report, "share of lookups wrong") <= 0.01);
            assert!((1.0..4.0).contains(&figure(&report, "relative delay penalty")));
            assert!(figure(&report, "control messages per second and node") > 0.1);
            assert!(figure(&report, "dead leaves per node at the end") < 16.0);
            let live = &report.plots[1].series[0].points;
            assert!(live.iter().all(|(_, nodes)| (75.0..300.0).contains(nodes)), "{live:?}");
            assert_eq!((report.plots[0].series[0].points.len(), report.worlds.len()), (60, 1));
        }
    }

    #[test]
    fn a_trace_is_followed_and_a_bad_one_refused_before_anything_is_simulated() {
        let path = std::env::temp_dir().join(format!("kringle-{}-churn.txt", std::process::id()));
        let mut text: String = (0..20).map(|node| format!("0 up {node}\n")).collect();
        text += "10 down 3\n20 up new\n30 up 3\n40 down 4\n";
        std::fs::write(&path, &text).unwrap();
        let churn = format!("trace:{}", path.display());
        let report = done(&[("duration", "60s"), ("churn", &churn)]);
        std::fs::write(&path, "0 up a\n1 left a\n").unwrap();
        let refused = CHURN_SCENARIO.run(&given(&[("churn", &churn)]), 1, &mut Unwatched).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((figure(&report, "joins"), figure(&report, "leaves")), (2.0, 2.0));
        assert_eq!(report.worlds[0].nodes, 21, "who returns is no new node");
        let live = &report.plots[1].series[0].points;
        assert_eq!((live[0].1, live[59].1), (20.0, 20.0));
        let expected = format!("--churn: {}:2: \"left\" is not known; expected up or down", path.display());
        assert_eq!(refused, expected);
    }

    #[test]
    fn churn_nobody_knows_is_refused() {
        let refused = CHURN_SCENARIO.run(&given(&[("churn", "tides")]), 1, &mut Unwatched);
        let expected = "--churn: \"tides\" is none of poisson, weibull, trace:FILE";
        assert_eq!(refused.expect_err("not known"), expected);
    }
}
