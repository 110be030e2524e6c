//! What a node keeps: between the core, which asks and reads, and the storage engine, which makes it last.

use std::rc::Rc;
use std::time::Duration;

use kringle_core::edge::Input;
use kringle_core::records::Write;

use super::{Driver, Shell};
use crate::handle::Ending;

/// The free space is looked at this often, whatever happens.
const LOOK: Duration = Duration::from_secs(1);

impl Shell {
    /// Tells the node what has become durable, and whether there is room for more, until it ends.
    pub(super) async fn watch_store(self: Rc<Shell>) {
        let wake = self.driver.borrow().engine.wake();
        // Nothing on the disk: everything is said at once.
        let Some(wake) = wake else { return std::future::pending().await };
        loop {
            self.enter(Driver::stored);
            let _ = tokio::time::timeout(LOOK, wake.notified()).await;
        }
    }
}

impl Driver {
    pub(super) fn persist(&mut self, ticket: u64, writes: Vec<Write>) {
        if let Some(ticket) = self.engine.persist(ticket, writes) {
            self.soon.push_back(Input::Persisted { ticket });
        }
    }

    /// Hands over what the storage thread has reported.
    fn stored(&mut self) {
        match self.engine.progress() {
            Ok(Some(ticket)) => self.input(Input::Persisted { ticket }),
            Ok(None) => {}
            // What is on the disk is not known any more. A start from what is there tells.
            Err(error) => {
                tracing::error!(%error, "the store failed");
                self.finish(Ending::Failed { what: format!("the store failed: {error}") });
            }
        }
        if let Some(enough) = self.room.as_mut().and_then(crate::engine::Room::look) {
            match enough {
                true => tracing::info!("the disk has room again"),
                false => tracing::error!("the disk is full: nothing more is stored until there is room"),
            }
            self.input(Input::Room { enough });
        }
        self.metrics.store(&self.engine.figures(), self.room.as_ref());
    }

    /// Says whether the node was told that something is not there which may be, and lets it end.
    pub(super) fn could_not_read(&mut self) -> bool {
        let Some(what) = self.engine.trouble() else { return false };
        if self.ending.is_none() {
            tracing::error!(what, "the store is damaged; at the next start it begins empty");
            self.metrics.store_suspect.inc();
        }
        let what = format!("the store is damaged: {what}");
        self.finish(Ending::Failed { what });
        true
    }

    /// Tells a new node what the one before it knew.
    pub(super) fn tell_room(&mut self) {
        if self.room.as_ref().is_some_and(|room| !room.enough()) {
            self.soon.push_back(Input::Room { enough: false });
        }
    }

    /// Empties the store, for a life that must not be bound by what an earlier one kept.
    pub(super) fn forget_everything(&mut self) {
        match self.engine.wipe() {
            Ok(born) => tracing::warn!(born, "the store begins empty"),
            Err(error) => self.finish(Ending::Failed { what: error.to_string() }),
        }
    }
}
