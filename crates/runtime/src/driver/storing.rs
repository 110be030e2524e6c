//! What a node keeps: between the core, which asks and reads, and the storage engine, which makes it last.

use std::rc::Rc;
use std::time::Duration;

use kringle_core::edge::{Ctx, Event, Failure, Input, Outbox, Output, Timer};
use kringle_core::message::Body;
use kringle_core::records::Write;
use kringle_core::store::op::{Happened, Trouble};
use kringle_core::time::Time;

use super::{Driver, NEVER, Shell};
use crate::clock::unix_ms;
use crate::engine::{Cause, Damage, Scrub, StoreError};
use crate::handle::Ending;
use crate::home::HomeError;
use crate::report::Disk;

/// The free space is looked at this often, whatever happens.
const LOOK: Duration = Duration::from_secs(1);
/// A store that found its disk full is not opened again before this time has passed.
const PAUSE: Duration = Duration::from_secs(2);
/// A store that has to be opened again so often, each time within this time of the last, is given up.
const REOPENED_MAX: u32 = 5;
const OFTEN: Duration = Duration::from_secs(600);

/// How often and how fast everything on the disk is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scrubs {
    /// Bytes per second.
    pub(crate) rate: u64,
    /// Zero: only when told.
    pub(crate) every: Duration,
}

/// Why a node has no store at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Away {
    /// Something could not be read: it is being repaired.
    Repair,
    /// The disk is full, since then.
    Full { since: Time },
}

impl Away {
    /// What a request gets. Nothing was done, and it can be tried again.
    pub(super) fn failure(self) -> Failure {
        Failure::Store(match self {
            Away::Repair => Trouble::Busy,
            Away::Full { .. } => Trouble::NoSpace { happened: Happened::No },
        })
    }
}

/// Returns what a node says while its store cannot be trusted: of what the store has to say, nothing; requests end without
/// an answer.
pub(super) fn without_store(output: Output) -> Option<Output> {
    match output {
        Output::Send { body: Body::Store(_), .. }
        | Output::Persist { .. }
        | Output::Event(Event::StoreOutdated) => None,
        Output::Reply { request, .. } => Some(Output::Reply { request, reply: Err(Failure::Ended) }),
        other => Some(other),
    }
}

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
            Err(error) => self.could_not_write(&error),
        }
        if let Some(enough) = self.room.as_mut().and_then(crate::engine::Room::look) {
            match enough {
                true => tracing::info!("the disk has room again"),
                false => tracing::error!("the disk is full: nothing more is stored until there is room"),
            }
            self.input(Input::Room { enough });
        }
        self.look_after_scrub();
        self.look_after_store();
        self.metrics.store(&self.engine.figures(), self.room.as_ref());
        if let Some(damage) = self.engine.damage() {
            self.metrics.damage(damage, self.away.is_some());
        }
    }

    /// The storage thread has ended. What is on the disk is not known any more; opening it tells.
    fn could_not_write(&mut self, error: &StoreError) {
        if self.away.is_some() || self.ending.is_some() {
            return;
        }
        let away = match error.cause {
            Cause::Database => Away::Repair,
            Cause::Full => Away::Full { since: self.now },
            Cause::Disk => {
                tracing::error!(%error, "the store failed");
                return self.finish(Ending::Failed { what: format!("the store failed: {error}") });
            }
        };
        let mut out = std::mem::take(&mut self.out);
        self.lose_store(away, &error.to_string(), &mut out);
        let outputs: Vec<Output> = out.drain().collect();
        self.out = out;
        outputs.into_iter().for_each(|output| self.execute(output));
    }

    /// The node was told that something is not there which may be: it goes on without a store until that is repaired.
    pub(super) fn could_not_read(&mut self, out: &mut Outbox) {
        let Some(what) = self.engine.trouble().map(str::to_owned) else { return };
        if self.away.is_none() && self.ending.is_none() {
            self.lose_store(Away::Repair, &what, out);
        }
    }

    /// Takes the store away from the node. The ring goes on.
    fn lose_store(&mut self, away: Away, what: &str, out: &mut Outbox) {
        let mut cx = Ctx {
            now: self.now,
            config: &self.config,
            dice: &mut self.dice,
            wall: unix_ms(),
            records: &self.engine,
            out,
        };
        self.node.remove_store(&mut cx);
        self.timers[Timer::Store as usize] = NEVER;
        match away {
            Away::Repair => {
                tracing::error!(what, "the store is damaged: this node serves nothing until it is repaired");
                self.reopen(true);
            }
            Away::Full { .. } => {
                tracing::error!(what, "the disk is full: this node serves nothing until there is room");
            }
        }
        self.away = Some(away);
    }

    /// Opens the store again, on a thread of its own.
    fn reopen(&mut self, deep: bool) {
        let (at, count) = self.reopened;
        let count = if self.now.since(at) < OFTEN { count + 1 } else { 1 };
        self.reopened = (self.now, count);
        if count > REOPENED_MAX {
            let what = format!("the store failed {count} times in a row: check the disk, then start again");
            return self.finish(Ending::Failed { what });
        }
        if let Err(error) = self.engine.repair(deep) {
            self.finish(Ending::Failed { what: format!("{error}; {}", error.remedy()) });
        }
    }

    /// Begins to read everything on the disk. Returns how far that has come, if there is a disk.
    pub(super) fn scrub(&mut self, rate: Option<u64>) -> Result<Option<Scrub>, String> {
        if self.away.is_none() {
            self.engine.scrub(rate.unwrap_or(self.scrubs.rate)).map_err(|error| error.to_string())?;
        }
        Ok(self.engine.scrub_report())
    }

    /// Hands over what a scrub has found, and begins one when it is time.
    fn look_after_scrub(&mut self) {
        let gaps = self.engine.scrub_found();
        if !gaps.is_empty() && self.away.is_none() {
            let mut out = Outbox::default();
            let mut cx = Ctx {
                now: self.now,
                config: &self.config,
                dice: &mut self.dice,
                wall: unix_ms(),
                records: &self.engine,
                out: &mut out,
            };
            match self.node.doubt_gaps(&gaps, &mut cx) {
                Ok(()) => self.input(Input::Timer(Timer::Store)),
                Err(_) => self.be_reborn(self.me.incarnation.saturating_add(1)),
            }
        }
        if self.away.is_none() && self.engine.trouble().is_some() {
            let mut out = Outbox::default();
            self.could_not_read(&mut out);
            let outputs: Vec<Output> = out.drain().collect();
            outputs.into_iter().for_each(|output| self.execute(output));
        }
        let every = u64::try_from(self.scrubs.every.as_millis()).unwrap_or(u64::MAX);
        let due = |scrub: Scrub| !scrub.running && unix_ms().saturating_sub(scrub.counted_from_ms) >= every;
        if every > 0 && self.away.is_none() && self.engine.scrub_report().is_some_and(due) {
            match self.scrub(None) {
                Ok(_) => tracing::info!("reading everything that is stored, in the background"),
                Err(error) => tracing::warn!(error, "cannot begin to read everything that is stored"),
            }
        }
    }

    /// Brings back a store that was away.
    fn look_after_store(&mut self) {
        let Some(away) = self.away else { return };
        match (self.engine.repaired(), away) {
            (Some(Ok(opened)), _) => {
                self.away = None;
                self.metrics.store_suspect.inc_by(u64::from(opened.suspect));
                tracing::warn!(
                    empty = opened.fresh,
                    gaps = self.engine.gaps().len(),
                    "the store is open again"
                );
                // As after a restart: nothing that was under way goes on.
                self.begin_anew(self.me.incarnation.saturating_add(1));
            }
            (Some(Err(error @ HomeError::Io { .. })), _) if error.is_full() => {
                let remedy = error.remedy();
                tracing::error!(%error, remedy, "no room to open the store: waiting for some");
                self.away = Some(Away::Full { since: self.now });
            }
            (Some(Err(error)), _) => {
                let what = format!("the store cannot be repaired: {error}; {}", error.remedy());
                tracing::error!(what, "the store failed");
                self.finish(Ending::Failed { what });
            }
            (None, Away::Full { since }) => {
                let roomy = self.room.as_ref().is_none_or(crate::engine::Room::enough);
                if !self.engine.is_in_repair() && roomy && self.now.since(since) >= PAUSE {
                    self.reopen(false);
                }
            }
            (None, Away::Repair) => {}
        }
    }

    /// Tells what is wrong with the disk, or was.
    pub(super) fn disk_report(&self) -> Option<Disk> {
        let damage = self.engine.damage()?;
        let state = match self.away {
            None => "ok",
            Some(Away::Repair) => "repair",
            Some(Away::Full { .. }) => "full",
        };
        (self.away.is_some() || *damage != Damage::default()).then(|| Disk {
            state: state.into(),
            repairs: damage.times,
            repaired_ms: damage.at_ms,
            files: damage.files.clone(),
            gaps: damage.gaps,
            lost_bytes: damage.bytes,
            lost_entries: damage.entries,
            kept: damage.kept.clone(),
            torn_bytes: damage.torn_bytes,
            lost: damage.lost.clone(),
        })
    }

    /// Tells a new node what the one before it knew.
    pub(super) fn tell_room(&mut self) {
        if self.room.as_ref().is_some_and(|room| !room.enough()) {
            self.soon.push_back(Input::Room { enough: false });
        }
    }

    /// Keeps the store beside an empty one, which a new life begins with.
    pub(super) fn set_store_aside(&mut self, why: &str) {
        self.away = None;
        match self.engine.set_aside(why) {
            Ok(_) => self.begin_anew(self.me.incarnation.saturating_add(1)),
            Err(error) => self.finish(Ending::Failed { what: error.to_string() }),
        }
    }

    /// Empties the store, for a life that must not be bound by what an earlier one kept.
    pub(super) fn forget_everything(&mut self) {
        self.away = None;
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
    use kringle_core::store::op::{Action, Ask, Level, Name};

    use super::super::testing::enter;
    use super::*;
    use crate::RequestError;
    use crate::handle::Handle;
    use crate::transport::mem::Hub;
    use crate::{Builder, StoreKind};

    /// Runs a test on one thread with a place for local tasks.
    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test ends in time");
        });
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
            // A number that the node does not use for its own.
            enter(&first, |driver| driver.execute(persist(1_000_000))).await;
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

    /// Waits until something holds of a node's driver.
    async fn until(node: &Handle, what: impl Fn(&mut Driver) -> bool + Clone + Send + 'static) {
        while !enter(node, what.clone()).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Flips a bit in the middle of every table of the space of records.
    fn damage(dir: &std::path::Path) -> usize {
        let tables = std::fs::read_dir(dir.join("store/keyspaces/1/tables")).unwrap();
        let damaged = tables.map(|table| {
            let path = table.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[1000] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        });
        damaged.count()
    }

    fn fill(ticket: u64) -> Output {
        let key = |at: u16| Bytes::from([&at.to_be_bytes()[..], &[0; 20]].concat());
        let put = |at| Write { space: Space::Data, key: key(at), value: Some(Bytes::from([7; 200])) };
        Output::Persist { ticket, writes: (0..300).map(|at| put(at * 200)).collect() }
    }

    #[test]
    fn a_damaged_block_costs_that_block_and_not_the_node() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let first = node(dir.path()).await;
            first.ready().await.unwrap();
            enter(&first, |driver| driver.execute(fill(1_000_000))).await;
            until(&first, |driver| driver.engine.figures().pending == 0).await;
            let born = enter(&first, |driver| {
                driver.engine.flush();
                driver.engine.born()
            });
            let born = born.await;
            assert_eq!(first.kill().await, Ending::Stopped);
            assert!(damage(dir.path()) > 0);
            // Found when it is read, here by a scrub: the node goes on.
            let second = node(dir.path()).await;
            enter(&second, |driver| drop(driver.scrub(Some(1 << 30)))).await;
            until(&second, |driver| driver.engine.damage().is_some_and(|damage| damage.times == 1)).await;
            second.ready().await.unwrap();
            let (again, away, has_store) =
                enter(&second, |driver| (driver.engine.born(), driver.away, driver.node.store().is_some()))
                    .await;
            assert_eq!((again, away, has_store), (born, None, true), "the same store");
            let found = enter(&second, |driver| {
                let mut found = 0;
                driver.engine.scan(Space::Data, &[], &[0xff; 32], &mut |_, _| {
                    found += 1;
                    true
                });
                found
            });
            let found = found.await;
            assert!((250..300).contains(&found), "{found} of 300 are left");
            let disk = second.summary().await.unwrap().disk.expect("it is told");
            assert_eq!((disk.state.as_str(), disk.repairs, disk.gaps), ("ok", 1, 1));
            assert!(disk.files[0].starts_with("store/keyspaces/1/tables/") && disk.lost_bytes > 1000);
            let metrics = second.metrics().await.unwrap();
            assert!(metrics.contains("kringle_store_repairs 1\n"), "{metrics}");
            // Found while it runs: by the database itself, for instance.
            let before = enter(&second, |driver| {
                driver.engine.break_database();
                driver.execute(persist(2_000_000));
                driver.me.incarnation
            });
            let before = before.await;
            until(&second, move |driver| driver.me.incarnation > before && driver.away.is_none()).await;
            second.ready().await.unwrap();
            assert!(enter(&second, |driver| driver.node.store().is_some()).await);
            second.stop().await;
        });
    }

    #[test]
    fn a_full_disk_is_waited_for() {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let full = node(dir.path()).await;
            full.ready().await.unwrap();
            let before = enter(&full, |driver| {
                driver.engine.fill_disk();
                driver.execute(persist(1_000_000));
                driver.me.incarnation
            });
            let before = before.await;
            until(&full, |driver| driver.away.is_some()).await;
            let (key, level) = (kringle_core::id::Key::new(7), Level::Quorum);
            let ask = Ask { name: Name { id: key, bytes: b"k".to_vec() }, action: Action::Get, level };
            let refused = full.store(ask, Duration::from_secs(2)).await;
            assert_eq!(
                refused.unwrap_err(),
                RequestError::Store(Trouble::NoSpace { happened: Happened::No }),
                "it can be tried again"
            );
            assert_eq!(full.summary().await.unwrap().disk.unwrap().state, "full");
            until(&full, move |driver| driver.me.incarnation > before && driver.away.is_none()).await;
            full.ready().await.unwrap();
            assert!(enter(&full, |driver| driver.node.store().is_some()).await);
            assert_eq!(full.summary().await.unwrap().disk, None);
            full.stop().await;
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
