//! The seven properties of a Chord ring, looked at in a cluster that runs: five that always hold, two that come to hold in
//! peace.
//!
//! Nodes are asked while they go on, so what is put together was never quite so at one moment. A property that seems
//! broken is therefore looked at once more, from new answers, before it is called so.

use std::time::Duration;

use kringle_core::config::OverlayKind;
use kringle_core::contact::{Addr, Contact};
use kringle_core::id::NodeId;
use kringle_core::overlay::chord::Chord;
use kringle_core::overlay::chord::properties::{self, ALWAYS, EVENTUALLY};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::describe;
use crate::error::RequestError;
use crate::handle::Handle;
use crate::report::{Property, RingCheck};

/// What a Chord node believes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Belief {
    me: Pointer,
    large: bool,
    r: u8,
    pred: Option<Pointer>,
    list: Vec<Pointer>,
    /// With those in doubt.
    extended: Vec<Pointer>,
    /// The list of all members, in a small group.
    epoch: u32,
    members: Vec<Pointer>,
}

/// A life of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pointer {
    id: String,
    incarnation: u32,
}

impl Pointer {
    fn of(contact: &Contact) -> Pointer {
        Pointer { id: contact.id.to_string(), incarnation: contact.incarnation }
    }

    /// `None`: no id at all. The properties do not look at addresses.
    fn contact(&self) -> Option<Contact> {
        Some(Contact::new(self.id.parse().ok()?, self.incarnation, Addr(0)))
    }
}

impl Belief {
    pub(crate) fn of(chord: &Chord, me: Contact, r: u8) -> Belief {
        let all = |list: &[Contact]| list.iter().map(Pointer::of).collect();
        let (ring, large) = (chord.ring(), chord.is_large());
        Belief {
            me: Pointer::of(&me),
            large: large && ring.joined(),
            r,
            pred: ring.pred().as_ref().map(Pointer::of),
            list: all(ring.succ_list()),
            extended: all(&ring.extended()),
            epoch: chord.forming().epoch(),
            members: if large { Vec::new() } else { all(chord.forming().members()) },
        }
    }
}

/// The properties of a ring, as far as these nodes tell.
fn judge(beliefs: &[Belief]) -> Vec<Property> {
    let contacts = |list: &[Pointer]| list.iter().filter_map(Pointer::contact).collect::<Vec<_>>();
    let rows = |list: fn(&Belief) -> &[Pointer]| {
        let large = beliefs.iter().filter(|belief| belief.large);
        let row = |belief: &Belief| {
            let pred = belief.pred.as_ref().and_then(Pointer::contact);
            Some((belief.me.contact()?, pred, contacts(list(belief))))
        };
        large.filter_map(row).collect::<Vec<_>>()
    };
    // Whoever is silent is still believed to come next.
    let (extended, plain) = (rows(|belief| &belief.extended), rows(|belief| &belief.list));
    let (always, eventually) = (views(&extended), views(&plain));
    let r = beliefs.iter().map(|belief| usize::from(belief.r)).max().unwrap_or(0);
    let mut properties: Vec<Property> = ALWAYS
        .iter()
        .map(|(name, holds)| Property { name: (*name).into(), always: true, holds: holds(&always) })
        .collect();
    properties.extend(EVENTUALLY.iter().map(|(name, holds)| Property {
        name: (*name).into(),
        always: false,
        holds: holds(&eventually, r),
    }));
    // A small group has no ring; what it comes to have is one list.
    let small: Vec<&Belief> = beliefs.iter().filter(|belief| !belief.large).collect();
    let same =
        small.windows(2).all(|pair| (pair[0].epoch, &pair[0].members) == (pair[1].epoch, &pair[1].members));
    let all = small.first().is_none_or(|first| first.members.len() == beliefs.len());
    properties.push(Property {
        name: "all go by one ring or one list".into(),
        always: false,
        holds: same && all,
    });
    properties
}

fn views(rows: &[(Contact, Option<Contact>, Vec<Contact>)]) -> Vec<properties::View<'_>> {
    rows.iter()
        .map(|(contact, pred, list)| properties::View {
            contact: *contact,
            pred: *pred,
            succ_list: list,
            joined: true,
        })
        .collect()
}

impl Handle {
    /// Chord: asks everybody whom it believes to be before and after it, and says which of the properties of a ring hold.
    ///
    /// At most `most` nodes are asked, until `deadline`.
    pub async fn check_ring(&self, most: usize, deadline: Duration) -> Result<RingCheck, RequestError> {
        let overlay = self.look(|view| view.config.overlay).await?;
        if overlay != OverlayKind::Chord {
            return Err(RequestError::WrongOverlay);
        }
        let end = Instant::now() + deadline;
        let check = self.check_once(most, end).await?;
        match check.properties.iter().any(|property| property.always && !property.holds) {
            true => self.check_once(most, end).await,
            false => Ok(check),
        }
    }

    async fn check_once(&self, most: usize, end: Instant) -> Result<RingCheck, RequestError> {
        let left = || end.saturating_duration_since(Instant::now());
        let survey = self.survey(most, left()).await?;
        let ids: Vec<NodeId> = survey.nodes.iter().filter_map(|node| node.id.parse().ok()).collect();
        let mut asking = JoinSet::new();
        for id in ids {
            let (handle, wait) = (self.clone(), left());
            asking.spawn(async move { (id, handle.belief_of(id, wait).await) });
        }
        let (mut beliefs, mut silent) = (Vec::new(), survey.silent);
        while let Some(answer) = asking.join_next().await {
            match answer {
                Ok((_, Ok(belief))) => beliefs.push(belief),
                Ok((_, Err(RequestError::Gone))) => return Err(RequestError::Gone),
                Ok((id, Err(_))) => silent.push(id.to_string()),
                Err(_) => {}
            }
        }
        beliefs.sort_by(|a, b| a.me.id.cmp(&b.me.id));
        let ring = beliefs.iter().filter(|belief| belief.large).count();
        let (nodes, cut) = (beliefs.len(), survey.cut);
        Ok(RingCheck { by: self.id().to_string(), nodes, ring, silent, cut, properties: judge(&beliefs) })
    }

    async fn belief_of(&self, id: NodeId, deadline: Duration) -> Result<Belief, RequestError> {
        if id == self.id() {
            return self.look(|view| view.belief()).await?.ok_or(RequestError::WrongOverlay);
        }
        describe::read(self.describe(id, describe::RING, deadline).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kringle_core::id::Id;

    fn pointer(i: u32) -> Pointer {
        Pointer { id: Id::new(u128::from(i) << 100).to_string(), incarnation: 1 }
    }

    fn member(i: u32, pred: u32, list: &[u32]) -> Belief {
        let list: Vec<Pointer> = list.iter().copied().map(pointer).collect();
        let (me, pred, extended) = (pointer(i), Some(pointer(pred)), list.clone());
        Belief { me, large: true, r: 2, pred, list, extended, epoch: 0, members: Vec::new() }
    }

    fn broken(beliefs: &[Belief]) -> Vec<String> {
        judge(beliefs).into_iter().filter(|property| !property.holds).map(|property| property.name).collect()
    }

    #[test]
    fn an_ideal_ring_has_all_properties_and_each_fault_breaks_its_own() {
        let ideal = [member(1, 3, &[2, 3]), member(2, 1, &[3, 1]), member(3, 2, &[1, 2])];
        assert_eq!(broken(&ideal), [""; 0]);
        let mut wrong = ideal.clone();
        wrong[0].pred = Some(pointer(2));
        assert_eq!(broken(&wrong), ["correct node data", "ideal ring"]);
        let two = [member(1, 2, &[2]), member(2, 1, &[1]), member(3, 4, &[4]), member(4, 3, &[3])];
        assert!(broken(&two).contains(&"at most one ring".to_owned()));
        let mut backwards = ideal.clone();
        backwards[1].extended.reverse();
        assert!(broken(&backwards).contains(&"ordered successor lists".to_owned()));
        let mut lost = ideal.clone();
        (lost[0].list, lost[0].extended) = (vec![pointer(9)], vec![pointer(9)]);
        assert!(broken(&lost).contains(&"connected appendages".to_owned()));
        assert!(broken(&lost).contains(&"at least one ring".to_owned()));
    }

    #[test]
    fn a_small_group_is_one_list_and_not_half_a_ring() {
        let all: Vec<Pointer> = [1, 2, 3].map(pointer).to_vec();
        let small = |i, epoch| Belief { large: false, epoch, members: all.clone(), ..member(i, i, &[]) };
        assert_eq!(broken(&[small(1, 4), small(2, 4), small(3, 4)]), [""; 0]);
        let one = ["all go by one ring or one list"];
        assert_eq!(broken(&[small(1, 4), small(2, 3), small(3, 4)]), one);
        assert_eq!(broken(&[small(1, 4), small(2, 4)]), one, "the third has gone on");
    }
}
