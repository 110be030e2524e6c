//! Who was promised what: a log of every acknowledged write, and whether what is there now keeps the promises.
//!
//! A load with a ledger writes each key from one place, one operation after the other, with a number that grows. So the
//! last acknowledged number says what a later read may find: that one, or a later one whose outcome is not known. A line
//! is on the disk before the next operation begins, so whoever is killed loses nothing but the line it had in hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use kringle_runtime::key::key_of;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::control::{Pending, Process};
use super::protocol::Ask;

/// Keys that are read with one question.
const PAGE: usize = 500;
/// How long one read of the verification may take.
const READ: Duration = Duration::from_secs(3);

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A put was acknowledged.
    Put,
    /// A delete was acknowledged.
    Delete,
    /// A delete is about to be asked for.
    Deleting,
    /// A get was answered as it should be.
    Get,
    /// A get was answered with something older than what this client knew.
    Stale,
    /// It is not known whether a write happened.
    Unknown,
    /// A write did not happen, and never will.
    Not,
    /// A get failed.
    Failed,
}

const KINDS: [(Kind, &str); 8] = [
    (Kind::Put, "put"),
    (Kind::Delete, "delete"),
    (Kind::Deleting, "deleting"),
    (Kind::Get, "get"),
    (Kind::Stale, "stale"),
    (Kind::Unknown, "unknown"),
    (Kind::Not, "not"),
    (Kind::Failed, "failed"),
];

/// One line: what became of an operation on the key with this number. Times are those of the machine's clock.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) key: u32,
    pub(crate) number: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Why it failed; no spaces.
    pub(crate) why: String,
}

impl Entry {
    fn line(&self) -> String {
        let kind = KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name);
        format!("{kind} {} {} {} {} {}\n", self.key, self.number, self.start, self.end, self.why)
    }

    fn parse(line: &str) -> Option<Entry> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let name = words.next()?;
        let kind = KINDS.iter().find(|(_, known)| *known == name)?.0;
        let mut number = || words.next()?.parse::<u64>().ok();
        let (key, number, start, end) = (number()?, number()?, number()?, number()?);
        let why = words.next().unwrap_or_default().to_string();
        Some(Entry { kind, key: u32::try_from(key).ok()?, number, start, end, why })
    }

    /// Says whether the store did what it was asked.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self.kind, Kind::Put | Kind::Delete | Kind::Get)
    }

    /// Says whether the store said that it did not, or did not say.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self.kind, Kind::Unknown | Kind::Not | Kind::Failed)
    }
}

/// Writes a ledger, on a thread of its own: the one of the node must not wait for the disk.
pub(crate) struct Ledger {
    lines: Sender<(String, oneshot::Sender<()>)>,
}

impl Ledger {
    /// Begins a ledger. The file must not exist.
    pub(crate) fn create(path: &Path, prefix: &str) -> std::io::Result<Ledger> {
        let mut file = File::create_new(path)?;
        file.write_all(format!("{prefix}\n").as_bytes())?;
        let (lines, told) = channel::<(String, oneshot::Sender<()>)>();
        std::thread::spawn(move || {
            while let Ok((mut text, first)) = told.recv() {
                let mut waiting = vec![first];
                while let Ok((line, next)) = told.try_recv() {
                    text.push_str(&line);
                    waiting.push(next);
                }
                if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_data()) {
                    eprintln!("the ledger can not be written: {error}");
                    // Whoever waits is not told that it was, and stops.
                    return;
                }
                for waiting in waiting {
                    // It may have gone away.
                    let _ = waiting.send(());
                }
            }
        });
        Ok(Ledger { lines })
    }

    /// Writes a line. Returns when it is on the disk, with `false` if it can not be written.
    pub(crate) async fn note(&self, entry: &Entry) -> bool {
        let (tell, told) = oneshot::channel();
        self.lines.send((entry.line(), tell)).is_ok() && told.await.is_ok()
    }
}

/// Returns the name of a key of a load.
pub(crate) fn name(prefix: &str, key: u32) -> String {
    format!("{prefix}/{key}")
}

/// Returns the value with this number: the number, then bytes that follow from the key and the number.
pub(crate) fn value(name: &str, number: u64, length: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    let filling = key_of(format!("{name} {number}")).to_bytes();
    value.extend(filling.iter().cycle().take(length.saturating_sub(8)));
    value
}

/// Returns the number of a value, and whether it is the whole value with that number.
pub(crate) fn number(name: &str, bytes: &[u8]) -> (u64, bool) {
    let number = bytes.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    (number, bytes == value(name, number, bytes.len()))
}

/// What a read found: the number of the value and whether it is whole, or no value; or why there was no answer.
pub(crate) type Fetched = Result<Option<(u64, bool)>, String>;

/// What was promised about one key.
#[derive(Clone, Debug, Default)]
struct Promise {
    /// The last acknowledged number, and whether it was a put.
    acked: Option<(u64, bool)>,
    /// The last number a delete was tried with.
    deleting: u64,
    /// Writes that were said not to have happened.
    not: BTreeSet<u64>,
}

/// What several ledgers say together.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    keys: BTreeMap<String, Promise>,
    /// Every line, with the full name of its key.
    pub(crate) entries: Vec<(String, Entry)>,
}

/// How promises were kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// Keys with an acknowledged write.
    pub(crate) keys: usize,
    /// Acknowledged, and absent or older now.
    pub(crate) lost: Vec<String>,
    /// Deleted, and here again.
    pub(crate) risen: Vec<String>,
    /// Not the bytes that were written, or a write that was said not to have happened.
    pub(crate) wrong: Vec<String>,
    /// No answer in time.
    pub(crate) unread: Vec<String>,
}

impl Verdict {
    /// Says what is broken, if anything is.
    pub(crate) fn check(&self) -> Result<(), String> {
        let parts = [&self.lost, &self.risen, &self.wrong, &self.unread];
        if parts.iter().all(|part| part.is_empty()) {
            return Ok(());
        }
        let some = |part: &Vec<String>| part.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let [lost, risen, wrong, unread] = parts.map(|part| format!("{}: {}", part.len(), some(part)));
        Err(format!("of {} keys, lost {lost}\nrisen {risen}\nwrong {wrong}\nunread {unread}", self.keys))
    }
}

impl Promises {
    /// Reads ledgers.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Promises, String> {
        let mut promises = Promises::default();
        for path in paths {
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let mut lines = text.split_inclusive('\n');
            let prefix = lines.next().unwrap_or_default().trim_end().to_string();
            // The last line may be half written by a process that was killed.
            for entry in lines.filter_map(Entry::parse) {
                promises.take(name(&prefix, entry.key), entry);
            }
        }
        Ok(promises)
    }

    fn take(&mut self, name: String, entry: Entry) {
        let promise = self.keys.entry(name.clone()).or_default();
        match entry.kind {
            Kind::Put => promise.acked = Some((entry.number, true)),
            Kind::Delete => promise.acked = Some((entry.number, false)),
            Kind::Deleting => promise.deleting = promise.deleting.max(entry.number),
            Kind::Not => drop(promise.not.insert(entry.number)),
            Kind::Get | Kind::Stale | Kind::Unknown | Kind::Failed => {}
        }
        self.entries.push((name, entry));
    }

    /// Returns the reads that went back in time, while the load ran.
    pub(crate) fn stale(&self) -> Vec<&(String, Entry)> {
        self.entries.iter().filter(|(_, entry)| entry.kind == Kind::Stale).collect()
    }

    /// Returns how many writes were acknowledged.
    pub(crate) fn acked(&self) -> usize {
        self.entries.iter().filter(|(_, entry)| matches!(entry.kind, Kind::Put | Kind::Delete)).count()
    }

    /// Returns the keys with an acknowledged write.
    pub(crate) fn names(&self) -> Vec<String> {
        self.keys
            .iter()
            .filter(|(_, promise)| promise.acked.is_some())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Judges what was found under a key.
    fn judge(&self, name: &str, found: Option<(u64, bool)>, verdict: &mut Verdict) {
        let Some(promise) = self.keys.get(name) else { return };
        let Some((acked, is_put)) = promise.acked else { return };
        match found {
            Some((number, false)) => verdict.wrong.push(format!("{name} has a damaged value, of {number}")),
            Some((number, true)) if promise.not.contains(&number) => {
                verdict.wrong.push(format!("{name} has {number}, which was said not to have happened"));
            }
            Some((number, true)) if is_put && number < acked => {
                verdict.lost.push(format!("{name} has {number}, not {acked}"));
            }
            Some((number, true)) if !is_put && number <= acked => {
                verdict.risen.push(format!("{name} has {number}, deleted with {acked}"));
            }
            None if is_put && promise.deleting < acked => {
                verdict.lost.push(format!("{name} is absent, not {acked}"));
            }
            _ => {}
        }
    }

    /// Reads every key with a quorum, from all these nodes in turn, until each has been read, and judges what was found.
    pub(crate) fn verify(&self, nodes: &[&Process], within: Duration) -> Verdict {
        let mut left = self.names();
        let mut verdict = Verdict { keys: left.len(), ..Verdict::default() };
        let start = Instant::now();
        for round in 0.. {
            let mut again = Vec::new();
            for (name, fetched) in read(nodes, round, &left) {
                match fetched {
                    Ok(found) => self.judge(&name, found, &mut verdict),
                    Err(why) => again.push((name, why)),
                }
            }
            if again.is_empty() {
                break;
            }
            if start.elapsed() > within {
                verdict.unread = again.into_iter().map(|(name, why)| format!("{name} ({why})")).collect();
                break;
            }
            left = again.into_iter().map(|(name, _)| name).collect();
            std::thread::sleep(Duration::from_millis(100));
        }
        verdict
    }

    /// Reads every key once, and judges the answers there are: while not everybody is there, errors are in order.
    /// Returns how many answers there were, too.
    pub(crate) fn glance(&self, nodes: &[&Process]) -> (usize, Verdict) {
        let names = self.names();
        let mut verdict = Verdict { keys: names.len(), ..Verdict::default() };
        let mut answers = 0;
        for (name, fetched) in read(nodes, 0, &names) {
            if let Ok(found) = fetched {
                answers += 1;
                self.judge(&name, found, &mut verdict);
            }
        }
        (answers, verdict)
    }
}

/// Reads keys with a quorum, each from one of these nodes: another one in every round.
fn read(nodes: &[&Process], round: usize, names: &[String]) -> Vec<(String, Fetched)> {
    let deadline_ms = u64::try_from(READ.as_millis()).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    let pages: Vec<&[String]> = names.chunks(PAGE).collect();
    for (at, pages) in pages.chunks(nodes.len()).enumerate() {
        let asked: Vec<(&[String], Pending)> = pages
            .iter()
            .enumerate()
            .map(|(of, page)| {
                let node = nodes[(at + of + round) % nodes.len()];
                (*page, node.begin(Ask::Fetch { keys: page.to_vec(), level: "quorum".into(), deadline_ms }))
            })
            .collect();
        for (page, pending) in asked {
            let answers: Vec<Fetched> = match pending.get(READ + super::control::SOON) {
                Ok(answers) => answers,
                Err(why) => page.iter().map(|_| Err(why.clone())).collect(),
            };
            found.extend(page.iter().cloned().zip(answers));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promises(lines: &str) -> Promises {
        let mut promises = Promises::default();
        for line in lines.split(';') {
            let entry = Entry::parse(&format!("{line} 1 2 \n")).expect("the test has good lines");
            promises.take(name("k", entry.key), entry);
        }
        promises
    }

    fn verdict(lines: &str, found: Option<(u64, bool)>) -> [usize; 3] {
        let mut verdict = Verdict::default();
        promises(lines).judge("k/1", found, &mut verdict);
        [verdict.lost.len(), verdict.risen.len(), verdict.wrong.len()]
    }

    #[test]
    fn promises_are_judged() {
        let some = |number| Some((number, true));
        assert_eq!(verdict("put 1 4", some(4)), [0; 3]);
        assert_eq!(verdict("put 1 4;unknown 1 5", some(5)), [0; 3]);
        assert_eq!(verdict("put 1 4", some(3)), [1, 0, 0]);
        assert_eq!(verdict("put 1 4", None), [1, 0, 0]);
        assert_eq!(verdict("put 1 4", Some((4, false))), [0, 0, 1]);
        assert_eq!(verdict("put 1 4;deleting 1 5", None), [0; 3]);
        assert_eq!(verdict("deleting 1 3;put 1 4", None), [1, 0, 0]);
        assert_eq!(verdict("put 1 4;deleting 1 5;delete 1 5", None), [0; 3]);
        assert_eq!(verdict("put 1 4;deleting 1 5;delete 1 5", some(4)), [0, 1, 0]);
        assert_eq!(verdict("put 1 4;deleting 1 5;delete 1 5", some(6)), [0; 3]);
        assert_eq!(verdict("put 1 4;not 1 5", some(5)), [0, 0, 1]);
        assert_eq!(verdict("unknown 1 5", None), [0; 3]);
    }

    #[test]
    fn values_know_their_number() {
        let bytes = value("k/1", 7, 40);
        assert_eq!((bytes.len(), number("k/1", &bytes)), (40, (7, true)));
        assert_eq!(number("k/2", &bytes), (7, false));
        let mut damaged = bytes;
        damaged[30] ^= 1;
        assert_eq!(number("k/1", &damaged), (7, false));
    }

    #[test]
    fn lines_that_are_half_written_are_left_out() {
        let entry =
            Entry { kind: Kind::Unknown, key: 3, number: 9, start: 1, end: 2, why: "Timeout/Unknown".into() };
        let line = entry.line();
        let again = Entry::parse(&line).expect("it was just written");
        assert_eq!((again.kind, again.key, again.number, again.end), (Kind::Unknown, 3, 9, 2));
        assert_eq!(again.why, entry.why);
        assert!((0..line.len()).all(|cut| Entry::parse(&line[..cut]).is_none()));
    }
}
