//! What the scenarios of the Chord paper share.

use std::time::{Duration, Instant};

use kringle_core::config::{OverlayKind, Settings};

use super::params::SUCCESSORS;
use super::{Halt, Lab};
use crate::report::{Axis, Figure, Plot, Role, Series, Shape, Table};
use crate::world::World;

/// Never, in experiments that take less.
const NEVER: Duration = Duration::from_secs(30 * 86_400);
/// How long the first questions of a ring that was formed take.
const FIRST: Duration = Duration::from_secs(5);

impl Lab<'_> {
    /// Returns the settings of the Chord paper's experiments, with the parameters of this run: nobody stabilises unless
    /// `tick` says how often.
    pub fn chord_settings(&self, tick: Option<Duration>) -> Settings {
        let lab = Settings::lab();
        let often = tick.unwrap_or(NEVER);
        Settings {
            overlay: OverlayKind::Chord,
            successors: self.count(SUCCESSORS) as u8,
            replicas: 0,
            tick: often,
            fingers: often,
            heartbeat: tick.map_or(NEVER, |_| lab.heartbeat),
            // A message may have to wait until somebody has noticed that the owner is dead.
            transit_max: lab.transit_max.max(tick.unwrap_or_default() * 3),
            seen_for: lab.seen_for.max(tick.unwrap_or_default() * 6),
            budget: 1 << 20,
            budget_burst: 1 << 22,
            ..lab
        }
    }

    /// Makes a ring of Chord nodes that is complete from the start.
    ///
    /// # Errors
    /// If the parameters do not go together, or [`Halt::Interrupted`].
    pub fn chord_ring(&mut self, settings: Settings, count: usize) -> Result<World, Halt> {
        let mut world = self.world_of(settings)?;
        self.progress(&format!("a ring of {count} nodes is made"), 0.0)?;
        let start = Instant::now();
        world.form_chord(count);
        world.run_for(FIRST);
        let seconds = start.elapsed().as_secs_f64();
        self.report.machine.figures.push(Figure::new(format!("{count} nodes formed in"), seconds, 1, "s"));
        Ok(world)
    }
}

/// A table without rows.
pub(crate) fn table(title: &str, columns: &[&str]) -> Table {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    Table { title: title.to_owned(), columns, rows: Vec::new() }
}

/// A curve.
pub(crate) fn series(name: &str, role: Role, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), role, points }
}

/// A plot of curves.
pub(crate) fn lines(name: &str, title: &str, x: (&str, bool), y: &str, series: Vec<Series>) -> Plot {
    Plot {
        name: name.to_owned(),
        title: title.to_owned(),
        shape: Shape::Lines,
        x: Axis { label: x.0.to_owned(), log: x.1 },
        y: Axis { label: y.to_owned(), log: false },
        series,
    }
}
