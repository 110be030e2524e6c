//! What can happen next, and how it is written in a schedule.

use std::fmt;
use std::str::FromStr;

use kringle_core::edge::Timer;
use kringle_core::message::BodyKind;

/// One step of a world. Nodes are named by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A message arrives.
    Deliver(Flight),
    /// A message is lost.
    Lose(Flight),
    /// A message will arrive twice.
    Double(Flight),
    /// Time passes until a timer is due, and it fires.
    Fire(u8, Timer),
    /// A node starts a ring of its own.
    Create(u8),
    /// A node joins through the ready nodes.
    Join(u8),
    /// A node says goodbye.
    Leave(u8),
    /// A node stops without a word.
    Crash(u8),
    /// A crashed node starts again with the next incarnation, and joins.
    Restart(u8),
    /// A node is stopped in its tracks.
    Pause(u8),
    /// A paused node goes on.
    Resume(u8),
    /// The first falsely begins to find the second dead: somebody tells it so, and its own ping is lost.
    Suspect(u8, u8),
    /// The link between two nodes is cut, both ways.
    Cut(u8, u8),
    /// All links of a node are cut.
    CutOff(u8),
    /// All links are mended.
    Mend,
    /// The ends of all cut links talk through a third node.
    Relay,
    /// A node's user sends the message of the plan.
    Route(u8),
    /// A node's driver makes the call of the application it was asked to make.
    Upcall(u8),
}

/// A message in flight: the nth of this kind, in the order they were sent, between these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Sent from here.
    pub from: u8,
    /// For this node.
    pub to: u8,
    /// What kind of message.
    pub kind: BodyKind,
    /// Which of several, from 1.
    pub nth: u8,
}

impl fmt::Display for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} {}", self.from, self.to, self.kind.name())?;
        if self.nth > 1 { write!(f, " #{}", self.nth) } else { Ok(()) }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Deliver(flight) => write!(f, "deliver {flight}"),
            Action::Lose(flight) => write!(f, "lose {flight}"),
            Action::Double(flight) => write!(f, "double {flight}"),
            Action::Fire(node, timer) => write!(f, "fire {node} {}", timer.name()),
            Action::Create(node) => write!(f, "create {node}"),
            Action::Join(node) => write!(f, "join {node}"),
            Action::Leave(node) => write!(f, "leave {node}"),
            Action::Crash(node) => write!(f, "crash {node}"),
            Action::Restart(node) => write!(f, "restart {node}"),
            Action::Pause(node) => write!(f, "pause {node}"),
            Action::Resume(node) => write!(f, "resume {node}"),
            Action::Suspect(by, of) => write!(f, "suspect {by} {of}"),
            Action::Cut(a, b) => write!(f, "cut {a} {b}"),
            Action::CutOff(node) => write!(f, "cut-off {node}"),
            Action::Mend => write!(f, "mend"),
            Action::Relay => write!(f, "relay"),
            Action::Route(node) => write!(f, "route {node}"),
            Action::Upcall(node) => write!(f, "upcall {node}"),
        }
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Action, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || format!("{text:?} is no step of a schedule");
        let node = |word: &str| word.parse::<u8>().map_err(|_| wrong());
        let flight = |words: &[&str]| -> Result<Flight, String> {
            let (from, to, kind, nth) = match *words {
                [from, "->", to, kind] => (from, to, kind, "#1"),
                [from, "->", to, kind, nth] => (from, to, kind, nth),
                _ => return Err(wrong()),
            };
            let kind = BodyKind::ALL.iter().find(|known| known.name() == kind).ok_or_else(wrong)?;
            let nth = nth.strip_prefix('#').and_then(|nth| nth.parse().ok()).ok_or_else(wrong)?;
            Ok(Flight { from: node(from)?, to: node(to)?, kind: *kind, nth })
        };
        match *words.as_slice() {
            ["deliver", ref rest @ ..] => Ok(Action::Deliver(flight(rest)?)),
            ["lose", ref rest @ ..] => Ok(Action::Lose(flight(rest)?)),
            ["double", ref rest @ ..] => Ok(Action::Double(flight(rest)?)),
            ["fire", at, timer] => {
                let timer = Timer::ALL.iter().find(|known| known.name() == timer).ok_or_else(wrong)?;
                Ok(Action::Fire(node(at)?, *timer))
            }
            ["create", at] => Ok(Action::Create(node(at)?)),
            ["join", at] => Ok(Action::Join(node(at)?)),
            ["leave", at] => Ok(Action::Leave(node(at)?)),
            ["crash", at] => Ok(Action::Crash(node(at)?)),
            ["restart", at] => Ok(Action::Restart(node(at)?)),
            ["pause", at] => Ok(Action::Pause(node(at)?)),
            ["resume", at] => Ok(Action::Resume(node(at)?)),
            ["suspect", by, of] => Ok(Action::Suspect(node(by)?, node(of)?)),
            ["cut", a, b] => Ok(Action::Cut(node(a)?, node(b)?)),
            ["cut-off", at] => Ok(Action::CutOff(node(at)?)),
            ["mend"] => Ok(Action::Mend),
            ["relay"] => Ok(Action::Relay),
            ["route", at] => Ok(Action::Route(node(at)?)),
            ["upcall", at] => Ok(Action::Upcall(node(at)?)),
            _ => Err(wrong()),
        }
    }
}
