//! Whether a node can do its part: the causes a load balancer or an orchestrator should know of.

use kringle_core::overlay::Status;
use serde::{Deserialize, Serialize};

use crate::clock::unix_ms;
use crate::describe::{View, status_text};

/// What keeps a node from being ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// It has no place in a ring.
    Ring,
    /// Its disk has no room.
    Disk,
    /// Its clock is off, or it has not compared clocks yet.
    Clock,
    /// It has yet to get records of slots it is to hold.
    Slots,
    /// Most of its slots have no quorum.
    Quorum,
}

/// One cause, with the values involved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Which.
    pub lack: Lack,
    /// In words.
    pub text: String,
}

/// Returns a time span as people write it.
pub(crate) fn seconds(millis: i64) -> String {
    format!("{}.{:01} s", millis.unsigned_abs() / 1000, millis.unsigned_abs() % 1000 / 100)
}

impl View<'_> {
    /// Returns why this node is not ready; empty: it is.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes = Vec::new();
        let mut add = |lack, text| causes.push(Cause { lack, text });
        let status = self.node.status();
        if let Some(disk) = self.disk.as_ref().filter(|disk| disk.state != "ok") {
            add(Lack::Disk, format!("the store is away ({}): see `kringle node self`", disk.state));
        }
        let Some(store) = self.node.store() else {
            if status != Status::Ready {
                add(Lack::Ring, format!("not part of a ring; the status is {}", status_text(status)));
            }
            return causes;
        };
        // The store does not wait for leases.
        if !matches!(status, Status::Ok | Status::Ready) {
            add(Lack::Ring, format!("not part of a ring; the status is {}", status_text(status)));
        }
        let survey = store.survey();
        if !survey.has_room {
            add(Lack::Disk, "the disk is full (KR0507): free some space".into());
        }
        let clock = store.clock_view(self.now, unix_ms());
        let ahead = i64::try_from(self.config.clock_ahead.as_millis()).unwrap_or(i64::MAX);
        match clock.off.filter(|off| off.abs() > ahead) {
            Some(off) => add(Lack::Clock, clock_text(off, clock.clocks)),
            None if !clock.settled => {
                add(Lack::Slots, "clocks have not been compared with other members yet".into());
            }
            None => {}
        }
        let unready = store.unready(self.node.routes(), self.now, self.config);
        if unready.behind > 0 || unready.awaited > 0 {
            let (behind, awaited) = (unready.behind, unready.awaited);
            add(Lack::Slots, format!("slots not caught up: {behind}, still to come: {awaited}"));
        }
        if unready.no_quorum * 2 > survey.slots {
            let (missing, slots) = (unready.no_quorum, survey.slots);
            add(Lack::Quorum, format!("no quorum for {missing} of {slots} slots this node holds"));
        }
        causes
    }
}

/// Says how far a wall clock is off.
pub(crate) fn clock_text(off: i64, clocks: u32) -> String {
    let way = if off > 0 { "ahead of" } else { "behind" };
    format!(
        "the wall clock is {} {way} the median of {} clocks: set it, best with NTP",
        seconds(off),
        clocks + 1
    )
}
