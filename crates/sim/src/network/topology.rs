//! Where nodes are, and how far from each other.

use std::f64::consts::{PI, TAU};
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};

use super::{Matrix, TransitStub};

/// Where nodes are, which decides how long a message takes.
///
/// Places are drawn from the seed of the network and the index of the node, and never stored: a world of a million
/// nodes asks for hundreds of millions of delays.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// Every pair alike: a random delay between two bounds for every message.
    Flat {
        /// Shortest delay.
        min: Duration,
        /// Longest delay.
        max: Duration,
    },
    /// Random points in a square, as in the Pastry paper: delay is distance.
    Plane {
        /// Delay from one corner to the next.
        side: Duration,
    },
    /// Random points on a sphere: delay is the distance along the great circle.
    Sphere {
        /// Delay between antipodes, half way round.
        half: Duration,
    },
    /// Random stub routers of a transit-stub internet.
    TransitStub(TransitStub),
    /// Hosts of a measured matrix.
    Matrix(Matrix),
}

/// Keeps positions apart from other things drawn from the same seed.
const POSITIONS: u64 = 3 << 40;

/// Whatever goes from one node to another takes time.
const MIN: Duration = Duration::from_micros(1);

impl Topology {
    /// Returns the delay from one node to another; on [`Topology::Flat`] the mean.
    pub(super) fn direct(&self, seed: u64, from: u32, to: u32) -> Duration {
        match self {
            Topology::Flat { min, max } => (*min + (*max).max(*min)) / 2,
            Topology::Plane { side } => {
                let ((ax, ay), (bx, by)) = (point(seed, from), point(seed, to));
                // The square root of the sum: the library's careful version takes as long as all the rest.
                let distance = ((ax - bx) * (ax - bx) + (ay - by) * (ay - by)).sqrt();
                Duration::from_micros((side.as_micros() as f64 * distance) as u64).max(MIN)
            }
            Topology::Sphere { half } => {
                half.mul_f64(angle(point(seed, from), point(seed, to)) / PI).max(MIN)
            }
            Topology::TransitStub(internet) => {
                Duration::from_micros(internet.micros(seed, from, to).into()).max(MIN)
            }
            Topology::Matrix(matrix) => Duration::from_micros(matrix.micros(seed, from, to).into()),
        }
    }
}

/// Returns where a node is, each coordinate from 0 to 1.
pub(super) fn point(seed: u64, node: u32) -> (f64, f64) {
    let mut dice = SeededDice::derive(seed ^ POSITIONS, node.into());
    let mut unit = || (dice.roll() >> 11) as f64 / (1u64 << 53) as f64;
    (unit(), unit())
}

/// Returns the angle between two points on the sphere, from 0 to pi. Slices of equal height have equal area, so that
/// uniform longitude and height make uniform points.
fn angle((a_turn, a_height): (f64, f64), (b_turn, b_height): (f64, f64)) -> f64 {
    let (az, bz) = (2.0 * a_height - 1.0, 2.0 * b_height - 1.0);
    let flat = ((1.0 - az * az) * (1.0 - bz * bz)).sqrt();
    let cosine = az * bz + flat * ((a_turn - b_turn) * TAU).cos();
    cosine.clamp(-1.0, 1.0).acos()
}
