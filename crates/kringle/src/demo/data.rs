//! The store at the prompt.

use std::ffi::OsStr;
use std::time::{Duration, Instant, SystemTime};

use kringle::{CopyState, Lifetime, Node, RequestError, StoreError, Stored};
use kringle_front::glob::Glob;
use kringle_front::text;
use serde_json::json;

use super::ring::Ring;
use crate::duration;
use crate::failure::Failure;
use crate::show::count;
use crate::show::store::{self as paper, Copy, Done};

/// How long a question may take. Longer than it takes to get over a crash.
const WAIT: Duration = Duration::from_secs(10);
/// Keys that are listed at most, and that are looked at for it.
const LISTED: usize = 100;
const VISITED: usize = 100_000;

/// What can be done with the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Put(String, String),
    Get(String),
    Add(String, String),
    /// A key, or one value of a set.
    Del(String, Option<String>),
    /// Shows, sets, or with `Some(None)` clears.
    Ttl(String, Option<Option<Duration>>),
    Incr(String, i64),
    /// Those that fit a pattern, or all.
    Keys(Option<String>),
    Place(String),
}

/// Does it, at this node.
pub(crate) async fn grant(wish: Wish, node: &Node, ring: &Ring) -> Result<String, Failure> {
    let start = Instant::now();
    match wish {
        Wish::Put(key, value) => {
            let written = node.put(&key, value).within(WAIT).await.map_err(refused)?;
            Ok(line(Done::of("stored", OsStr::new(&key), start).version(), &written))
        }
        Wish::Add(key, value) => {
            let written = node.add(&key, value).within(WAIT).await.map_err(refused)?;
            let verb = if written.created { "added" } else { "there already" };
            Ok(line(Done::of(verb, OsStr::new(&key), start), &written))
        }
        Wish::Get(key) => get(&key, node).await,
        Wish::Del(key, value) => {
            let removed = match value {
                None => node.delete(&key).within(WAIT).await,
                Some(value) => node.remove(&key, value).within(WAIT).await,
            };
            let removed = removed.map_err(refused)?;
            let verb = if removed.existed { "deleted" } else { "was not there" };
            let counts = json!({ "acked": removed.copies.acked, "replicas": removed.copies.all, "hops": removed.hops });
            Ok(Done::of(verb, OsStr::new(&key), start).line(&counts) + "\n")
        }
        Wish::Ttl(key, wish) => ttl(&key, wish, node).await,
        Wish::Incr(key, by) => {
            let counted = node.increment(&key, by).within(WAIT).await.map_err(refused)?;
            Ok(format!("{}\n", counted.number))
        }
        Wish::Keys(pattern) => keys(pattern, node).await,
        Wish::Place(key) => {
            let place = node.place(&key).within(WAIT).await.map_err(refused)?;
            let newest = place.copies.iter().filter_map(|copy| version(copy.state)).max();
            let copies = place.copies.iter().map(|copy| {
                let id = copy.node.to_string();
                let state = match copy.state {
                    CopyState::Silent => "silent",
                    state if version(state) == newest => "ok",
                    CopyState::Nothing => "missing",
                    CopyState::At(_) => "behind",
                };
                let version = version(copy.state).map(|version| version.to_string());
                Copy { name: ring.name_of(&id), node: id, state: state.into(), version }
            });
            Ok(paper::place(&copies.collect::<Vec<_>>(), false))
        }
    }
}

fn version(state: CopyState) -> Option<kringle::Version> {
    match state {
        CopyState::At(version) => Some(version),
        CopyState::Silent | CopyState::Nothing => None,
    }
}

fn line(done: Done<'_>, written: &kringle::Written) -> String {
    let document = json!({
        "version": written.version.to_string(),
        "acked": written.copies.acked,
        "replicas": written.copies.all,
        "hops": written.hops,
    });
    done.line(&document) + "\n"
}

/// Reads a value; a set has several.
async fn get(key: &str, node: &Node) -> Result<String, Failure> {
    let show = |stored: &Stored| format!("{}\n", text::line(&stored.value));
    match node.get(key).within(WAIT).await {
        Ok(Some(stored)) => Ok(show(&stored)),
        Ok(None) => Err(refused(StoreError::NotFound)),
        Err(StoreError::WrongKind) => {
            let values = node.values(key).within(WAIT).await.map_err(refused)?;
            Ok(values.iter().map(show).collect())
        }
        Err(error) => Err(refused(error)),
    }
}

async fn ttl(key: &str, wish: Option<Option<Duration>>, node: &Node) -> Result<String, Failure> {
    let start = Instant::now();
    let Some(wish) = wish else {
        return match node.ttl(key).within(WAIT).await.map_err(refused)? {
            Lifetime::Absent => Err(refused(StoreError::NotFound)),
            Lifetime::Endless => Ok("stays\n".into()),
            Lifetime::Until(until) => {
                let left = until.duration_since(SystemTime::now()).unwrap_or_default();
                Ok(format!("{}\n", duration::rough(left)))
            }
        };
    };
    let request = match wish {
        Some(ttl) => node.expire(key, ttl),
        None => node.persist(key),
    };
    let written = request.within(WAIT).await.map_err(refused)?;
    let verb = if wish.is_some() { "changed" } else { "stays" };
    Ok(line(Done::of(verb, OsStr::new(key), start).until(wish).version(), &written))
}

async fn keys(pattern: Option<String>, node: &Node) -> Result<String, Failure> {
    let glob = pattern
        .map(Glob::new)
        .transpose()
        .map_err(|error| Failure::usage(error.to_string(), "Write a pattern like: keys user:*"))?;
    let (mut out, mut listed, mut visited) = (String::new(), 0, 0);
    let mut page = node.keys().within(WAIT).await.map_err(refused)?;
    loop {
        for found in &page.keys {
            visited += 1;
            if glob.as_ref().is_none_or(|glob| glob.matches(&found.key)) {
                out.push_str(&format!("{}\n", text::line(&found.key)));
                listed += 1;
            }
            if listed == LISTED || visited == VISITED {
                out.push_str("... and maybe more\n");
                return Ok(out);
            }
        }
        let Some(next) = page.next else { break };
        page = node.keys().from(next).within(WAIT).await.map_err(refused)?;
    }
    Ok(if out.is_empty() { format!("none of {}\n", count(visited, "key")) } else { out })
}

fn refused(error: StoreError) -> Failure {
    let remedy = match &error {
        StoreError::NotFound => "'keys' lists those there are; 'put KEY TEXT' makes one.",
        StoreError::WrongKind => {
            "A key has one value (put) or a set (add); 'del KEY' makes room for the other."
        }
        StoreError::BadRequest => "Write some text for the key, and a time to live longer than nothing.",
        StoreError::OutOfRange => "Count by less.",
        StoreError::TooLarge { .. } => "Store less.",
        StoreError::Request(RequestError::NoStore) => "This demo has none.",
        _ => "The ring may be healing; look with 'status', and read before you write again.",
    };
    Failure::failed(error.to_string(), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_says_what_to_do() {
        for (error, word) in [
            (StoreError::NotFound, "put KEY TEXT"),
            (StoreError::WrongKind, "del KEY"),
            (StoreError::Busy, "status"),
            (StoreError::Request(RequestError::NoStore), "none"),
        ] {
            assert!(refused(error).to_string().contains(word));
        }
    }
}
