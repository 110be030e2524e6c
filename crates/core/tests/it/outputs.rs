//! Picking out of a node's outputs what a test looks at.

use kringle_core::contact::Contact;
use kringle_core::edge::{Event, Failure, Note, Output, Refusal, Reply};
use kringle_core::message::{Body, Nonce, Routed};
use kringle_core::overlay::pastry::{Announce, LeafProbe, Message, StateRequest};

/// Everything handed to the network, forwards of applications' messages included.
pub(crate) fn sent(outputs: &[Output]) -> Vec<(Contact, Body)> {
    let message = |output: &Output| match output {
        Output::Send { to, body, .. } => Some((*to, body.clone())),
        Output::Forward { to, routed } => Some((*to, Body::Routed(Routed::clone(routed)))),
        _ => None,
    };
    outputs.iter().filter_map(message).collect()
}

/// What was sent to one peer.
pub(crate) fn sent_to(outputs: &[Output], peer: Contact) -> Vec<Body> {
    sent(outputs).into_iter().filter(|(to, _)| *to == peer).map(|(_, body)| body).collect()
}

/// Says whether an output goes to this peer.
pub(crate) fn is_to(output: &Output, peer: Contact) -> bool {
    matches!(output, Output::Send { to, .. } | Output::Forward { to, .. } if *to == peer)
}

/// The routed messages sent, with their next hops.
pub(crate) fn routed(outputs: &[Output]) -> Vec<(Contact, Routed)> {
    let routed = |(to, body)| match body {
        Body::Routed(routed) => Some((to, routed)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(routed).collect()
}

/// The one routed message among the outputs, which must go to this peer.
pub(crate) fn routed_to(outputs: &[Output], peer: Contact) -> Routed {
    let [(to, routed)]: [(Contact, Routed); 1] = routed(outputs).try_into().expect("one routed message");
    assert_eq!(to, peer);
    routed
}

/// The pings sent, with their nonces.
pub(crate) fn pings(outputs: &[Output]) -> Vec<(Contact, Nonce)> {
    let ping = |(to, body)| match body {
        Body::Ping(nonce) => Some((to, nonce)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(ping).collect()
}

/// The nonce of the one ping to this peer.
pub(crate) fn ping_to(outputs: &[Output], peer: Contact) -> Nonce {
    let mut nonces = pings(outputs).into_iter().filter(|(to, _)| *to == peer);
    let nonce = nonces.next().unwrap_or_else(|| panic!("no ping to {peer:?} in {outputs:?}")).1;
    assert_eq!(nonces.next(), None);
    nonce
}

/// The leaf probes sent.
pub(crate) fn leaf_probes(outputs: &[Output]) -> Vec<(Contact, LeafProbe)> {
    let probe = |(to, body)| match body {
        Body::Pastry(Message::LeafProbe(probe)) => Some((to, *probe)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(probe).collect()
}

/// The one leaf probe to this peer.
pub(crate) fn leaf_probe_to(outputs: &[Output], peer: Contact) -> LeafProbe {
    let mut probes = leaf_probes(outputs).into_iter().filter(|(to, _)| *to == peer);
    let probe = probes.next().unwrap_or_else(|| panic!("no leaf probe to {peer:?} in {outputs:?}")).1;
    assert_eq!(probes.next(), None);
    probe
}

/// The peers probed in either way, in order of their ids.
pub(crate) fn probed(outputs: &[Output]) -> Vec<Contact> {
    let leaf_probes = leaf_probes(outputs).into_iter().map(|(to, _)| to);
    let mut probed: Vec<Contact> = pings(outputs).into_iter().map(|(to, _)| to).chain(leaf_probes).collect();
    probed.sort();
    probed
}

/// The announcements sent.
pub(crate) fn announces(outputs: &[Output]) -> Vec<(Contact, Announce)> {
    let announce = |(to, body)| match body {
        Body::Pastry(Message::Announce(announce)) => Some((to, announce)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(announce).collect()
}

/// The state requests sent.
pub(crate) fn requests(outputs: &[Output]) -> Vec<(Contact, StateRequest)> {
    let request = |(to, body)| match body {
        Body::Pastry(Message::StateRequest(request)) => Some((to, *request)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(request).collect()
}

/// The one state request among the outputs.
pub(crate) fn request_in(outputs: &[Output]) -> (Contact, StateRequest) {
    let [request]: [(Contact, StateRequest); 1] =
        requests(outputs).try_into().unwrap_or_else(|_| panic!("not one request: {outputs:?}"));
    request
}

pub(crate) fn notes(outputs: &[Output]) -> Vec<Note> {
    let note = |output: &Output| match output {
        Output::Note(note) => Some(*note),
        _ => None,
    };
    outputs.iter().filter_map(note).collect()
}

pub(crate) fn count(outputs: &[Output], note: Note) -> usize {
    notes(outputs).into_iter().filter(|other| *other == note).count()
}

pub(crate) fn events(outputs: &[Output]) -> Vec<Event> {
    let event = |output: &Output| match output {
        Output::Event(event) => Some(event.clone()),
        _ => None,
    };
    outputs.iter().filter_map(event).collect()
}

pub(crate) fn replies(outputs: &[Output]) -> Vec<(u64, Result<Reply, Failure>)> {
    let reply = |output: &Output| match output {
        Output::Reply { request, reply } => Some((request.0, reply.clone())),
        _ => None,
    };
    outputs.iter().filter_map(reply).collect()
}

/// The messages given to the application.
pub(crate) fn delivered(outputs: &[Output]) -> Vec<Routed> {
    let routed = |output: &Output| match output {
        Output::Deliver { routed, .. } => Some(Routed::clone(routed)),
        _ => None,
    };
    outputs.iter().filter_map(routed).collect()
}

pub(crate) fn refusals(outputs: &[Output]) -> Vec<Refusal> {
    let refusal = |note| match note {
        Note::Refused(refusal) => Some(refusal),
        _ => None,
    };
    notes(outputs).into_iter().filter_map(refusal).collect()
}
