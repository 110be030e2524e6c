//! Chord's bodies. The number of a question is in the header; the fields are those of the common list.

use super::body::{CONTACTS, Fields, KEY, SEEN, TAKEN, TARGET, VERSIONS, WHOLE, Writer, first};
use super::{AddressBook, DecodeError};
use crate::message::BodyKind;
use crate::overlay::chord::{Asker, Message};

/// Writes the fields and returns the number for the header.
pub(super) fn encode(message: &Message, out: &mut Writer<'_>) -> u32 {
    match message {
        Message::GetBestPredecessor { of, asker, .. } => {
            out.bytes(KEY, &of.to_bytes());
            out.number(WHOLE, (*asker == Asker::Client).into());
        }
        Message::GotBestPredecessor { node, .. } => out.contacts(TARGET, &[*node]),
        Message::GetSuccList { asker, .. } => out.number(WHOLE, (*asker == Asker::Client).into()),
        Message::GotSuccList { list, .. } | Message::Leaving { list } => out.contacts(CONTACTS, list),
        Message::GotPredAndSuccs { pred, list, .. } => {
            if let Some(pred) = pred {
                out.contacts(TARGET, &[*pred]);
            }
            out.contacts(CONTACTS, list);
        }
        Message::Referred { to, ring, .. } => {
            out.contacts(TARGET, &[*to]);
            out.number(WHOLE, (*ring).into());
        }
        Message::Seal { epoch, base, ring, list } => {
            out.number(VERSIONS, *epoch);
            out.number(SEEN, *base);
            out.number(WHOLE, (*ring).into());
            out.contacts(CONTACTS, list);
        }
        Message::Commit { epoch, ring, list } => {
            out.number(VERSIONS, *epoch);
            out.number(WHOLE, (*ring).into());
            out.contacts(CONTACTS, list);
        }
        Message::Sealed { epoch, agreed, ring } => {
            out.number(VERSIONS, *epoch);
            out.number(TAKEN, (*agreed).into());
            out.number(WHOLE, (*ring).into());
        }
        Message::GetPredAndSuccs { .. }
        | Message::Notify
        | Message::Busy { .. }
        | Message::Ping { .. }
        | Message::Pong { .. }
        | Message::Apply => {}
    }
    message.nonce().unwrap_or(0)
}

/// Reads a message of one of Chord's kinds.
pub(super) fn decode(
    kind: BodyKind,
    nonce: u32,
    fields: &Fields<'_>,
    book: &mut dyn AddressBook,
) -> Result<Message, DecodeError> {
    let flag = |field| match fields.number(field)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Malformed),
    };
    let asker = || flag(WHOLE).map(|client| if client { Asker::Client } else { Asker::Peer });
    Ok(match kind {
        BodyKind::GetBestPredecessor => {
            Message::GetBestPredecessor { nonce, of: fields.id(KEY)?, asker: asker()? }
        }
        BodyKind::GotBestPredecessor => {
            Message::GotBestPredecessor { nonce, node: first(fields.one(TARGET)?, book)? }
        }
        BodyKind::GetSuccList => Message::GetSuccList { nonce, asker: asker()? },
        BodyKind::GotSuccList => Message::GotSuccList { nonce, list: fields.list(CONTACTS)?.contacts(book) },
        BodyKind::GetPredAndSuccs => Message::GetPredAndSuccs { nonce },
        BodyKind::GotPredAndSuccs => {
            let pred = fields.optional(TARGET).map(|_| fields.one(TARGET)).transpose()?;
            let list = fields.list(CONTACTS)?;
            let pred = pred.map(|pred| first(pred, book)).transpose()?;
            Message::GotPredAndSuccs { nonce, pred, list: list.contacts(book) }
        }
        BodyKind::Notify => Message::Notify,
        BodyKind::Busy => Message::Busy { nonce },
        BodyKind::RingPing => Message::Ping { nonce },
        BodyKind::RingPong => Message::Pong { nonce },
        BodyKind::Leaving => Message::Leaving { list: fields.list(CONTACTS)?.contacts(book) },
        BodyKind::Apply => Message::Apply,
        BodyKind::Referred => {
            let ring = flag(WHOLE)?;
            Message::Referred { nonce, to: first(fields.one(TARGET)?, book)?, ring }
        }
        BodyKind::Seal => {
            let (epoch, base) = (fields.number(VERSIONS)?, fields.number(SEEN)?);
            let ring = flag(WHOLE)?;
            Message::Seal { epoch, base, ring, list: fields.list(CONTACTS)?.contacts(book) }
        }
        BodyKind::Sealed => {
            Message::Sealed { epoch: fields.number(VERSIONS)?, agreed: flag(TAKEN)?, ring: flag(WHOLE)? }
        }
        BodyKind::Commit => {
            let (epoch, ring) = (fields.number(VERSIONS)?, flag(WHOLE)?);
            Message::Commit { epoch, ring, list: fields.list(CONTACTS)?.contacts(book) }
        }
        _ => return Err(DecodeError::Malformed),
    })
}
