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

#[cfg(test)]
mod tests {
    use kringle_core::edge::Output;
    use kringle_core::records::{Bytes, Records, Space};
    use tokio::sync::oneshot;

    use super::*;
    use crate::handle::{Call, Handle};
    use crate::transport::mem::Hub;
    use crate::{Builder, StoreKind};

    /// Runs a test on one thread with a place for local tasks.
    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test ends in time");
        });
    }

    /// Does something to the driver of a node.
    async fn enter<T: Send + 'static>(
        node: &Handle,
        work: impl FnOnce(&mut Driver) -> T + Send + 'static,
    ) -> T {
        let (tell, told) = oneshot::channel();
        let work = Box::new(move |driver: &mut Driver| drop(tell.send(work(driver))));
        assert!(node.shared.calls.send(Call::Enter(work)).await.is_ok());
        told.await.unwrap()
    }

    fn persist(ticket: u64) -> Output {
        let write =
            Write { space: Space::Data, key: Bytes::from(*b"key"), value: Some(Bytes::from(*b"value")) };
        Output::Persist { ticket, writes: vec![write] }
    }

    async fn node(dir: &std::path::Path) -> Handle {
        Builder::new("t").memory(&Hub::new()).data(dir).start_here().await.unwrap()
    }

    #[test]
    fn what_a_node_asks_for_is_stored_and_comes_back() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let first = node(dir.path()).await;
            enter(&first, |driver| driver.execute(persist(1))).await;
            while enter(&first, |driver| driver.engine.figures().pending).await > 0 {
                tokio::task::yield_now().await;
            }
            // The node has written for itself, too.
            assert!(!first.metrics().await.unwrap().contains("kringle_store_commits 0\n"));
            assert_eq!(first.kill().await, Ending::Stopped);
            let second = node(dir.path()).await;
            let found = enter(&second, |driver| driver.engine.read(Space::Data, b"key")).await;
            assert_eq!(found.as_deref(), Some(&b"value"[..]));
            let born = enter(&second, |driver| driver.engine.born()).await;
            enter(&second, |driver| driver.be_reborn(0)).await;
            let (found, again) =
                enter(&second, |driver| (driver.engine.read(Space::Data, b"key"), driver.engine.born()))
                    .await;
            assert_eq!(found, None, "a new life is not bound by what was kept");
            assert_ne!(again, born);
            second.stop().await;
        });
    }

    #[test]
    fn in_memory_it_is_said_in_the_same_round() {
        run(async {
            let node = Builder::new("t").memory(&Hub::new()).start_here().await.unwrap();
            let soon = enter(&node, |driver| {
                driver.execute(persist(7));
                driver.soon.pop_front()
            });
            assert_eq!(soon.await, Some(Input::Persisted { ticket: 7 }));
            node.stop().await;
            let node =
                Builder::new("t").memory(&Hub::new()).store(StoreKind::None).start_here().await.unwrap();
            enter(&node, |driver| driver.execute(persist(7))).await;
            assert_eq!(enter(&node, |driver| driver.engine.read(Space::Data, b"key")).await, None);
            node.stop().await;
        });
    }

    #[test]
    fn a_node_ends_when_its_disk_fails() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let broken = node(dir.path()).await;
            enter(&broken, |driver| {
                driver.engine.break_disk();
                driver.execute(persist(1));
            })
            .await;
            let Ending::Failed { what } = broken.ended().await else { panic!("it should have failed") };
            assert!(what.contains("the store failed: the disk was broken by a test"), "{what}");
            // It can be started again, and what was not reported is not there.
            let again = node(dir.path()).await;
            assert_eq!(enter(&again, |driver| driver.engine.read(Space::Data, b"key")).await, None);
            again.stop().await;
        });
    }
}
