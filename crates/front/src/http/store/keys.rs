//! A walk over the keys, and where the copies of one are.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use futures_util::future::join_all;
use kringle_core::id::Key;
use kringle_core::store::op::{Action, Ask, CopyAt, Found, Level, Listed, Name};
use kringle_core::store::version::Version;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::input::{Limits, Reading, ask, level, limits, name};
use super::output::{Counts, Ends, text_of, unfitting};
use crate::errors::{Kind, Problem};
use crate::glob::Glob;
use crate::http::answer::{Answer, document};
use crate::http::input::{Params, Span, deadline};
use crate::http::router::Shared;
use crate::store::Data;
use crate::text::Bytes;

/// How many keys a page has if the request does not say.
pub const PAGE: u32 = 100;
/// How many keys a page has at most.
pub const PAGE_MAX: u32 = 1000;
/// How many keys one request looks at, whether they fit or not.
const VISITED_MAX: usize = 10_000;
/// How many times one request asks the store: once for each slot of the ring, if they are as many as usual.
const ASKS_MAX: usize = 8192;
/// How many slots are asked at the same time, if they have few keys.
const ABREAST: usize = 64;
/// How many steps one request spends on its pattern.
const STEPS_MAX: u64 = 10_000_000;

/// Parameters of a walk.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Walk {
    /// Read again from the path, as bytes.
    #[serde(rename = "match")]
    pattern: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
    #[serde(alias = "deadline")]
    timeout: Option<Span>,
}

/// Lists keys in the order of their places, from a cursor on.
///
/// The walk ends with a cursor when the page is full, and also when enough keys were looked at or time is running out:
/// a page may be short, or empty, and still not be the last.
pub(in crate::http) async fn list(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Walk>,
    uri: Uri,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    let deadline = deadline(params.timeout)?;
    let limit = match params.limit.unwrap_or(PAGE) {
        limit @ 1..=PAGE_MAX => limit,
        _ => return Err(Problem::bad(format!("limit must be 1 to {PAGE_MAX}"))),
    };
    let glob = match &params.pattern {
        None => None,
        Some(_) => Some(
            Glob::new(raw(&uri, b"match").unwrap_or_default())
                .map_err(|error| Problem::bad(error.to_string()))?,
        ),
    };
    let from = match params.cursor.as_deref() {
        None | Some("") => Cursor::START,
        Some(text) => Cursor::read(text, limits)?,
    };
    let walker = Walker { data: &data, glob, limit: limit as usize, slots: limits.slots };
    let found = walker.walk(from, deadline).await?;
    let keys = found.keys.iter().map(Shown::of).collect();
    document("kringle.keys/1", Page { keys, cursor: found.next.map(|next| next.text()) })
}

#[derive(Serialize)]
struct Page {
    keys: Vec<Shown>,
    cursor: Option<String>,
}

/// A key in a list.
#[derive(Serialize)]
struct Shown {
    key: Bytes,
    kind: &'static str,
    version: Option<String>,
    #[serde(flatten)]
    ends: Ends,
}

impl Shown {
    fn of(listed: &Listed) -> Shown {
        Shown {
            key: Bytes::new(&listed.name.bytes),
            kind: if listed.is_set { "set" } else { "value" },
            version: text_of(listed.version),
            ends: Ends::of(listed.expires),
        }
    }
}

/// Where a walk is: a place, and the last key there that was seen. It is all there is to know, so a walk can go on at
/// any node and after any time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursor {
    place: Key,
    after: Vec<u8>,
}

impl Cursor {
    const START: Cursor = Cursor { place: Key::ZERO, after: Vec::new() };

    /// Writes it: the digits of the place, then those of the key.
    fn text(&self) -> String {
        let digits = self.after.iter().map(|byte| format!("{byte:02x}"));
        format!("{}{}", self.place, digits.collect::<String>())
    }

    fn read(text: &str, limits: Limits) -> Result<Cursor, Problem> {
        let bad = || {
            Problem::bad("the cursor is not one that a page of keys ended with; leave it out to begin again")
        };
        if !text.is_ascii()
            || text.len() < 32
            || text.len() > 32 + 2 * limits.key
            || !text.len().is_multiple_of(2)
        {
            return Err(bad());
        }
        let (place, after) = text.split_at(32);
        let byte = |pair: &[u8]| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()
        };
        let after: Option<Vec<u8>> = after.as_bytes().chunks(2).map(byte).collect();
        Ok(Cursor { place: place.parse().map_err(|_| bad())?, after: after.ok_or_else(bad)? })
    }
}

/// Goes from slot to slot. The store answers for one at a time, and most are nearly empty, so several are asked ahead;
/// an answer counts only if the one before it ends where it begins.
struct Walker<'a> {
    data: &'a Data,
    glob: Option<Glob>,
    limit: usize,
    slots: u32,
}

/// What a walk came to.
struct Walked {
    keys: Vec<Listed>,
    next: Option<Cursor>,
}

impl Walker<'_> {
    async fn walk(&self, mut at: Cursor, deadline: Duration) -> Result<Walked, Problem> {
        let end = Instant::now() + deadline;
        let (mut keys, mut visited, mut steps, mut asked, mut abreast) = (Vec::new(), 0, 0, 0, 1);
        while asked < ASKS_MAX {
            // A part of the deadline is kept for the answer; the first round gets what there is.
            let left = end.saturating_duration_since(Instant::now());
            if asked > 0 && left < deadline / 4 {
                break;
            }
            let wanted = if self.glob.is_some() { PAGE_MAX as usize } else { self.limit - keys.len() };
            let spots = spots(&at, self.slots, abreast);
            let pages = join_all(spots.iter().map(|spot| self.page(spot, wanted, left))).await;
            let before = visited;
            for (spot, page) in spots.into_iter().zip(pages) {
                if spot != at {
                    break;
                }
                let (page, next) = match page {
                    Ok(page) => page,
                    // What was found before is worth having; whoever goes on from there is told what is wrong then.
                    Err(_) if asked > 0 => return Ok(Walked { keys, next: Some(at) }),
                    Err(problem) => return Err(problem),
                };
                asked += 1;
                for listed in page {
                    visited += 1;
                    at = Cursor { place: listed.name.id, after: listed.name.bytes.clone() };
                    if self.fits(&listed, &mut steps) {
                        keys.push(listed);
                    }
                    if keys.len() == self.limit || visited == VISITED_MAX || steps > STEPS_MAX {
                        return Ok(Walked { keys, next: Some(at) });
                    }
                }
                match next {
                    None => return Ok(Walked { keys, next: None }),
                    Some(next) => at = next,
                }
            }
            let few = (visited - before) * 2 < wanted;
            abreast = if few { (abreast * 2).min(ABREAST) } else { (abreast / 2).max(1) };
            // A pattern on a thread that serves others too: let them in between.
            tokio::task::yield_now().await;
        }
        Ok(Walked { keys, next: Some(at) })
    }

    async fn page(
        &self,
        at: &Cursor,
        wanted: usize,
        left: Duration,
    ) -> Result<(Vec<Listed>, Option<Cursor>), Problem> {
        let name = Name { id: at.place, bytes: Vec::new() };
        let limit = u32::try_from(wanted).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let action = Action::Keys { after: at.after.clone(), limit };
        match ask(self.data, Ask { name, action, level: Level::Quorum }, left).await?.found {
            Found::Keys { keys, next } => Ok((keys, next.map(|(place, after)| Cursor { place, after }))),
            _ => Err(unfitting()),
        }
    }

    fn fits(&self, listed: &Listed, steps: &mut u64) -> bool {
        let Some(glob) = &self.glob else { return true };
        let (fits, spent) = glob.judge(&listed.name.bytes);
        *steps += spent;
        fits
    }
}

/// Returns where to ask: here, and at the beginnings of the slots after it.
fn spots(at: &Cursor, slots: u32, count: usize) -> Vec<Cursor> {
    // A node of one slot has no bits to shift by.
    let Some(width) = 128_u32.checked_sub(slots.max(1).ilog2()).filter(|width| *width < 128) else {
        return vec![at.clone()];
    };
    let (slot, after) = (u128::from_be_bytes(at.place.to_bytes()) >> width, u128::from(slots));
    let starts = (slot + 1..after).map(|slot| Cursor { place: Key::new(slot << width), after: Vec::new() });
    [at.clone()].into_iter().chain(starts).take(count).collect()
}

/// Reads a parameter as bytes. Texts would lose what is not UTF-8, and keys are any bytes.
fn raw(uri: &Uri, name: &[u8]) -> Option<Vec<u8>> {
    let decode =
        |text: &str| -> Vec<u8> { percent_encoding::percent_decode_str(&text.replace('+', " ")).collect() };
    let pairs = uri.query().unwrap_or("").split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .map(|(found, value)| (decode(found), value))
        .find(|(found, _)| found == name)
        .map(|(_, value)| decode(value))
}

/// Says where the copies of a key are, and whether they agree.
pub(in crate::http) async fn place(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Reading>,
    uri: Uri,
) -> Answer {
    #[derive(Serialize)]
    struct Placed {
        key: Bytes,
        id: String,
        slot: u32,
        epoch: u64,
        version: Option<String>,
        agree: usize,
        copies: Vec<Copy>,
        #[serde(flatten)]
        counts: Counts,
    }
    let limits = limits(&shared, &data).await?;
    let (name, deadline) = (name(&uri, limits)?, deadline(params.timeout)?);
    let question = Ask { name: name.clone(), action: Action::Place, level: level(params.r) };
    let done = ask(&data, question, deadline).await?;
    let counts = Counts::of(&done);
    let Found::Place { slot, epoch, copies } = done.found else { return Err(unfitting()) };
    let newest = copies.iter().filter_map(|copy| copy.version).max();
    let newest = newest.ok_or_else(|| {
        Problem::new(Kind::TooFewReplicas, "none of the copies answered").with("outcome", "none")
    })?;
    let agree = copies.iter().filter(|copy| copy.version == Some(newest)).count();
    let placed = Placed {
        key: Bytes::new(&name.bytes),
        id: name.id.to_string(),
        slot,
        epoch,
        version: text_of(newest),
        agree,
        copies: copies.iter().map(|copy| Copy::of(copy, newest)).collect(),
        counts,
    };
    Ok(counts.told(document("kringle.place/1", placed)?))
}

/// A copy in a document.
#[derive(Serialize)]
struct Copy {
    node: String,
    state: &'static str,
    version: Option<String>,
}

impl Copy {
    fn of(copy: &CopyAt, newest: Version) -> Copy {
        let state = match copy.version {
            None => "silent",
            Some(version) if version == newest => "ok",
            Some(Version::ZERO) => "missing",
            Some(_) => "behind",
        };
        Copy { node: copy.node.to_string(), state, version: copy.version.and_then(text_of) }
    }
}

#[cfg(test)]
mod tests {
    use kringle_core::id::Id;

    use super::*;

    const LIMITS: Limits = Limits { key: 4, value: 4, slots: 4096 };

    #[test]
    fn a_cursor_comes_back_as_it_was_written() {
        for after in [&b""[..], b"a", b"\x00\xff\x10z"] {
            let cursor = Cursor { place: Id::new(0xabc), after: after.to_vec() };
            assert_eq!(Cursor::read(&cursor.text(), LIMITS), Ok(cursor));
        }
        let place = "0123456789abcdef0123456789abcdef";
        let long = format!("{place}{}", "61".repeat(5));
        for bad in [
            "x",
            "0123",
            &place[1..],
            &format!("{place}6"),
            &format!("{place}6g"),
            &long,
            "\u{e9}",
            &format!("+{}", &place[1..]),
        ] {
            assert_eq!(Cursor::read(bad, LIMITS).unwrap_err().code(), "KR0400", "{bad}");
        }
    }

    #[test]
    fn the_slots_ahead_are_asked_where_they_begin() {
        let at = Cursor { place: Id::new(0xfd12 << 112), after: b"k".to_vec() };
        let places = |slots, count| -> Vec<String> {
            spots(&at, slots, count)
                .iter()
                .skip(1)
                .map(|spot| spot.place.to_string()[..4].to_owned())
                .collect()
        };
        assert_eq!(places(256, 9), ["fe00", "ff00"]);
        assert_eq!(places(256, 2), ["fe00"]);
        assert_eq!(places(4096, 3), ["fd20", "fd30"]);
        assert_eq!(places(1, 9), [""; 0]);
        assert_eq!(spots(&at, 256, 9)[0], at);
    }

    #[test]
    fn patterns_are_read_as_bytes() {
        let of = |path: &str| raw(&path.parse().unwrap(), b"match");
        assert_eq!(of("/v1/keys?limit=1&match=a%ff*").unwrap(), b"a\xff*");
        assert_eq!(of("/v1/keys?match=a+b%2B").unwrap(), b"a b+");
        assert_eq!(of("/v1/keys?match").unwrap(), b"");
        assert_eq!(of("/v1/keys"), None);
    }
}
