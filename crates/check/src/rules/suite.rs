//! All worlds of all models.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::Model;

use super::{
    acknowledging, damaged_promises, damaged_views, doubting, lineages, lost_disks, recovering, versions,
};
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
    fn new<M>(model: &'static str, world: &'static str, large: bool, it: M) -> Run
    where
        M: Model + Clone + Send + Sync + 'static,
        M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
        M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
    {
        Run { model, world, large, look: Box::new(move |bounds| search(&it, Search::Breadth, bounds)) }
    }

    /// Searches the world, breadth first.
    pub fn look(&self, bounds: Bounds) -> Found {
        (self.look)(bounds)
    }
}

/// The worlds of a model, the large ones last.
fn both<T>(small: &'static [T], large: &'static [T]) -> impl Iterator<Item = (&'static T, bool)> {
    small.iter().map(|it| (it, false)).chain(large.iter().map(|it| (it, true)))
}

/// Returns all worlds in which the rules must hold.
pub fn runs() -> Vec<Run> {
    let growing = acknowledging::World { left: &[], deaths: 1 };
    let mut runs = vec![Run::new("acknowledging", "growing", false, growing)];
    runs.extend(
        both(damaged_promises::WORLDS, damaged_promises::LARGE)
            .map(|(world, large)| Run::new("damaged-promises", world.name, large, *world)),
    );
    runs.extend(
        damaged_views::WORLDS.iter().map(|world| Run::new("damaged-views", world.name, false, *world)),
    );
    runs.extend(doubting::WORLDS.iter().map(|world| Run::new("doubting", world.name, false, *world)));
    runs.extend(lineages::WORLDS.iter().map(|world| Run::new("lineages", world.name, false, *world)));
    runs.extend(
        both(lost_disks::PLANS, lost_disks::LARGE)
            .map(|(plan, large)| Run::new("lost-disks", plan.name, large, lost_disks::World(*plan))),
    );
    runs.extend(recovering::WORLDS.iter().map(|world| Run::new("recovering", world.name, false, *world)));
    runs.extend(
        both(versions::PLANS, versions::LARGE)
            .map(|(plan, large)| Run::new("versions", plan.name, large, versions::World(*plan))),
    );
    runs
}
