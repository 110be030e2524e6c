//! Applications that need no type of their own.

use std::fmt;

use kringle_core::id::Key;
use kringle_runtime::app::{App, Message};

/// Makes an application of a function: it is called for every message this node is to answer, and what it returns goes
/// back to the origin. It runs on the node's own thread, so whatever takes long belongs into a task of your own.
///
/// ```
/// let echo = kringle::app_fn(|_key, message| Some(message.bytes));
/// let builder = kringle::Node::builder("blue").app(16, echo);
/// ```
pub fn app_fn<F>(deliver: F) -> AppFn<F>
where
    F: Fn(Key, Message) -> Option<Vec<u8>> + Send + Sync + 'static,
{
    AppFn { deliver }
}

/// An application made by [`app_fn`].
#[derive(Clone)]
pub struct AppFn<F> {
    deliver: F,
}

impl<F> App for AppFn<F>
where
    F: Fn(Key, Message) -> Option<Vec<u8>> + Send + Sync + 'static,
{
    fn deliver(&self, key: Key, message: Message) -> Option<Vec<u8>> {
        (self.deliver)(key, message)
    }
}

impl<F> fmt::Debug for AppFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AppFn")
    }
}
