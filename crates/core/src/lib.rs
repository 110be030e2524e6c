//! What a Kringle node decides.
#![no_std]
#![warn(missing_docs)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod contact;
pub mod dice;
pub mod edge;
pub mod id;
mod kinds;
pub mod message;
pub mod overlay;
pub mod range;
pub mod records;
pub mod time;
/// x
pub mod wire {
    /// x
    pub const PAYLOAD_MAX: usize = 65536;
}
