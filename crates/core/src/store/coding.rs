//! How the parts of store messages that have no encoding of their own are written.

use alloc::sync::Arc;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write as Out};
use minicbor::{CborLen, Decode, Decoder, Encode, Encoder};

use super::version::Version;
use crate::id::Id;

impl<C> Encode<C> for Id {
    fn encode<W: Out>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.to_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Id {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Id, DecodeError> {
        Id::from_bytes(d.bytes()?).map_err(|_| DecodeError::message("an id has 16 bytes"))
    }
}

impl<C> Encode<C> for Version {
    fn encode<W: Out>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.u64(self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Version {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Version, DecodeError> {
        d.u64().map(Version)
    }
}

/// A sum over records, 128 bits: the checksum of one, or all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sum(pub u128);

impl Sum {
    /// Adds a record, or takes it away again.
    pub(crate) fn mix(&mut self, other: Sum) {
        self.0 ^= other.0;
    }
}

impl<C> Encode<C> for Sum {
    fn encode<W: Out>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.0.to_be_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Sum {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Sum, DecodeError> {
        let bytes = d.bytes()?.try_into().map_err(|_| DecodeError::message("a sum has 16 bytes"))?;
        Ok(Sum(u128::from_be_bytes(bytes)))
    }
}

/// Bytes that are shared, not copied.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared(pub Arc<[u8]>);

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl<C> Encode<C> for Shared {
    fn encode<W: Out>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.bytes(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Shared {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Shared, DecodeError> {
        Ok(Shared(d.bytes()?.into()))
    }
}

impl<C> CborLen<C> for Shared {
    fn cbor_len(&self, _: &mut C) -> usize {
        self.0.len() + 5
    }
}

/// Spans of time, in whole milliseconds.
pub(crate) mod millis {
    use core::time::Duration;

    use super::{DecodeError, Decoder, EncodeError, Encoder, Out};

    pub(crate) fn encode<C, W: Out>(
        span: &Option<Duration>,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        match span {
            None => e.null()?.ok(),
            Some(span) => e.u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))?.ok(),
        }
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Option<Duration>, DecodeError> {
        if d.datatype()? == minicbor::data::Type::Null {
            return d.null().map(|()| None);
        }
        d.u64().map(|ms| Some(Duration::from_millis(ms)))
    }
}

/// A place on the ring and a key there.
pub(crate) mod position {
    use alloc::vec::Vec;

    use super::{Decode, DecodeError, Decoder, Encode, EncodeError, Encoder, Id, Out};

    pub(crate) fn encode<C, W: Out>(
        position: &Option<(Id, Vec<u8>)>,
        e: &mut Encoder<W>,
        cx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        let Some((id, key)) = position else { return e.null()?.ok() };
        e.array(2)?;
        id.encode(e, cx)?;
        e.bytes(key)?.ok()
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, cx: &mut C) -> Result<Option<(Id, Vec<u8>)>, DecodeError> {
        if d.datatype()? == minicbor::data::Type::Null {
            return d.null().map(|()| None);
        }
        if d.array()? != Some(2) {
            return Err(DecodeError::message("a position has two parts"));
        }
        Ok(Some((Id::decode(d, cx)?, d.bytes()?.to_vec())))
    }
}
