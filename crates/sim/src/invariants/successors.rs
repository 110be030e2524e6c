//! Every Chord node has the right predecessor and the right successors: the ideal ring of Zave's theorem. Holds once a
//! ring is left in peace.

use kringle_core::id::NodeId;
use kringle_core::overlay::chord::Chord;

use super::{Places, leaf_sets_are_exact};
use crate::world::World;

/// Compares what every ready node knows of its neighbours with the truth, whichever overlay it is.
pub fn neighbours_are_exact(world: &World) -> Result<(), String> {
    let places = Places::of_ready(world);
    let live: Vec<NodeId> = places.all().iter().map(|(id, _)| *id).collect();
    for (index, node) in world.ready() {
        let Some(chord) = node.overlay().as_chord() else { return leaf_sets_are_exact(world) };
        check(chord, node.me().id, &live, usize::from(world.config().successors))
            .map_err(|wrong| format!("node {index}: {wrong}"))?;
    }
    Ok(())
}

fn check(chord: &Chord, me: NodeId, live: &[NodeId], length: usize) -> Result<(), String> {
    let at = live.binary_search(&me).map_err(|_| "not among the ready ones")?;
    let others = live.len() - 1;
    let after = |steps: usize| live[(at + steps) % live.len()];
    let wanted_pred = (others > 0).then(|| after(others));
    let pred = chord.predecessor().map(|pred| pred.id);
    if pred != wanted_pred {
        return Err(format!("its predecessor is {pred:?}, not {wanted_pred:?}"));
    }
    // A small group knows all of them; in a large one, who can not be reached directly counts as known.
    let (found, length): (Vec<NodeId>, usize) = if chord.is_large() {
        let known = chord.ring().extended().into_iter().map(|node| node.id);
        (known.filter(|id| live.binary_search(id).is_ok()).take(length).collect(), length.min(others))
    } else {
        (chord.successors().iter().map(|node| node.id).collect(), others)
    };
    let wanted: Vec<NodeId> = (1..=length).map(after).collect();
    if found != wanted {
        return Err(format!("its successors are {found:?}, not {wanted:?}"));
    }
    let dead = chord.successors().into_iter().find(|node| live.binary_search(&node.id).is_err());
    dead.map_or(Ok(()), |dead| Err(format!("{dead:?} is not there")))
}
