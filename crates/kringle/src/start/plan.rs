//! What will be started: every setting read, every rule that needs no node checked.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use kringle_core::config::{Ownership, Settings};
use kringle_core::id::Base;
use kringle_runtime::{Builder, SCRUB_EVERY, SCRUB_RATE, Seed, overlays, seeds};
use tracing_subscriber::filter::Targets;

use super::choice::{Choice, Origin};
use crate::duration;
use crate::failure::Failure;
use crate::output::Manners;
use crate::size;

/// The port of clients if an address names none.
const HTTP_PORT: u16 = 7480;
/// Addresses a node may advertise.
const ADVERTISED_MAX: usize = 4;
/// What is logged unless somebody says otherwise, by how often -v was given. Why a join waits is told anyway.
const LEVELS: [&str; 3] = ["warn,kringle_runtime::driver::joining=error", "info", "debug"];

/// A node about to be started.
pub(super) struct Plan {
    /// The node, but for what depends on the port of clients.
    pub(super) builder: Builder,
    /// Its data directory.
    pub(super) data: Option<PathBuf>,
    /// Whom it will join.
    pub(super) seeds: Vec<Seed>,
    /// Whether peers of other machines can reach it.
    pub(super) is_public: bool,
    /// Where clients reach it.
    pub(super) http: Option<SocketAddr>,
    /// By which names they call it, besides its address.
    pub(super) hosts: Vec<String>,
    /// What it tells others of where clients reach it.
    pub(super) client: Option<String>,
    /// Where the bound addresses are written.
    pub(super) ready_file: Option<PathBuf>,
    /// What is logged.
    pub(super) log: Targets,
}

/// Reads the settings.
pub(super) fn plan(choice: &Choice, manners: Manners) -> Result<Plan, Failure> {
    refuse_what_is_not_there(choice)?;
    let listen = listen(choice)?;
    let is_public = listen.iter().any(|address| !is_loopback(address.ip()));
    let http = http(choice)?;
    let data = choice.one("data").map(PathBuf::from);
    let token = token(choice)?;
    let secret =
        choice.one("secret-file").map(|path| read_secret(choice, "secret-file", path)).transpose()?;
    if is_public && data.is_none() && token.is_none() && secret.is_none() {
        return Err(Failure::usage(
            "other machines can reach this node, and nothing keeps strangers out of the cluster",
            "Give --data DIR (a secret is made for you), --secret-file, or --token of a member; or listen on 127.0.0.1.",
        ));
    }
    let seeds = read_seeds(choice)?;
    let settings = settings(choice)?;
    let mut builder = Builder::new(choice.one("cluster").unwrap_or_default()).settings(settings);
    // A node that joins takes the cluster's values of all other settings.
    builder = builder.require(choice.given());
    builder = listen.iter().fold(builder, |builder, address| builder.listen(*address));
    builder = advertised(choice, &listen)?.into_iter().fold(builder, Builder::advertise);
    builder = builder.join(seeds.iter().cloned());
    if switch(choice, "discard")? {
        if data.is_none() || seeds.is_empty() {
            return Err(choice.wrong(
                "discard",
                "a store is discarded only to join another cluster",
                "Name the data directory with --data and a member with --join, or leave --discard out.",
            ));
        }
        builder = builder.discard();
    }
    if let Some(data) = &data {
        builder = builder.data(data);
    }
    if let Some(name) = choice.one("name") {
        builder = builder.name(name);
    }
    if let Some(region) = choice.one("region") {
        builder = builder.region(region, number(choice, "region-factor")?.unwrap_or(1));
    }
    if let Some(free) = size(choice, "min-free")? {
        builder = builder.min_free(free);
    }
    let every = match choice.one("scrub-every") {
        Some("off") => Some(Duration::ZERO),
        _ => span(choice, "scrub-every")?,
    };
    let rate = size(choice, "scrub-rate")?.unwrap_or(SCRUB_RATE);
    if rate == 0 {
        return Err(choice.wrong(
            "scrub-rate",
            "it would never end",
            "Write --scrub-every off to read nothing.",
        ));
    }
    builder = builder.scrub(rate, every.unwrap_or(SCRUB_EVERY));
    if let Some(token) = token {
        builder = builder.token(token);
    }
    if let Some(secret) = secret {
        builder = builder.secret(secret);
    }
    Ok(Plan {
        builder,
        data,
        seeds,
        is_public,
        http,
        hosts: choice.many("http-host").to_vec(),
        client: choice.one("advertise-client").map(String::from),
        ready_file: choice.one("ready-file").map(PathBuf::from),
        log: log(choice, manners)?,
    })
}

fn refuse_what_is_not_there(choice: &Choice) -> Result<(), Failure> {
    for (name, protocol) in [("resp", "RESP"), ("zmq", "ZeroMQ")] {
        if choice.one(name).is_some_and(|value| value != "off") {
            let what = format!("this version does not speak {protocol} yet");
            return Err(choice.wrong(name, &what, &format!("Leave it out, or write --{name} off.")));
        }
    }
    Ok(())
}

/// Says whether only this machine can reach an address.
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Reads an address, or resolves a name. Without a port of its own it gets this one.
fn resolve(text: &str, port: Option<u16>) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let needs_port = || format!("{text:?} needs a port");
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse() {
        return Ok(vec![SocketAddr::new(ip, port.ok_or_else(needs_port)?)]);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| format!("{text:?} is not HOST:PORT"))?),
        None => (text, port.ok_or_else(needs_port)?),
    };
    if host.is_empty() {
        return Err(format!("{text:?} is not HOST:PORT"));
    }
    let found: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| format!("cannot resolve {host}: {error}"))?.collect();
    if found.is_empty() { Err(format!("{host} has no address")) } else { Ok(found) }
}

fn listen(choice: &Choice) -> Result<Vec<SocketAddr>, Failure> {
    let mut all = Vec::new();
    for text in choice.many("listen") {
        let found = resolve(text, Some(seeds::PORT)).map_err(|what| {
            choice.wrong("listen", &what, "Write HOST:PORT with a host of this machine; port 0 is any.")
        })?;
        // A name stands for one address to listen on; the first is the one the system prefers.
        all.extend(found.into_iter().take(1));
    }
    match all.is_empty() {
        true => Err(choice.wrong("listen", "there is no address in it", "Write HOST:PORT; port 0 is any.")),
        false => Ok(all),
    }
}

fn advertised(choice: &Choice, listen: &[SocketAddr]) -> Result<Vec<SocketAddr>, Failure> {
    let port = listen.first().map(SocketAddr::port).filter(|port| *port > 0);
    let mut all: Vec<SocketAddr> = Vec::new();
    let remedy = "Write HOST:PORT that other nodes can reach.";
    for text in choice.many("advertise") {
        let found = resolve(text, port).map_err(|what| choice.wrong("advertise", &what, remedy))?;
        for address in found {
            if address.ip().is_unspecified() || address.port() == 0 {
                let what = format!("nobody can reach {address}");
                return Err(choice.wrong("advertise", &what, remedy));
            }
            if !all.contains(&address) {
                all.push(address);
            }
        }
    }
    if all.len() > ADVERTISED_MAX {
        let what = format!("a node has at most {ADVERTISED_MAX} addresses, and these are {}", all.len());
        return Err(choice.wrong("advertise", &what, "Name the ones that matter."));
    }
    Ok(all)
}

fn http(choice: &Choice) -> Result<Option<SocketAddr>, Failure> {
    let text = choice.one("http").unwrap_or("off");
    if text == "off" {
        return Ok(None);
    }
    let wrong =
        |what: String| choice.wrong("http", &what, "Write HOST:PORT; port 0 is any; 'off' for no clients.");
    let found = resolve(text, Some(HTTP_PORT)).map_err(wrong)?;
    let address = found.into_iter().next().ok_or_else(|| wrong(format!("{text:?} has no address")))?;
    if !is_loopback(address.ip()) && !switch(choice, "insecure")? {
        return Err(choice.wrong(
            "http",
            &format!("other machines can reach {address}, and clients are not asked who they are: any of them could stop the node"),
            "Listen on 127.0.0.1, or allow it with --insecure on a network you trust.",
        ));
    }
    Ok(Some(address))
}

fn switch(choice: &Choice, name: &str) -> Result<bool, Failure> {
    match choice.one(name) {
        None | Some("false" | "0" | "no" | "off") => Ok(false),
        Some("true" | "1" | "yes" | "on") => Ok(true),
        Some(other) => {
            Err(choice.wrong(name, &format!("{other:?} is neither true nor false"), "Write true or false."))
        }
    }
}

fn number(choice: &Choice, name: &str) -> Result<Option<u32>, Failure> {
    let Some(text) = choice.one(name) else { return Ok(None) };
    let wrong =
        || choice.wrong(name, &format!("{text:?} is not a number from 1 up"), "Write a whole number.");
    text.parse().ok().filter(|number| *number > 0).map(Some).ok_or_else(wrong)
}

fn size(choice: &Choice, name: &str) -> Result<Option<u64>, Failure> {
    let Some(text) = choice.one(name) else { return Ok(None) };
    size::read(text).map(Some).map_err(|what| choice.wrong(name, &what, "For instance: 64MiB"))
}

fn span(choice: &Choice, name: &str) -> Result<Option<Duration>, Failure> {
    let Some(text) = choice.one(name) else { return Ok(None) };
    duration::read(text).map(Some).map_err(|what| choice.wrong(name, &what, "For instance: 10s"))
}

/// Reads the settings of the protocol, and checks them against each other.
fn settings(choice: &Choice) -> Result<Settings, Failure> {
    let mut settings = choice.preset.clone();
    if let Some(name) = choice.one("overlay") {
        settings.overlay = overlays::by_name(name).ok_or_else(|| {
            let what = format!("this version has no overlay {name:?}");
            choice.wrong("overlay", &what, "Write pastry or chord.")
        })?;
    }
    if let Some(count) = number(choice, "successors")? {
        settings.successors = u8::try_from(count).unwrap_or(u8::MAX);
    }
    if let Some(size) = number(choice, "leaf-set")? {
        settings.leaf_set = u16::try_from(size).unwrap_or(u16::MAX);
    }
    if let Some(bits) = number(choice, "base")? {
        let base = u8::try_from(bits).ok().and_then(Base::new);
        let remedy = "Digits are base 2^B; take B from 1 to 8, for instance 4 for hexadecimal digits.";
        settings.base = base.ok_or_else(|| choice.wrong("base", &format!("B cannot be {bits}"), remedy))?;
    }
    settings.lease = span(choice, "lease")?.unwrap_or(settings.lease);
    settings.heartbeat = span(choice, "heartbeat")?.unwrap_or(settings.heartbeat);
    settings.dead_after = span(choice, "dead-after")?.unwrap_or(settings.dead_after);
    settings.transfer_rate = match choice.one("transfer-rate") {
        Some("off") => 0,
        _ => size(choice, "transfer-rate")?.unwrap_or(settings.transfer_rate),
    };
    settings.ownership = match choice.one("ownership") {
        Some("lease") | None => Ownership::Lease,
        Some("hint") => Ownership::Hint,
        Some(other) => {
            let what = format!("{other:?} is neither lease nor hint");
            return Err(choice.wrong(
                "ownership",
                &what,
                "Write lease, or hint for delivery without leases.",
            ));
        }
    };
    settings.fit_lease();
    match settings.clone().check() {
        Ok(_) => Ok(settings),
        Err(error) => Err(Failure::usage(error.to_string(), format!("Change {}.", error.setting))),
    }
}

fn token(choice: &Choice) -> Result<Option<String>, Failure> {
    match (choice.one("token"), choice.one("token-file")) {
        (Some(_), Some(_)) => Err(choice.wrong(
            "token-file",
            "there is a token besides it",
            "Give one of token and token-file.",
        )),
        (Some(token), None) => Ok(Some(token.trim().to_owned())),
        (None, Some(path)) => read_secret(choice, "token-file", path).map(Some),
        (None, None) => Ok(None),
    }
}

fn read_secret(choice: &Choice, name: &str, path: &str) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        choice.wrong(name, &format!("cannot read {path}: {error}"), "Name a readable text file.")
    })?;
    match text.trim() {
        "" => Err(choice.wrong(name, &format!("{path} is empty"), "Write the text into it, on one line.")),
        text => Ok(text.to_owned()),
    }
}

fn read_seeds(choice: &Choice) -> Result<Vec<Seed>, Failure> {
    let remedy = "A seed is HOST:PORT, or HOST for port 7400; file:PATH names a file of them.";
    let mut all: Vec<Seed> = Vec::new();
    for text in choice.many("join") {
        let file = text.strip_prefix("file:").or_else(|| text.strip_prefix('@'));
        let Some(path) = file else {
            let seed: Seed =
                text.parse().map_err(|error| choice.wrong("join", &format!("{error}"), remedy))?;
            all.push(seed);
            continue;
        };
        let list = std::fs::read_to_string(path)
            .map_err(|error| choice.wrong("join", &format!("cannot read {path}: {error}"), remedy))?;
        let list = seeds::read_list(&list)
            .map_err(|(line, error)| choice.wrong("join", &format!("{path}:{line}: {error}"), remedy))?;
        // An empty list must not found a second ring.
        if list.is_empty() {
            return Err(choice.wrong("join", &format!("there is no seed in {path}"), remedy));
        }
        all.extend(list);
    }
    if all.is_empty() && choice.origin("join") != Origin::Default {
        return Err(choice.wrong("join", "there is no seed in it", remedy));
    }
    Ok(all)
}

fn log(choice: &Choice, manners: Manners) -> Result<Targets, Failure> {
    let level = match manners {
        Manners { quiet: true, .. } => "error",
        Manners { verbose, .. } => LEVELS[usize::from(verbose).min(LEVELS.len() - 1)],
    };
    let text = choice.one("log").unwrap_or(level);
    text.parse().map_err(|_| {
        let what = format!("{text:?} is no level");
        choice.wrong("log", &what, "Write off, error, warn, info, debug or trace, or MODULE=LEVEL,...")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::keys::Given;
    use super::*;

    fn planned(flags: &[(&'static str, &str)]) -> Result<Plan, Failure> {
        let flags = flags.iter().map(|(name, value)| (*name, vec![value.to_string()])).collect();
        plan(&Choice::of(&Given { flags, config: None }, &BTreeMap::new(), None)?, Manners::default())
    }

    fn refused(flags: &[(&'static str, &str)]) -> String {
        let failure = planned(flags).err().expect("this must be refused");
        assert_eq!(failure.code(), 2);
        failure.to_string()
    }

    #[test]
    fn a_node_starts_without_a_word() {
        let plan = planned(&[]).unwrap();
        assert_eq!(plan.http, Some(([127, 0, 0, 1], 7480).into()));
        assert!(!plan.is_public && plan.seeds.is_empty() && plan.data.is_none());
        assert_eq!(planned(&[("http", "off")]).unwrap().http, None);
    }

    #[test]
    fn clients_of_other_machines_need_a_word() {
        let said = refused(&[("http", "0.0.0.0:7480")]);
        assert!(said.contains("--insecure") && said.contains("not asked who they are"), "{said}");
        let plan = planned(&[("http", "0.0.0.0"), ("insecure", "true")]).unwrap();
        assert_eq!(plan.http, Some(([0, 0, 0, 0], 7480).into()));
        assert!(planned(&[("http", "[::1]:0")]).is_ok());
    }

    #[test]
    fn peers_of_other_machines_need_a_secret() {
        let said = refused(&[("listen", "0.0.0.0:7400")]);
        assert!(said.contains("strangers") && said.contains("--data"), "{said}");
        assert!(planned(&[("listen", "0.0.0.0:7400"), ("token", "kj1-x")]).unwrap().is_public);
        assert!(planned(&[("listen", "0.0.0.0"), ("data", "d")]).unwrap().is_public);
        assert!(!planned(&[("listen", "[::ffff:127.0.0.1]:1")]).unwrap().is_public);
    }

    #[test]
    fn what_can_not_be_is_refused_with_a_way_out() {
        for (flags, what) in [
            (&[("resp", "127.0.0.1:6399")][..], "--resp: this version does not speak RESP yet"),
            (&[("zmq", "127.0.0.1:7410")], "does not speak ZeroMQ yet"),
            (&[("overlay", "mesh")], "no overlay \"mesh\""),
            (&[("successors", "1")], "successors must be 2 to 32"),
            (&[("overlay", "chord"), ("successors", "2")], "successors must"),
            (&[("listen", "nonsense:x")], "--listen: \"nonsense:x\" is not HOST:PORT"),
            (&[("advertise", "0.0.0.0:1")], "nobody can reach 0.0.0.0:1"),
            (&[("listen", "127.0.0.1:0"), ("advertise", "10.0.0.1")], "needs a port"),
            (&[("advertise", "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1,10.0.0.4:1,10.0.0.5:1")], "at most 4"),
            (&[("leaf-set", "7")], "leaf-set must be even"),
            (&[("leaf-set", "many")], "not a number"),
            (&[("base", "9")], "B cannot be 9"),
            (&[("lease", "10")], "not a span of time"),
            (&[("lease", "0s")], "timeouts must be at least a millisecond"),
            (&[("ownership", "mine")], "neither lease nor hint"),
            (&[("join", "http://x")], "is not HOST:PORT"),
            (&[("join", "")], "there is no seed in it"),
            (&[("join", "file:no/such/file")], "cannot read no/such/file"),
            (&[("token", "a"), ("token-file", "b")], "there is a token besides it"),
            (&[("secret-file", "no/such/file")], "cannot read no/such/file"),
            (&[("insecure", "maybe")], ""),
            (&[("log", "kringle=loud")], "is no level"),
            (&[("min-free", "much")], "not a number of bytes"),
            (&[("scrub-rate", "0")], "it would never end"),
            (&[("scrub-every", "often")], "not a span of time"),
            (&[("region", "eu"), ("region-factor", "0")], "not a number from 1 up"),
        ] {
            if flags[0].0 == "insecure" {
                assert!(refused(&[("http", "0.0.0.0:1"), flags[0]]).contains("neither true nor false"));
                continue;
            }
            let said = refused(flags);
            assert!(said.contains(what) && said.lines().count() == 2, "{said}");
        }
    }

    #[test]
    fn a_long_lease_brings_the_patience_it_needs() {
        assert!(planned(&[("lease", "1m")]).is_ok());
        assert!(
            planned(&[("preset", "wan"), ("ownership", "hint"), ("leaf-set", "16"), ("base", "2")]).is_ok()
        );
    }

    #[test]
    fn seeds_come_from_flags_and_files() {
        let file = std::env::temp_dir().join(format!("kringle-seeds-{}", std::process::id()));
        std::fs::write(&file, "# ours\nhost-a\n10.0.0.2:7401\n").unwrap();
        let list = format!("host-c:1,file:{}", file.display());
        let seeds: Vec<String> =
            planned(&[("join", &list)]).unwrap().seeds.iter().map(Seed::to_string).collect();
        assert_eq!(seeds, ["host-c:1", "host-a:7400", "10.0.0.2:7401"]);
        std::fs::write(&file, "host a\n").unwrap();
        let said = refused(&[("join", &format!("@{}", file.display()))]);
        std::fs::remove_file(&file).unwrap();
        assert!(said.contains(":1: "), "{said}");
    }
}
