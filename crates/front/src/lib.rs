//! How clients talk to a node.
//!
//! Every protocol stands on [`kringle_runtime::Handle`] and knows nothing of the node behind it. [`target`] says which
//! node a port speaks for, [`errors`] is the one table of what can go wrong, and [`http`] is HTTP with JSON.
//! [`duration`], [`glob`], [`moment`] and [`text`] read and write what people type and see. [`store`] is where a test
//! puts something simpler than a ring.

pub mod duration;
pub mod errors;
pub mod glob;
pub mod http;
pub mod moment;
pub mod store;
pub mod target;
pub mod text;

pub use errors::{Kind, Problem, catalogue};
pub use target::Target;
