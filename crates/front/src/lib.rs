//! How clients talk to a node.
//!
//! Every protocol stands on [`kringle_runtime::Handle`] and knows nothing of the node behind it. [`target`] says which
//! node a port speaks for, [`errors`] is the one table of what can go wrong, and [`http`] is HTTP with JSON.
//! [`duration`] and [`text`] read and write what people type and see.

pub mod duration;
pub mod errors;
pub mod http;
pub mod target;
pub mod text;

pub use errors::{Kind, Problem, catalogue};
pub use target::Target;
