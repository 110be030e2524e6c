//! Every setting of a node: its name, what it takes, what it is without anybody's word.
//!
//! A name has three spellings, all made from the one here: `--advertise-client`, `KRINGLE_ADVERTISE_CLIENT` and
//! `advertise-client = ...` in a file.

use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// One value.
    One,
    /// Any number: the flag again and again, or commas.
    Many,
    /// Yes or no.
    Switch,
}

/// A setting.
#[derive(Debug)]
pub(super) struct Key {
    /// The name in files; flags and variables follow from it.
    pub(super) name: &'static str,
    /// What its value is called in the help.
    pub(super) value: &'static str,
    /// What it does.
    pub(super) about: &'static str,
    /// What it takes.
    pub(super) takes: Takes,
    /// What it is if nobody says, unless that depends on the preset or is nothing.
    pub(super) default: Option<&'static str>,
    /// Whether it must not be shown.
    pub(super) secret: bool,
    heading: &'static str,
}

const CLUSTER: &str = "The cluster";
const PLACES: &str = "Addresses";
const PROTOCOL: &str = "The protocol";
const DISK: &str = "The disk";
const PROCESS: &str = "The process";

const fn key(heading: &'static str, name: &'static str, value: &'static str, about: &'static str) -> Key {
    Key { name, value, about, takes: Takes::One, default: None, secret: false, heading }
}

impl Key {
    const fn or(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }

    const fn many(self) -> Key {
        Key { takes: Takes::Many, ..self }
    }

    const fn switch(self) -> Key {
        Key { takes: Takes::Switch, default: Some("false"), ..self }
    }

    const fn secret(self) -> Key {
        Key { secret: true, ..self }
    }

    /// Returns the environment variable.
    pub(super) fn variable(&self) -> String {
        format!("KRINGLE_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }
}

/// Every setting there is.
pub(super) const ALL: &[Key] = &[
    key(CLUSTER, "cluster", "NAME", "The cluster to found or join").or("kringle"),
    key(
        CLUSTER,
        "join",
        "SEED",
        "A member of the ring to join: HOST:PORT, HOST, or file:PATH with one per line",
    )
    .many(),
    key(
        CLUSTER,
        "data",
        "DIR",
        "Keep identity and known peers here; without it the node forgets when it ends",
    ),
    key(
        CLUSTER,
        "discard",
        "BOOL",
        "With --join: set an older store in the data directory aside (store.discarded-N) and join empty",
    )
    .switch(),
    key(
        CLUSTER,
        "token",
        "TOKEN",
        "The join token a member has made (--token-file does not show in process lists)",
    )
    .secret(),
    key(CLUSTER, "token-file", "FILE", "Read the join token from this file"),
    key(
        CLUSTER,
        "secret-file",
        "FILE",
        "Read the cluster's secret from this file: the node can admit others",
    ),
    key(CLUSTER, "name", "NAME", "What people call the node"),
    key(CLUSTER, "region", "NAME", "Where the node is; peers of other regions count as farther away"),
    key(CLUSTER, "region-factor", "N", "How much farther").or("5"),
    key(PLACES, "listen", "ADDR", "Listen for peers here; port 0 is any").many().or("127.0.0.1:7400"),
    key(PLACES, "advertise", "ADDR", "Tell peers to come here instead; names are resolved").many(),
    key(PLACES, "http", "ADDR|off", "Listen for clients here").or("127.0.0.1:7480"),
    key(PLACES, "http-host", "NAME", "Answer clients that call the node by this name, too").many(),
    key(PLACES, "advertise-client", "URL", "Tell others that clients come here"),
    key(PLACES, "resp", "ADDR|off", "Speak RESP here").or("off"),
    key(PLACES, "zmq", "ADDR|off", "Speak ZeroMQ here").or("off"),
    key(PLACES, "insecure", "BOOL", "Let clients come from other machines, though nobody asks who they are")
        .switch(),
    key(
        PROTOCOL,
        "overlay",
        "pastry|chord",
        "How the ring is organised; fixed when a cluster is founded, the same for all its nodes",
    )
    .or("pastry"),
    key(PROTOCOL, "preset", "lan|wan|demo", "Where the other settings of the protocol come from").or("lan"),
    key(PROTOCOL, "ownership", "lease|hint", "Pastry: what it takes to deliver for a key"),
    key(PROTOCOL, "leaf-set", "L", "Pastry: members of the leaf set, both sides together"),
    key(PROTOCOL, "successors", "R", "Chord: successors a node knows; a ring of R+3 does without full lists"),
    key(PROTOCOL, "base", "B", "Digits are base 2^B"),
    key(PROTOCOL, "lease", "TIME", "Pastry: how long a lease lasts"),
    key(PROTOCOL, "heartbeat", "TIME", "How often silent ring neighbours are checked"),
    key(
        DISK,
        "transfer-rate",
        "SIZE|off",
        "Fetch at most this much per second while the node becomes a replica of slots",
    )
    .or("16MiB"),
    key(
        DISK,
        "dead-after",
        "TIME",
        "Let views go on without a replica that is down for this long, if no other node can take its place",
    )
    .or("10m"),
    key(DISK, "min-free", "SIZE", "Store nothing more while the disk has less than this free").or("64MiB"),
    key(
        DISK,
        "scrub-every",
        "TIME|off",
        "Read everything on the disk this often, in the background, to find damage",
    )
    .or("7d"),
    key(DISK, "scrub-rate", "SIZE", "How much of it to read per second").or("8MiB"),
    key(PROCESS, "ready-file", "FILE", "Write the bound addresses here, as JSON, once the node listens"),
    key(
        PROCESS,
        "log",
        "LEVEL",
        "What is logged: off, error, warn, info, debug or trace, or MODULE=LEVEL,...",
    ),
];

/// Finds a setting.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    ALL.iter().find(|key| key.name == name)
}

/// Returns the name that somebody may have meant.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let far = |key: &&Key| distance(name, key.name);
    ALL.iter().min_by_key(far).filter(|key| far(key) <= 1 + key.name.len() / 4).map(|key| key.name)
}

/// Returns how many letters have to be changed, added or left out.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (column, other) in b.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

/// What was given on the command line, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// Each flag that was given, with its values in order.
    pub(super) flags: Vec<(&'static str, Vec<String>)>,
    /// The file that was named.
    pub(super) config: Option<String>,
}

/// The flag that names the file.
const CONFIG: &str = "config";

impl Args for Given {
    fn augment_args(mut command: Command) -> Command {
        let config = Arg::new(CONFIG).long(CONFIG).value_name("FILE");
        command = command
            .arg(config.help("Read settings from this file: NAME = VALUE, in TOML").help_heading(PROCESS));
        for key in ALL {
            let help = match key.default {
                Some(default) if key.takes != Takes::Switch => format!("{} [default: {default}]", key.about),
                _ => key.about.to_owned(),
            };
            let arg = Arg::new(key.name)
                .long(key.name)
                .value_name(key.value)
                .help(help)
                .help_heading(key.heading)
                .action(ArgAction::Append);
            command = command.arg(match key.takes {
                Takes::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
                Takes::One | Takes::Many => arg,
            });
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Given::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Given, Error> {
        let mut given = Given::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.config = matches.get_one::<String>(CONFIG).cloned();
        for key in ALL {
            if let Some(values) = matches.get_many::<String>(key.name) {
                self.flags.push((key.name, values.cloned().collect()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_nonsense_is_not() {
        for (slip, meant) in [
            ("listn", "listen"),
            ("advertise_client", "advertise-client"),
            ("seed", ""),
            ("leafset", "leaf-set"),
        ] {
            assert_eq!(nearest(slip).unwrap_or(""), meant, "{slip}");
        }
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn names_are_spelled_three_ways() {
        assert_eq!(find("advertise-client").unwrap().variable(), "KRINGLE_ADVERTISE_CLIENT");
        let mut names: Vec<&str> = ALL.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len(), "a name is there twice");
    }
}
