//! The parameters of scenarios as flags: one for each there is, taken from the simulator's own list.

use std::collections::BTreeMap;

use clap::error::Error;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use kringle_sim::lab::Scenario;
use kringle_sim::lab::params::{ALL, Kind, Param, count, seconds};

/// What was given on the command line, by name. The values are checked by the scenario that takes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(pub(crate) BTreeMap<String, String>);

impl Args for Given {
    fn augment_args(mut command: Command) -> Command {
        for param in ALL {
            let arg = Arg::new(param.name)
                .long(param.name)
                .value_name(value_name(param.kind))
                .help(param.about)
                .allow_negative_numbers(true)
                .help_heading("Parameters, if the scenario has them (kringle sim list NAME)");
            command = command.arg(arg);
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
        for param in ALL {
            if let Some(text) = matches.get_one::<String>(param.name) {
                self.0.insert(param.name.to_owned(), text.clone());
            }
        }
        Ok(())
    }
}

fn value_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Count(..) => "N",
        Kind::Real(..) => "NUMBER",
        Kind::Span(..) => "TIME",
        Kind::Word(_) => "WORD",
        Kind::Network => "NETWORK",
        Kind::Churn => "CHURN",
    }
}

/// Says what may be written for a parameter.
pub(crate) fn range(kind: Kind) -> String {
    match kind {
        Kind::Count(least, most) => format!("{least} to {most}"),
        Kind::Real(least, most) => format!("{least} to {most}"),
        Kind::Span(least, most) => format!("{least} to {most} s"),
        Kind::Word(words) => words.join(", "),
        Kind::Network | Kind::Churn => String::new(),
    }
}

/// Returns the number a value stands for, if it is one: seconds for a span of time.
pub(crate) fn number(param: &Param, text: &str) -> Option<f64> {
    match param.kind {
        Kind::Count(..) => count(text).map(|value| value as f64),
        Kind::Real(..) => text.parse().ok(),
        Kind::Span(..) => seconds(text),
        Kind::Word(_) | Kind::Network | Kind::Churn => None,
    }
}

/// Returns the values that are not the scenario's own, in the order of its parameters. `1e3` is `1000`.
pub(crate) fn differing(scenario: &Scenario, all: &BTreeMap<String, String>) -> Vec<(&'static str, String)> {
    let differs = |param: &Param, text: &str, own: &str| match (number(param, text), number(param, own)) {
        (Some(value), Some(own)) => value != own,
        _ => text != own,
    };
    let values = scenario.params.iter().filter_map(|(param, own)| {
        let text = all.get(param.name)?;
        differs(param, text, own).then(|| (param.name, text.clone()))
    });
    values.collect()
}

/// Returns the command line that runs a scenario like this, shortest form.
pub(crate) fn command_line(
    verb: &str,
    scenario: &Scenario,
    seed: Option<u64>,
    all: &BTreeMap<String, String>,
) -> String {
    let mut words = vec!["kringle sim".to_owned(), verb.to_owned(), scenario.name.to_owned()];
    if let Some(seed) = seed {
        words.push(format!("--seed {seed}"));
    }
    for (name, value) in differing(scenario, all) {
        words.push(format!("--{name} {}", quoted(&value)));
    }
    words.join(" ")
}

/// Writes a word so that a shell takes it as one.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/=+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
