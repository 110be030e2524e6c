//! The store over HTTP: values as raw bodies, versions as entity tags.
//!
//! [`input`] makes what the store is asked of paths, parameters and headers; [`output`] makes answers of what it found.
//! The others are the paths: one [`value`], the values of a [`set`], its [`expiry`] and counting, a [`batch`] of all of
//! these, and a walk over the [`keys`].

pub(super) mod batch;
pub(super) mod expiry;
pub(super) mod input;
pub(super) mod keys;
pub(super) mod output;
pub(super) mod set;
pub(super) mod value;

pub use batch::{BATCH_MAX, LINES_MAX};
pub use input::TTL_MAX;
pub use keys::{PAGE, PAGE_MAX};
