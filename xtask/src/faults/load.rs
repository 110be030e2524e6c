//! Clients that write and read while something is broken, and a ledger of what was acknowledged.
//!
//! Every key has one writer at a time, and its value says which write it is from: a reader knows whether what it got is
//! older than what was acknowledged before it asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::{Client, Reply, wait_for};
use super::ring::Ring;

/// The deadline of every operation.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);
/// How long a key is left alone after a write with an unknown outcome: clock-ahead (5 s) and the deadline, so that the
/// unknown write cannot replace a later one (docs/store.md, Outcomes).
const UNKNOWN_REST: Duration = Duration::from_secs(8);
/// So long without a failed operation, and all is served again.
const STREAK: Duration = Duration::from_secs(10);
/// Keys that are incremented, and sets that are added to.
const HOT: usize = 20;

/// How much is done per second, by how many clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    pub(super) clients: usize,
    pub(super) keys: usize,
    pub(super) value_bytes: usize,
    pub(super) writes: u32,
    pub(super) reads: u32,
    pub(super) increments: u32,
    pub(super) adds: u32,
    pub(super) lookups: u32,
}

/// L1 at a fifth of its rate: 200 operations per second. Clients wait for answers, so there are enough of them to keep
/// the rate when many wait for their deadline.
pub(super) const L1: Profile = Profile {
    clients: 64,
    keys: 2_000,
    value_bytes: 1_024,
    writes: 40,
    reads: 160,
    increments: 0,
    adds: 0,
    lookups: 20,
};

/// L2: as L1, and increments and additions to sets on a few hot keys.
pub(super) const L2: Profile = Profile { increments: 10, adds: 10, ..L1 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Read,
    Increment,
    Add,
    Lookup,
}

/// One operation that has ended.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// When it began, since the load did.
    pub(super) at: Duration,
    pub(super) took: Duration,
    /// The node that was asked.
    pub(super) node: usize,
    pub(super) kind: Kind,
    /// `None`: it was served.
    pub(super) error: Option<String>,
    /// The key of a write or read.
    pub(super) key: Option<usize>,
    /// It was served, or the node answered with an error that says what became of it. Of a lookup: its answer is final.
    pub(super) stated: bool,
}

#[derive(Debug)]
struct Entry {
    issued: u64,
    acked: u64,
    is_busy: bool,
    rest_until: Instant,
}

#[derive(Debug, Default)]
struct Hot {
    /// Numbers that increments were answered with.
    numbers: Vec<i64>,
    unknown: usize,
    added: BTreeSet<String>,
    next: u64,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    stop: AtomicBool,
    profile: Profile,
    targets: Mutex<Vec<(usize, String)>>,
    ledger: Vec<Mutex<Entry>>,
    hot: Vec<Mutex<Hot>>,
    samples: Mutex<Vec<Sample>>,
    faults: Mutex<Found>,
}

/// What the ledger has shown to be wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Acknowledged and at the end absent or older.
    pub(super) lost: usize,
    /// Reads older than a write that was acknowledged before them.
    pub(super) stale: usize,
    /// Values that were never written.
    pub(super) wrong: usize,
    /// Increments that were answered with the same number, or counters that do not add up.
    pub(super) miscounted: usize,
    /// Acknowledged additions that are missing from their set.
    pub(super) missing: usize,
    /// Keys that could not be read at the end.
    pub(super) unread: usize,
    /// The first few, in words.
    pub(super) examples: Vec<String>,
}

impl Found {
    fn example(&mut self, text: String) {
        if self.examples.len() < 5 {
            self.examples.push(text);
        }
    }
}

/// Operations of some time, added up.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    pub(super) operations: usize,
    pub(super) errors: usize,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// When the last operation that failed ended, since the load began.
    pub(super) last_error: Option<Duration>,
    pub(super) causes: BTreeMap<String, usize>,
}

impl Window {
    pub(super) fn percent(&self) -> f64 {
        if self.operations == 0 { 100.0 } else { self.errors as f64 * 100.0 / self.operations as f64 }
    }

    /// Writes the share of errors with its cause.
    pub(super) fn text(&self) -> String {
        let causes: Vec<String> =
            self.causes.iter().map(|(cause, count)| format!("{count}x {cause}")).take(3).collect();
        let causes = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) };
        format!("{:.2} % of {}{causes}", self.percent(), self.operations)
    }

    fn of<'a>(samples: impl Iterator<Item = &'a Sample>) -> Window {
        let mut window = Window::default();
        let mut times = Vec::new();
        for sample in samples {
            window.operations += 1;
            times.push(sample.took);
            if let Some(cause) = &sample.error {
                window.errors += 1;
                *window.causes.entry(cause.clone()).or_default() += 1;
                window.last_error = window.last_error.max(Some(sample.at + sample.took));
            }
        }
        times.sort_unstable();
        let rank = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
        (window.p50, window.p99) = (rank(0.5), rank(0.99));
        window
    }
}

/// Clients at work. They stop when this is dropped.
#[derive(Debug)]
pub(super) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Writes every key once, then starts the clients. They ask the running nodes of the ring.
    pub(super) fn start(ring: &Ring, profile: Profile) -> Result<Load, String> {
        let now = Instant::now();
        let entry = || Mutex::new(Entry { issued: 0, acked: 0, is_busy: false, rest_until: now });
        let shared = Arc::new(Shared {
            start: now,
            stop: AtomicBool::new(false),
            profile,
            targets: Mutex::new(Vec::new()),
            ledger: (0..profile.keys).map(|_| entry()).collect(),
            hot: (0..HOT).map(|_| Mutex::default()).collect(),
            samples: Mutex::default(),
            faults: Mutex::default(),
        });
        let mut load = Load { shared, threads: Vec::new() };
        load.aim(ring, &ring.running());
        load.fill()?;
        for client in 0..profile.clients {
            let shared = Arc::clone(&load.shared);
            load.threads.push(std::thread::spawn(move || shared.work(client as u64)));
        }
        Ok(load)
    }

    /// Lets clients ask these nodes from now on.
    pub(super) fn aim(&self, ring: &Ring, nodes: &[usize]) {
        *lock(&self.shared.targets) = nodes.iter().map(|at| (*at, ring.url(*at))).collect();
    }

    /// Returns the time since the load began.
    pub(super) fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// Adds up the operations that began in a time.
    pub(super) fn window(&self, from: Duration, to: Duration, wanted: impl Fn(&Sample) -> bool) -> Window {
        let samples = lock(&self.shared.samples);
        Window::of(samples.iter().filter(|sample| sample.at >= from && sample.at < to && wanted(sample)))
    }

    /// Returns how long the slowest operation took that began in a time.
    pub(super) fn slowest(&self, from: Duration, to: Duration) -> Duration {
        let samples = lock(&self.shared.samples);
        let inside = samples.iter().filter(|sample| sample.at >= from && sample.at < to);
        inside.map(|sample| sample.took).max().unwrap_or_default()
    }

    /// Waits until no operation has failed for ten seconds. Returns when the last one failed after a time, and what
    /// failed; `None`: operations still fail at the end of the limit.
    pub(super) fn wait_served(
        &self,
        since: Duration,
        limit: Duration,
    ) -> Result<(Option<Duration>, Window), String> {
        loop {
            let window = self.window(since, Duration::MAX, |_| true);
            let last = window.last_error.unwrap_or(since);
            if self.now() >= last.max(since) + STREAK {
                return Ok((Some(last.saturating_sub(since)), window));
            }
            if self.now() > since + limit + STREAK {
                return Ok((None, window));
            }
            super::pause(Duration::from_millis(200));
        }
    }

    /// Stops the clients and reads every key once more. Keys get a minute to be readable.
    pub(super) fn finish(&mut self, ring: &Ring) -> Result<Found, String> {
        self.stop();
        let shared = &self.shared;
        self.aim(ring, &ring.running());
        let targets = lock(&shared.targets).clone();
        if targets.is_empty() {
            return Err("no node runs that could be read from".into());
        }
        let workers = 8;
        let next = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for worker in 0..workers {
                let (next, targets) = (&next, &targets);
                scope.spawn(move || {
                    let client = Client::new();
                    loop {
                        let key = next.fetch_add(1, SeqCst);
                        if key >= shared.ledger.len() {
                            return;
                        }
                        shared.check_key(&client, &targets[(key + worker) % targets.len()].1, key);
                    }
                });
            }
        });
        let client = Client::new();
        for hot in 0..HOT {
            if shared.profile.increments > 0 {
                shared.check_counter(&client, &targets[hot % targets.len()].1, hot);
            }
            if shared.profile.adds > 0 {
                shared.check_set(&client, &targets[hot % targets.len()].1, hot);
            }
        }
        Ok(lock(&shared.faults).clone())
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    fn fill(&self) -> Result<(), String> {
        let shared = &self.shared;
        let targets = lock(&shared.targets).clone();
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            for worker in 0..8 {
                let (targets, failed) = (&targets, &failed);
                scope.spawn(move || {
                    let client = Client::new();
                    for key in (worker..shared.ledger.len()).step_by(8) {
                        let url = &targets[key % targets.len()].1;
                        let stored = wait_for("a key can be written", Duration::from_secs(30), || {
                            shared.write(&client, url, key).error.is_none().then_some(())
                        });
                        if let Err(why) = stored {
                            *lock(failed) = Some(why);
                            return;
                        }
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What an operation came to.
struct Done {
    error: Option<String>,
    /// A write that failed, and the client cannot know whether it happened.
    unknown: bool,
    stated: bool,
}

impl Done {
    fn of(reply: &Reply) -> Done {
        match reply.is_served() {
            true => Done { error: None, unknown: false, stated: true },
            false => Done {
                error: Some(reply.cause()),
                unknown: !reply.is_undone(),
                stated: reply.unsent || reply.document()["outcome"].as_str().is_some(),
            },
        }
    }
}

impl Shared {
    /// Does one client's part until the load stops.
    fn work(&self, client: u64) {
        let mut dice = Dice::new(client + 1);
        let http = Client::new();
        let profile = self.profile;
        let kinds = [
            (Kind::Write, profile.writes),
            (Kind::Read, profile.reads),
            (Kind::Increment, profile.increments),
            (Kind::Add, profile.adds),
            (Kind::Lookup, profile.lookups),
        ];
        let total: u32 = kinds.iter().map(|(_, rate)| rate).sum();
        let period = Duration::from_secs_f64(profile.clients as f64 / f64::from(total.max(1)));
        let mut due = Instant::now() + period.mul_f64(dice.share());
        while !self.stop.load(SeqCst) {
            let now = Instant::now();
            if due > now {
                std::thread::sleep((due - now).min(Duration::from_millis(100)));
                continue;
            }
            // A client that fell behind does not catch up: it would hit a healed ring with everything at once.
            due = (due + period).max(now);
            let mut roll = dice.below(u64::from(total)) as u32;
            let kind = kinds.iter().find(|(_, rate)| {
                let hit = roll < *rate;
                roll = roll.saturating_sub(*rate);
                hit
            });
            let target = {
                let targets = lock(&self.targets);
                let at = dice.below(targets.len().max(1) as u64) as usize;
                targets.get(at).cloned()
            };
            let (Some((kind, _)), Some((node, url))) = (kind, target) else { continue };
            self.operate(&http, *kind, node, &url, &mut dice);
        }
    }

    fn operate(&self, http: &Client, kind: Kind, node: usize, url: &str, dice: &mut Dice) {
        let (at, begun) = (self.start.elapsed(), Instant::now());
        let hot = dice.below(HOT as u64) as usize;
        let key = match kind {
            Kind::Write => match self.free_key(dice) {
                Some(key) => Some(key),
                None => return,
            },
            Kind::Read => Some(dice.below(self.ledger.len() as u64) as usize),
            _ => None,
        };
        let done = match kind {
            Kind::Write => self.write(http, url, key.unwrap_or_default()),
            Kind::Read => self.read(http, url, key.unwrap_or_default()),
            Kind::Increment => self.increment(http, url, hot),
            Kind::Add => self.add(http, url, hot),
            Kind::Lookup => {
                let path = format!("/v1/lookup/l{}?deadline=2s&replicas=0", dice.below(1 << 20));
                let reply = http.send("GET", url, &path, &[], DEADLINE);
                Done { stated: reply.document()["found"]["is_final"] == true, ..Done::of(&reply) }
            }
        };
        let Done { error, stated, .. } = done;
        lock(&self.samples).push(Sample { at, took: begun.elapsed(), node, kind, error, key, stated });
    }

    /// Finds a key that is not being written, and whose last write has a known outcome.
    fn free_key(&self, dice: &mut Dice) -> Option<usize> {
        for _ in 0..50 {
            let key = dice.below(self.ledger.len() as u64) as usize;
            let mut entry = lock(&self.ledger[key]);
            if !entry.is_busy && entry.rest_until <= Instant::now() {
                entry.is_busy = true;
                return Some(key);
            }
        }
        None
    }

    fn write(&self, http: &Client, url: &str, key: usize) -> Done {
        let number = {
            let mut entry = lock(&self.ledger[key]);
            entry.issued += 1;
            entry.issued
        };
        let mut value = format!("k{key}:{number}:").into_bytes();
        value.resize(self.profile.value_bytes.max(value.len()), b'.');
        let done = Done::of(&http.send("PUT", url, &format!("/v1/kv/k{key}?timeout=2s"), &value, DEADLINE));
        let mut entry = lock(&self.ledger[key]);
        entry.is_busy = false;
        match (&done.error, done.unknown) {
            (None, _) => entry.acked = number,
            (Some(_), true) => entry.rest_until = Instant::now() + UNKNOWN_REST,
            (Some(_), false) => {}
        }
        done
    }

    fn read(&self, http: &Client, url: &str, key: usize) -> Done {
        let acked = lock(&self.ledger[key]).acked;
        let reply = http.send("GET", url, &format!("/v1/kv/k{key}?timeout=2s"), &[], DEADLINE);
        if reply.is_served() {
            let issued = lock(&self.ledger[key]).issued;
            let mut found = lock(&self.faults);
            match number_of(&reply, key) {
                Some(number) if number > issued => {
                    found.wrong += 1;
                    found.example(format!("k{key}: write {number} was read, {issued} were issued"));
                }
                Some(number) if number < acked => {
                    found.stale += 1;
                    found.example(format!(
                        "k{key}: write {number} was read at {url}, {acked} was acknowledged"
                    ));
                }
                Some(_) => {}
                None => {
                    found.wrong += 1;
                    found.example(format!("k{key}: bytes that were never written"));
                }
            }
        }
        Done::of(&reply)
    }

    fn increment(&self, http: &Client, url: &str, hot: usize) -> Done {
        let reply = http.send("POST", url, &format!("/v1/kv/c{hot}/increment?timeout=2s"), &[], DEADLINE);
        let done = Done::of(&reply);
        let mut entry = lock(&self.hot[hot]);
        match std::str::from_utf8(&reply.body).ok().and_then(|text| text.trim().parse().ok()) {
            Some(number) if done.error.is_none() => entry.numbers.push(number),
            _ => entry.unknown += usize::from(done.unknown),
        }
        done
    }

    fn add(&self, http: &Client, url: &str, hot: usize) -> Done {
        let value = {
            let mut entry = lock(&self.hot[hot]);
            entry.next += 1;
            format!("v{}", entry.next)
        };
        let path = format!("/v1/kv/s{hot}/values?timeout=2s");
        let done = Done::of(&http.send("POST", url, &path, value.as_bytes(), DEADLINE));
        if done.error.is_none() {
            lock(&self.hot[hot]).added.insert(value);
        }
        done
    }

    fn check_key(&self, http: &Client, url: &str, key: usize) {
        let path = format!("/v1/kv/k{key}?timeout=2s");
        let reply = readable(http, url, &path);
        let (issued, acked) = {
            let entry = lock(&self.ledger[key]);
            (entry.issued, entry.acked)
        };
        let mut found = lock(&self.faults);
        match reply.map(|reply| number_of(&reply, key)) {
            None => found.unread += 1,
            Some(Some(number)) if number > issued => found.wrong += 1,
            Some(Some(number)) if number < acked => {
                found.lost += 1;
                found.example(format!("k{key}: write {number} at the end, {acked} was acknowledged"));
            }
            Some(Some(_)) => {}
            Some(None) => found.wrong += 1,
        }
    }

    fn check_counter(&self, http: &Client, url: &str, hot: usize) {
        let reply = readable(http, url, &format!("/v1/kv/c{hot}?timeout=2s"));
        let entry = lock(&self.hot[hot]);
        let mut found = lock(&self.faults);
        let Some(reply) = reply else {
            found.unread += 1;
            return;
        };
        let value =
            std::str::from_utf8(&reply.body).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let (acked, most) = (entry.numbers.len(), entry.numbers.len() + entry.unknown);
        let different: BTreeSet<&i64> = entry.numbers.iter().collect();
        let doubled = acked - different.len();
        let in_range = i64::try_from(acked).is_ok_and(|low| low <= value)
            && i64::try_from(most).is_ok_and(|high| value <= high);
        if doubled > 0 || !in_range {
            found.miscounted += doubled + usize::from(!in_range);
            found.example(format!(
                "c{hot}: {value}, acknowledged {acked}, unknown {}, {doubled} twice",
                entry.unknown
            ));
        }
    }

    fn check_set(&self, http: &Client, url: &str, hot: usize) {
        let reply = readable(http, url, &format!("/v1/kv/s{hot}/values?timeout=2s"));
        let entry = lock(&self.hot[hot]);
        let mut found = lock(&self.faults);
        let Some(reply) = reply else {
            found.unread += 1;
            return;
        };
        let document = reply.document();
        let values = document["values"].list().iter();
        let there: BTreeSet<&str> = values.filter_map(|value| value["value"].as_str()).collect();
        let missing = entry.added.iter().filter(|value| !there.contains(value.as_str())).count();
        found.missing += missing;
        if missing > 0 {
            found.example(format!(
                "s{hot}: {missing} of {} acknowledged values are missing",
                entry.added.len()
            ));
        }
    }
}

/// Reads until there is an answer, for a minute.
fn readable(http: &Client, url: &str, path: &str) -> Option<Reply> {
    let read = || Some(http.send("GET", url, path, &[], DEADLINE)).filter(Reply::is_served);
    wait_for("a key can be read", Duration::from_secs(60), read).ok().map(|(reply, _)| reply)
}

/// Returns which write of a key a value is from; 0 if there is none.
fn number_of(reply: &Reply, key: usize) -> Option<u64> {
    if reply.status == 404 {
        return Some(0);
    }
    let text = std::str::from_utf8(&reply.body).ok()?;
    let rest = text.strip_prefix(&format!("k{key}:"))?;
    rest.split(':').next()?.parse().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that look random, the same in every run.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        // xorshift64* (Vigna, 2014).
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % end.max(1)
    }

    fn share(&mut self) -> f64 {
        self.below(1 << 20) as f64 / f64::from(1 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, took: u64, error: Option<&str>) -> Sample {
        let (at, took) = (Duration::from_millis(at), Duration::from_millis(took));
        Sample {
            at,
            took,
            node: 0,
            kind: Kind::Read,
            error: error.map(String::from),
            key: None,
            stated: true,
        }
    }

    #[test]
    fn windows_add_up() {
        let samples =
            [sample(0, 1, None), sample(5, 3, Some("KR0503")), sample(9, 2, None), sample(10, 9, None)];
        let window = Window::of(samples.iter());
        assert_eq!((window.operations, window.errors), (4, 1));
        assert_eq!((window.p50, window.p99), (Duration::from_millis(3), Duration::from_millis(9)));
        assert_eq!(window.last_error, Some(Duration::from_millis(8)));
        assert_eq!(window.text(), "25.00 % of 4 (1x KR0503)");
        assert_eq!(Window::default().percent(), 100.0, "no operation at all is no success");
    }

    #[test]
    fn a_value_tells_which_write_it_is_from() {
        let reply =
            |status, body: &[u8]| Reply { status, body: body.into(), error: String::new(), unsent: false };
        assert_eq!(number_of(&reply(200, b"k7:12:..."), 7), Some(12));
        assert_eq!(number_of(&reply(404, b""), 7), Some(0));
        assert_eq!(number_of(&reply(200, b"k8:12:..."), 7), None);
        assert_eq!(number_of(&reply(200, b"\xff"), 7), None);
    }

    #[test]
    fn dice_are_the_same_in_every_run_and_cover_their_range() {
        let mut seen = [false; 6];
        let mut dice = Dice::new(1);
        (0..100).for_each(|_| seen[dice.below(6) as usize] = true);
        assert_eq!(seen, [true; 6]);
        assert_eq!(Dice::new(5).below(1000), Dice::new(5).below(1000));
    }
}
