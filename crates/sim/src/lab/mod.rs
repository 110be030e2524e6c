//! Where scenarios are run: parameters in, a report out, and everything they need in between.

pub(crate) mod chord;
pub mod params;
pub mod ring;
pub mod traffic;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kringle_core::config::{Ownership, Settings};
use kringle_core::id::Base;
use kringle_core::message::BodyKind;
use kringle_core::node::Node;

use self::params::{Param, Params};
use crate::report::{Machine, Report, Ring, SCHEMA};
use crate::world::World;

/// How often nodes look after their neighbours in experiments where nobody dies.
pub(crate) const CALM: Duration = Duration::from_secs(1800);

/// An experiment that can be run by name.
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// The published experiment it repeats, with its set-up; empty if there is none.
    pub anchor: &'static str,
    /// The parameters it takes, with the values it uses unless told otherwise: the paper's, where there is one.
    pub params: &'static [(&'static Param, &'static str)],
    /// Does it.
    pub run: fn(&mut Lab<'_>) -> Result<(), Halt>,
}

/// Why a run ended early. What it has reported until then is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Somebody wants it to.
    Interrupted,
    /// The parameters ask for something that can not be; nothing was simulated.
    Impossible(String),
    /// Something that must hold does not.
    Broken(String),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Interrupted => f.write_str("interrupted"),
            Halt::Impossible(why) | Halt::Broken(why) => f.write_str(why),
        }
    }
}

/// Whoever looks on while a scenario runs.
pub trait Watch {
    /// So much of this step is done, 0 to 1.
    fn progress(&mut self, step: &str, done: f64);

    /// Says whether the run should end.
    fn interrupted(&mut self) -> bool;
}

/// Nobody looks on.
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&mut self, _step: &str, _done: f64) {}

    fn interrupted(&mut self) -> bool {
        false
    }
}

/// A run under way.
pub struct Lab<'a> {
    /// The values of the scenario's parameters.
    pub params: Params,
    /// What decides everything drawn at random.
    pub seed: u64,
    /// What was found out so far.
    pub report: Report,
    watch: &'a mut dyn Watch,
}

impl Scenario {
    /// Runs the scenario. `given` are parameters by name; what is not given is as in the paper.
    ///
    /// # Errors
    /// If the parameters are impossible. Any other end, early or not, is in the report and beside it.
    pub fn run(
        &self,
        given: &BTreeMap<String, String>,
        seed: u64,
        watch: &mut dyn Watch,
    ) -> Result<(Report, Option<Halt>), String> {
        let params = Params::new(self.params, given)?;
        let report = Report {
            schema: SCHEMA.to_owned(),
            scenario: self.name.to_owned(),
            title: self.about.to_owned(),
            anchor: self.anchor.to_owned(),
            command: String::new(),
            code: String::new(),
            seed,
            parameters: params.all(),
            complete: false,
            figures: Vec::new(),
            counts: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            worlds: Vec::new(),
            remarks: Vec::new(),
            machine: Machine::default(),
        };
        let mut lab = Lab { params, seed, report, watch };
        let halt = (self.run)(&mut lab).err();
        let mut report = lab.report;
        report.complete = halt.is_none();
        match halt {
            Some(Halt::Impossible(why)) => Err(why),
            halt => Ok((report, halt)),
        }
    }
}

impl Lab<'_> {
    /// Tells how far a step has come, and ends the run if somebody wants it to.
    ///
    /// # Errors
    /// [`Halt::Interrupted`].
    pub fn progress(&mut self, step: &str, done: f64) -> Result<(), Halt> {
        self.watch.progress(step, done);
        if self.watch.interrupted() { Err(Halt::Interrupted) } else { Ok(()) }
    }

    /// Returns a parameter that is a whole number.
    pub fn count(&self, param: &Param) -> usize {
        self.params.count(param)
    }

    /// Returns the settings the papers' experiments use, with the parameters of this run: nodes do nothing in the
    /// background but watch their neighbours, so that upkeep happens in rounds.
    pub fn settings(&self) -> Settings {
        let never = Duration::from_secs(30 * 86_400);
        let lab = Settings::lab();
        let or = |param: &Param, default: usize| {
            if self.params.has(param) { self.count(param) } else { default }
        };
        let leases = self.params.has(params::OWNERSHIP) && self.params.text(params::OWNERSHIP) == "lease";
        Settings {
            base: Base::new(or(params::BASE, 4) as u8).unwrap_or(Base::HEX),
            leaf_set: or(params::LEAF_SET, lab.leaf_set.into()) as u16,
            neighbourhood: or(params::NEIGHBOURHOOD, lab.neighbourhood.into()) as u16,
            spares: or(params::SPARES, lab.spares.into()) as u8,
            replicas: 0,
            ownership: if leases { Ownership::Lease } else { Ownership::Hint },
            heartbeat: CALM,
            leaf_exchange: never,
            row_swap: never,
            neighbourhood_exchange: never,
            // The papers' nodes have no budget of bytes, and tables of base 256 need many probes at once.
            budget: 1 << 20,
            budget_burst: 1 << 22,
            probes: 4096,
            ..lab
        }
    }

    /// Writes down what a world was and what happened in it.
    pub fn keep(&mut self, name: &str, world: &World) {
        let messages = BodyKind::ALL.iter().map(|kind| (kind.name().to_owned(), world.tally.messages(*kind)));
        self.report.worlds.push(Ring {
            name: name.to_owned(),
            nodes: world.len() as u64,
            node_type: std::any::type_name::<Node>().to_owned(),
            node_size: size_of::<Node>() as u64,
            events: world.handled(),
            simulated_seconds: world.now().micros() as f64 / 1e6,
            trace: format!("{:016x}", world.trace_hash()),
            messages: messages.collect(),
        });
    }
}
