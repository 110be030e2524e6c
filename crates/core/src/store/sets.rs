//! Writes to sets: the set is made before its first value, and a value goes into the set there is.

use super::Store;
use super::coding::Shared;
use super::coordinating::nonce;
use super::message::{Message, Response, Step, Verdict};
use super::op::{Action, Ask, Happened, Trouble};
use super::operation::{HEAD, Stage, Then, ends};
use super::record::{Cell, Kind, Record};
use super::version::Version;
use crate::config::Safeguard;
use crate::edge::Ctx;
use crate::id::NodeId;
use crate::overlay::Routes;

/// Says whether a set was last agreed on long before an add was asked for. A delete of unknown outcome from that time may
/// still come, and would take the added value with it: so the set is agreed on once more, under a version that is later than
/// such a delete.
pub(super) fn is_stale(head: &Record, asked: Version, cx: &Ctx<'_>) -> bool {
    cx.config.rule(Safeguard::FreshSets)
        && head.ballot().wall().saturating_add(Store::ahead(cx)) < asked.wall()
}

impl Store {
    /// Adds to a set, or removes from it.
    pub(super) fn change_set(
        &mut self,
        id: u32,
        ask: &Ask,
        head: Option<Record>,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(op) = self.ops.get(&id) else { return };
        let (version, origin, number, at) = (op.version, op.origin, op.slot, op.at);
        let time = self.time(cx);
        let head_cell = Cell::of(&ask.name);
        let live = head.as_ref().filter(|head| head.is_live(time));
        let adds = matches!(ask.action, Action::Add { .. });
        let there = live.filter(|head| head.kind() == Kind::Set);
        let set = there.filter(|head| !adds || !is_stale(head, version, cx));
        let Some((set, agreed)) = set.map(|head| (head.set(), head.ballot())) else {
            if !adds || (live.is_some() && there.is_none()) {
                // Before saying no, see what a quorum has.
                return self.read(id, head_cell, head, true, ring, cx);
            }
            // The set is made first, if there really is nothing; or agreed on once more.
            let line = self.lines.entry(head_cell.clone()).or_default();
            if !line.contains(&id) {
                line.push_back(id);
            }
            if line.front() == Some(&id) {
                self.prepare_ballot(id, head_cell, ring, cx);
            }
            return;
        };
        if version.0 < set {
            // The set is younger than the request, which may have been done before the set was made.
            return self.close(id, Response::Outdated(Version(set)), ring, cx);
        }
        let digest = match &ask.action {
            Action::Add { digest, .. } | Action::Remove { digest } => *digest,
            _ => return,
        };
        let cell = Cell::member(&ask.name, digest);
        let Ok(held) = self.held(&cell, cx) else { return self.doubt(number, cx) };
        let there = held.as_ref().is_some_and(|held| held.is_live(time) && held.set() == set);
        let mut value = set.to_be_bytes().to_vec();
        let (record, created) = match &ask.action {
            Action::Add { value: bytes, ttl, .. } => {
                let (values, size) = self.set_size(&ask.name, set, cx);
                if !there && values >= cx.config.set_max {
                    return self.fail(id, Trouble::TooLarge { limit: cx.config.set_max }, ring, cx);
                }
                if !there && size + bytes.len() as u64 > u64::from(cx.config.value_max) {
                    return self.fail(id, Trouble::TooLarge { limit: cx.config.value_max }, ring, cx);
                }
                value.extend_from_slice(bytes);
                (Record::make(&cell, Kind::Member, version, origin, ends(*ttl, at), &value), !there)
            }
            _ => (Record::make(&cell, Kind::MemberGone, version, origin, 0, &value), there),
        };
        let then = Then::Changed { created, number: None, ballot: false };
        self.write_plain(id, cell, record, Some((set, adds.then_some(agreed))), then, held, ring, cx);
    }

    /// A member has another record for the key of a set.
    pub(super) fn other_set(
        &mut self,
        id: u32,
        from: NodeId,
        head: Option<Shared>,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(op) = self.ops.get(&id) else { return };
        let (number, epoch, attempt) = (op.slot, op.epoch, op.attempt);
        let cell = Cell::of(&op.ask.name);
        let Stage::Writing { items, .. } = &op.stage else { return };
        let Some((set, asked)) = items.first().and_then(|item| item.set) else { return };
        let theirs = head.and_then(|bytes| Record::read(&cell, &bytes.0).ok());
        let Ok(Some(mine)) = self.held(&cell, cx) else { return };
        let rank = theirs.as_ref().map(Record::rank).unwrap_or_default();
        let later = theirs.filter(|theirs| theirs.rank() > mine.rank());
        let newest = later.as_ref().unwrap_or(&mine);
        if newest.kind() != Kind::Set || newest.set() != set {
            // We have missed that the set is gone, and taken the value ourselves. It may have been seen since: nobody may
            // write it anew.
            let trouble = self.too_few(id, Happened::Unknown);
            return self.fail(id, trouble, ring, cx);
        }
        let agreed = newest.ballot();
        if asked.is_none_or(|asked| asked == agreed) {
            if rank < mine.rank() {
                // It has missed the set, or that it was agreed on once more.
                let nonce = nonce(id, attempt, HEAD);
                let record = Shared(mine.bytes().clone());
                let step = Step::Accept { cell, record, set: None, agreed: None };
                self.send(from, Message::Do { nonce, slot: number, epoch, step }, ring, cx);
            }
            return;
        }
        // We have missed that it was agreed on once more: that ballot is what members must have, this one first.
        if let Some(later) = later {
            let record = Shared(later.bytes().clone());
            let step = Step::Accept { cell, record, set: None, agreed: None };
            if self.perform(number, epoch, &step, cx).0 != Verdict::Taken {
                return;
            }
        }
        if let Some(Stage::Writing { items, .. }) = self.ops.get_mut(&id).map(|op| &mut op.stage) {
            items.iter_mut().for_each(|item| item.set = Some((set, Some(agreed))));
        }
        self.begin_again(id, ring, cx);
    }
}
