//! Writes down what happens at every node of the demo, so that it can be read afterwards.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use kringle::Event;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::ring::Member;

/// Entries kept.
const KEPT: usize = 1000;

/// An event, and where it happened.
pub(crate) struct Entry {
    /// The number of the node.
    pub(crate) number: usize,
    pub(crate) event: Arc<Event>,
}

/// The journal. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Journal {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: RefCell<VecDeque<Entry>>,
    /// Entries that were not read before there were too many.
    lost: RefCell<usize>,
    written: Notify,
}

impl Journal {
    /// Follows a node from now on, until it ends.
    pub(crate) fn follow(&self, member: &Member) {
        let (mut events, number, inner) = (member.node.events(), member.number, self.inner.clone());
        spawn_local(async move {
            while let Some(event) = events.next().await {
                let mut entries = inner.entries.borrow_mut();
                if entries.len() == KEPT {
                    entries.pop_front();
                    *inner.lost.borrow_mut() += 1;
                }
                entries.push_back(Entry { number, event });
                inner.written.notify_one();
            }
        });
    }

    /// Takes what was written since the last time, and how much was lost before it.
    pub(crate) fn take(&self) -> (usize, Vec<Entry>) {
        (self.inner.lost.take(), self.inner.entries.take().into())
    }

    /// Waits until something is written.
    pub(crate) async fn written(&self) {
        while self.inner.entries.borrow().is_empty() {
            self.inner.written.notified().await;
        }
    }
}
