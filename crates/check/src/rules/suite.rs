//! All worlds of all models.

use super::{acknowledging, doubting, lost_disks, recovering, versions};
use crate::explore::{Bounds, Search};
use crate::search::{Found, search};

/// A world that can be searched.
pub struct Run {
    /// The model.
    pub model: &'static str,
    /// The world.
    pub world: &'static str,
    /// Whether it takes long.
    pub large: bool,
    look: Box<dyn Fn(Bounds) -> Found>,
}

impl Run {
    /// Searches the world, breadth first.
    pub fn look(&self, bounds: Bounds) -> Found {
        (self.look)(bounds)
    }
}

/// Returns all worlds in which the rules must hold.
pub fn runs() -> Vec<Run> {
    let how = Search::Breadth;
    let mut runs = vec![Run {
        model: "acknowledging",
        world: "growing",
        large: false,
        look: Box::new(move |bounds| search(&acknowledging::World { left: &[], deaths: 1 }, how, bounds)),
    }];
    runs.extend(doubting::WORLDS.iter().map(|world| Run {
        model: "doubting",
        world: world.name,
        large: false,
        look: Box::new(move |bounds| search(world, how, bounds)),
    }));
    let lost = lost_disks::PLANS.iter().map(|plan| (plan, false));
    runs.extend(lost.chain(lost_disks::LARGE.iter().map(|plan| (plan, true))).map(|(plan, large)| Run {
        model: "lost-disks",
        world: plan.name,
        large,
        look: Box::new(move |bounds| search(&lost_disks::World(*plan), how, bounds)),
    }));
    runs.extend(recovering::WORLDS.iter().map(|world| Run {
        model: "recovering",
        world: world.name,
        large: false,
        look: Box::new(move |bounds| search(world, how, bounds)),
    }));
    let versions = versions::PLANS.iter().map(|plan| (plan, false));
    runs.extend(versions.chain(versions::LARGE.iter().map(|plan| (plan, true))).map(|(plan, large)| Run {
        model: "versions",
        world: plan.name,
        large,
        look: Box::new(move |bounds| search(&versions::World(*plan), how, bounds)),
    }));
    runs
}
