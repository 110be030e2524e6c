//! What tests of leases share: a node between two neighbours, and the messages it exchanges with them.

use kringle_core::config::{Ownership, Settings};
use kringle_core::contact::Contact;
use kringle_core::edge::Output;
use kringle_core::id::NodeId;
use kringle_core::message::{Body, Nonce};
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{Flank, LeaseRecall, LeaseReply, LeaseRequest, Message};
use kringle_core::time::Time;

use crate::harness::*;

pub(crate) const ME: u32 = 0x8000_0000;
/// The neighbours on either side.
pub(crate) const LEFT: u32 = 0x7000_0000;
pub(crate) const RIGHT: u32 = 0x9000_0000;
/// Somebody who would be a neighbour instead.
pub(crate) const NEARER_LEFT: u32 = 0x7800_0000;
pub(crate) const NEARER_RIGHT: u32 = 0x8800_0000;
/// Those beyond the neighbours.
pub(crate) const FAR_LEFT: u32 = 0x6000_0000;
pub(crate) const FAR_RIGHT: u32 = 0xa000_0000;

/// Leases of ten seconds, two clocks one per cent apart, no background work.
pub(crate) fn leased() -> Settings {
    Settings { ownership: Ownership::Lease, ..calm() }
}

pub(crate) fn ask(nonce: Nonce, side: Flank, holds: u32, leaves: &[Contact]) -> Message {
    Message::LeaseRequest(Box::new(LeaseRequest { nonce, side, holds, leaves: leaves.to_vec(), same: false }))
}

pub(crate) fn answer(nonce: Nonce, granted: bool, holds: u32, leaves: &[Contact]) -> Message {
    Message::LeaseReply(Box::new(LeaseReply { nonce, granted, holds, leaves: leaves.to_vec(), same: false }))
}

pub(crate) fn recall(nonce: Nonce, side: Flank, nearer: Contact) -> Message {
    Message::LeaseRecall(Box::new(LeaseRecall { nonce, side, nearer }))
}

pub(crate) fn give_back(nonce: Nonce, nearer: Option<NodeId>) -> Message {
    Message::LeaseReturn { nonce, nearer }
}

/// The lease requests sent.
pub(crate) fn asked(outputs: &[Output]) -> Vec<(Contact, LeaseRequest)> {
    let request = |(to, body)| match body {
        Body::Pastry(Message::LeaseRequest(request)) => Some((to, *request)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(request).collect()
}

/// Who was asked for a lease, and for which side.
pub(crate) fn asked_whom(outputs: &[Output]) -> Vec<(Contact, Flank)> {
    asked(outputs).into_iter().map(|(to, request)| (to, request.side)).collect()
}

/// The one lease request to this peer.
pub(crate) fn asked_of(outputs: &[Output], peer: Contact) -> LeaseRequest {
    let mut requests = asked(outputs).into_iter().filter(|(to, _)| *to == peer);
    let request = requests.next().unwrap_or_else(|| panic!("no request to {peer:?} in {outputs:?}")).1;
    assert_eq!(requests.next(), None);
    request
}

/// The one answer to a lease request.
pub(crate) fn answered(outputs: &[Output], peer: Contact) -> LeaseReply {
    let reply = |body| match body {
        Body::Pastry(Message::LeaseReply(reply)) => Some(*reply),
        _ => None,
    };
    let replies: Vec<LeaseReply> = sent_to(outputs, peer).into_iter().filter_map(reply).collect();
    let [reply] = replies.try_into().unwrap_or_else(|_| panic!("not one reply to {peer:?}: {outputs:?}"));
    reply
}

/// The recalls sent.
pub(crate) fn recalls(outputs: &[Output]) -> Vec<(Contact, LeaseRecall)> {
    let recall = |(to, body)| match body {
        Body::Pastry(Message::LeaseRecall(recall)) => Some((to, *recall)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(recall).collect()
}

/// The leases given back.
pub(crate) fn returns(outputs: &[Output]) -> Vec<(Contact, Nonce, Option<NodeId>)> {
    let given = |(to, body)| match body {
        Body::Pastry(Message::LeaseReturn { nonce, nearer }) => Some((to, nonce, nearer)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(given).collect()
}

/// The obituaries sent: to whom, about whom.
pub(crate) fn obituaries(outputs: &[Output]) -> Vec<(Contact, Contact)> {
    let obituary = |(to, body)| match body {
        Body::Pastry(Message::Obituary(dead)) => Some((to, dead)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(obituary).collect()
}

/// Until when the deliveries may be executed.
pub(crate) fn not_after(outputs: &[Output]) -> Vec<Option<Time>> {
    let limit = |output: &Output| match output {
        Output::Deliver { not_after, .. } => Some(*not_after),
        _ => None,
    };
    outputs.iter().filter_map(limit).collect()
}

impl Driver {
    /// A node that knows its neighbours and has just asked them for leases. Returns the questions, too.
    pub(crate) fn asking(me: Contact, others: &[Contact], settings: Settings) -> (Driver, Vec<Output>) {
        let (&root, leaves) = others.split_last().expect("somebody to join through");
        let (mut driver, routed) = Driver::joining(me, root, settings);
        let outputs = driver.hear(root, join_reply(&routed, true, leaves));
        let outputs = driver.answer_probes(outputs);
        assert_eq!(driver.node.status(), Status::Ok);
        (driver, outputs)
    }

    /// A ready node with leases of both neighbours, asked for at this very moment.
    pub(crate) fn entitled(me: Contact, others: &[Contact], settings: Settings) -> Driver {
        let (mut driver, outputs) = Driver::asking(me, others, settings);
        driver.grant_all(&outputs);
        assert_eq!(driver.node.status(), Status::Ready);
        assert!(driver.delivers());
        driver
    }

    /// The node between its two neighbours.
    pub(crate) fn between() -> Driver {
        Driver::entitled(peer(ME), &[LEFT, RIGHT].map(peer), leased())
    }

    /// Grants every lease asked for among the outputs.
    pub(crate) fn grant_all(&mut self, outputs: &[Output]) -> Vec<Output> {
        let mut result = Vec::new();
        for (to, request) in asked(outputs) {
            result.extend(self.hear_pastry(to, answer(request.nonce, true, 0, &[])));
        }
        result
    }

    /// Lets time pass with neighbours that grant every renewal, answer every probe, and say nothing else.
    pub(crate) fn live(&mut self, millis: u64) -> Vec<Output> {
        self.live_without(millis, &[])
    }

    /// The same, but these peers are silent.
    pub(crate) fn live_without(&mut self, span: u64, silent: &[Contact]) -> Vec<Output> {
        let mut result = Vec::new();
        for _ in 0..span.div_ceil(10) {
            let mut outputs = self.wait(millis(10));
            while !outputs.is_empty() {
                let mut next = Vec::new();
                for (to, body) in sent(&outputs).into_iter().filter(|(to, _)| !silent.contains(to)) {
                    if let Some(answer) = answer_to(&body) {
                        next.extend(self.hear(to, answer));
                    }
                    if let Body::Pastry(Message::LeaseRequest(request)) = body {
                        next.extend(self.hear_pastry(to, answer(request.nonce, true, 0, &[])));
                    }
                }
                result.append(&mut outputs);
                outputs = next;
            }
        }
        result
    }

    /// A peer asks for a lease. Returns the answer.
    pub(crate) fn request(&mut self, from: u32, nonce: Nonce, side: Flank) -> LeaseReply {
        let outputs = self.hear_pastry(peer(from), ask(nonce, side, 0, &[]));
        answered(&outputs, peer(from))
    }

    /// Whether the node would deliver for its own id.
    pub(crate) fn delivers(&self) -> bool {
        self.node.delivers(self.node.me().id, self.now, &self.config)
    }

    /// Lets time pass during which the node does not run, then fires what is due.
    pub(crate) fn stop_for(&mut self, millis: u64) -> Vec<Output> {
        self.now = self.now.after(self::millis(millis));
        self.wait(self::millis(0))
    }
}
