//! Which value each setting has, and who said so: flag, then environment, then file, then preset or default.

use std::collections::BTreeMap;
use std::fmt;

use kringle_core::config::{Ownership, Settings};
use kringle_runtime::descriptors::{self, Shares};
use serde_json::{Map, Value, json};

use super::keys::{self, ALL, Given, Key, Takes};
use crate::duration;
use crate::failure::Failure;

/// Names the file, if no flag does.
const CONFIG_VARIABLE: &str = "KRINGLE_CONFIG";

/// Who decided on a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The command line.
    Flag,
    /// An environment variable.
    Variable(String),
    /// The file.
    File(String),
    /// The preset.
    Preset(String),
    /// Nobody.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Variable(name) => write!(f, "env {name}"),
            Origin::File(path) => write!(f, "file {path}"),
            Origin::Preset(name) => write!(f, "preset {name}"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// What a setting is, and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chosen {
    values: Vec<String>,
    origin: Origin,
}

/// What every setting is.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    chosen: BTreeMap<&'static str, Chosen>,
    /// The settings of the protocol that come with the preset.
    pub(super) preset: Settings,
}

impl Choice {
    /// Decides on every setting.
    pub(super) fn make(given: &Given) -> Result<Choice, Failure> {
        let variable = |name: &str| match std::env::var(name) {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(_) => Err(Failure::usage(format!("{name} is no text"), "Set it again, in UTF-8.")),
        };
        let config = match &given.config {
            Some(path) => Some(path.clone()),
            None => variable(CONFIG_VARIABLE)?,
        };
        let read = |path: &String| {
            let failure = |error| {
                let remedy = "Name a readable text file with --config.";
                Failure::usage(format!("{path}: cannot read it: {error}"), remedy)
            };
            std::fs::read_to_string(path).map_err(failure)
        };
        let file = config.as_ref().map(|path| Ok((path.clone(), read(path)?))).transpose()?;
        let file = file.as_ref().map(|(path, text)| (path.as_str(), text.as_str()));
        let mut variables = BTreeMap::new();
        for key in ALL {
            if let Some(text) = variable(&key.variable())? {
                variables.insert(key.name, text);
            }
        }
        Choice::of(given, &variables, file)
    }

    /// Decides, from what was found in all places.
    pub(super) fn of(
        given: &Given,
        variables: &BTreeMap<&'static str, String>,
        file: Option<(&str, &str)>,
    ) -> Result<Choice, Failure> {
        let mut chosen: BTreeMap<&'static str, Chosen> = BTreeMap::new();
        let mut put = |key: &'static Key, values: Vec<String>, origin: Origin| {
            let values = match key.takes {
                Takes::Many => values.iter().flat_map(|value| split(value)).collect(),
                // The last one counts, as everywhere on command lines.
                Takes::One | Takes::Switch => values.into_iter().last().into_iter().collect(),
            };
            chosen.insert(key.name, Chosen { values, origin });
        };
        for key in ALL {
            put(key, key.default.map(String::from).into_iter().collect(), Origin::Default);
        }
        if let Some((path, text)) = file {
            for (key, values) in read_file(path, text)? {
                put(key, values, Origin::File(path.into()));
            }
        }
        for key in ALL {
            if let Some(text) = variables.get(key.name) {
                put(key, vec![text.clone()], Origin::Variable(key.variable()));
            }
        }
        for (name, values) in &given.flags {
            if let Some(key) = keys::find(name) {
                put(key, values.clone(), Origin::Flag);
            }
        }
        let mut choice = Choice { chosen, preset: Settings::default() };
        choice.take_preset()?;
        Ok(choice)
    }

    /// Fills in what the preset says of settings that nobody has mentioned.
    fn take_preset(&mut self) -> Result<(), Failure> {
        let name = self.one("preset").unwrap_or("lan").to_owned();
        self.preset = match name.as_str() {
            "lan" => Settings::default(),
            "wan" => Settings::wan(),
            "demo" => Settings::demo(),
            _ => {
                let remedy = "Choose lan, wan or demo.";
                return Err(self.wrong("preset", &format!("there is no preset {name:?}"), remedy));
            }
        };
        let settings = &self.preset;
        let values = [
            ("ownership", ownership_text(settings.ownership).to_owned()),
            ("leaf-set", settings.leaf_set.to_string()),
            ("successors", settings.successors.to_string()),
            ("base", settings.base.bits().to_string()),
            ("lease", duration::exact(settings.lease)),
            ("heartbeat", duration::exact(settings.heartbeat)),
        ];
        let is_named = self.origin("preset") != Origin::Default;
        let origin = if is_named { Origin::Preset(name) } else { Origin::Default };
        for (key, value) in values {
            let entry =
                self.chosen.entry(key).or_insert(Chosen { values: Vec::new(), origin: Origin::Default });
            if entry.values.is_empty() {
                *entry = Chosen { values: vec![value], origin: origin.clone() };
            }
        }
        Ok(())
    }

    /// Returns the value of a setting, if it has one.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        self.many(name).last().map(String::as_str)
    }

    /// Returns all values of a setting.
    pub(super) fn many(&self, name: &str) -> &[String] {
        self.chosen.get(name).map_or(&[], |chosen| &chosen.values)
    }

    /// Returns who said so.
    pub(super) fn origin(&self, name: &str) -> Origin {
        self.chosen.get(name).map_or(Origin::Default, |chosen| chosen.origin.clone())
    }

    /// Returns the names of the settings that the command line, the environment or the file gives.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        let given = |origin: &Origin| !matches!(origin, Origin::Default | Origin::Preset(_));
        self.chosen.iter().filter(move |(_, chosen)| given(&chosen.origin)).map(|(name, _)| *name)
    }

    /// Says that a setting can not be what it is.
    pub(super) fn wrong(&self, name: &str, what: &str, remedy: &str) -> Failure {
        let place = match self.origin(name) {
            Origin::Flag | Origin::Default => format!("--{name}"),
            Origin::Variable(variable) => variable,
            Origin::File(path) => format!("{path}: {name}"),
            Origin::Preset(preset) => format!("preset {preset}: {name}"),
        };
        Failure::usage(format!("{place}: {what}"), remedy)
    }

    /// Writes every setting, and with `origin` who said so.
    pub(super) fn text(&self, origin: bool) -> String {
        let mut out = String::new();
        for key in ALL {
            let values = self.shown(key);
            let value = match (values.is_empty(), key.takes) {
                (true, Takes::Many) => "[]".into(),
                (true, _) => "(none)".into(),
                (false, Takes::Many) => {
                    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                    format!("[{}]", quoted.join(", "))
                }
                (false, Takes::Switch) => values.concat(),
                (false, Takes::One) if values[0].bytes().all(|byte| byte.is_ascii_digit()) => values.concat(),
                (false, Takes::One) => format!("{:?}", values.concat()),
            };
            // What is not set is a comment, so that the list can be kept as a file.
            let mark = if values.is_empty() { "# " } else { "" };
            let line = format!("{mark}{} = {value}", key.name);
            match origin {
                true => out.push_str(&format!("{line:40}  # {}\n", self.origin(key.name))),
                false => out.push_str(&format!("{line}\n")),
            }
        }
        match descriptors::shares() {
            Ok(shares) => out.push_str(&format!("# {shares}\n")),
            Err(error) => out.push_str(&format!("# {error}\n")),
        }
        out
    }

    /// Returns every setting for programs, with `origin` as objects that name it.
    pub(super) fn document(&self, origin: bool) -> Value {
        let mut settings = Map::new();
        for key in ALL {
            let mut values = self.shown(key).into_iter();
            let value = match key.takes {
                Takes::Many => json!(values.collect::<Vec<_>>()),
                Takes::Switch => json!(values.next().as_deref() == Some("true")),
                Takes::One => json!(values.next()),
            };
            let entry = if origin {
                json!({ "value": value, "origin": self.origin(key.name).to_string() })
            } else {
                value
            };
            settings.insert(key.name.into(), entry);
        }
        let mut document = json!({ "schema": "kringle.config/1", "settings": settings });
        if let Ok(shares) = descriptors::shares() {
            let Shares { all, disk, peers, strangers, clients } = shares;
            document["descriptors"] = json!({
                "all": all, "disk": disk, "peers": peers, "strangers": strangers, "clients": clients,
            });
        }
        document
    }

    fn shown(&self, key: &Key) -> Vec<String> {
        let values = self.many(key.name);
        values.iter().map(|value| if key.secret { "(not shown)".into() } else { value.clone() }).collect()
    }
}

/// Returns the word for an ownership.
pub(super) fn ownership_text(ownership: Ownership) -> &'static str {
    match ownership {
        Ownership::Lease => "lease",
        Ownership::Hint => "hint",
    }
}

fn split(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty())
}

/// Reads a file: NAME = VALUE, in TOML.
fn read_file(path: &str, text: &str) -> Result<Vec<(&'static Key, Vec<String>)>, Failure> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(String::new(), |span| {
            let before = text.get(..span.start).unwrap_or(text);
            format!(":{}", before.matches('\n').count() + 1)
        });
        let remedy = "A line is NAME = VALUE: texts in double quotes, lists in square brackets.";
        Failure::usage(format!("{path}{line}: {}", error.message()), remedy)
    })?;
    let mut found = Vec::new();
    for (name, value) in &table {
        let Some(key) = keys::find(name) else {
            let remedy = match keys::nearest(name) {
                Some(meant) => format!("Did you mean {meant}? 'kringle start --help' lists them all."),
                None => "'kringle start --help' lists them all.".into(),
            };
            return Err(Failure::usage(format!("{path}: there is no setting {name:?}"), remedy));
        };
        let values = match (key.takes, value) {
            (Takes::Many, toml::Value::Array(items)) => items.iter().map(plain).collect(),
            (_, value) => plain(value).map(|text| vec![text]),
        };
        let values = values.ok_or_else(|| {
            let remedy = match key.takes {
                Takes::Many => format!("Write {name} = [\"...\", \"...\"]."),
                Takes::Switch => format!("Write {name} = true or {name} = false."),
                Takes::One => format!("Write {name} = \"...\"."),
            };
            Failure::usage(format!("{path}: {name} can not be {}", value.type_str()), remedy)
        })?;
        found.push((key, values));
    }
    Ok(found)
}

fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(flags: &[(&'static str, &[&str])]) -> Given {
        let flags =
            flags.iter().map(|(name, values)| (*name, values.iter().map(|v| v.to_string()).collect()));
        Given { flags: flags.collect(), config: None }
    }

    fn choice(flags: &[(&'static str, &[&str])], variables: &[(&'static str, &str)], file: &str) -> Choice {
        let variables = variables.iter().map(|(name, value)| (*name, value.to_string())).collect();
        Choice::of(&given(flags), &variables, Some(("k.toml", file))).unwrap()
    }

    #[test]
    fn flags_come_before_variables_before_the_file_before_the_default() {
        let file = "cluster = \"f\"\nname = \"f\"\nhttp = \"f\"\n";
        let choice = choice(&[("cluster", &["a"])], &[("cluster", "v"), ("name", "v")], file);
        assert_eq!((choice.one("cluster"), choice.origin("cluster")), (Some("a"), Origin::Flag));
        assert_eq!(
            (choice.one("name"), choice.origin("name")),
            (Some("v"), Origin::Variable("KRINGLE_NAME".into()))
        );
        assert_eq!((choice.one("http"), choice.origin("http")), (Some("f"), Origin::File("k.toml".into())));
        assert_eq!(
            (choice.one("listen"), choice.origin("listen")),
            (Some("127.0.0.1:7400"), Origin::Default)
        );
        assert_eq!((choice.one("data"), choice.origin("data")), (None, Origin::Default));
    }

    #[test]
    fn lists_are_given_again_and_again_or_with_commas() {
        let choice =
            choice(&[("join", &["a:1,b:2", "c:3"])], &[("advertise", "x, y")], "listen = [\"l\", \"m\"]");
        assert_eq!(choice.many("join"), ["a:1", "b:2", "c:3"]);
        assert_eq!(choice.many("advertise"), ["x", "y"]);
        assert_eq!(choice.many("listen"), ["l", "m"]);
    }

    #[test]
    fn the_preset_fills_in_what_nobody_mentions() {
        let choice = choice(&[("preset", &["demo"]), ("lease", &["3s"])], &[], "");
        assert_eq!(
            (choice.one("leaf-set"), choice.origin("leaf-set")),
            (Some("8"), Origin::Preset("demo".into()))
        );
        assert_eq!((choice.one("lease"), choice.origin("lease")), (Some("3s"), Origin::Flag));
        let unknown = Choice::of(&given(&[("preset", &["x"])]), &BTreeMap::new(), None).unwrap_err();
        assert_eq!(unknown.code(), 2);
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        for (text, what, remedy) in [
            ("listn = \"x\"", "k.toml: there is no setting \"listn\"", "Did you mean listen?"),
            ("colour = 1", "there is no setting \"colour\"", "lists them all"),
            ("name = \"a\"\nlisten = [", "k.toml:2: ", "NAME = VALUE"),
            ("cluster = [\"a\"]", "cluster can not be array", "cluster = \"...\""),
            ("insecure = 1.5", "insecure can not be float", "insecure = true"),
            ("[listen]\na = 1", "listen can not be table", "listen = [\"...\""),
        ] {
            let failure = Choice::of(&given(&[]), &BTreeMap::new(), Some(("k.toml", text))).unwrap_err();
            let said = failure.to_string();
            assert!(failure.code() == 2 && said.contains(what) && said.contains(remedy), "{said}");
        }
    }

    #[test]
    fn secrets_are_not_shown_and_the_list_is_a_file() {
        let choice =
            choice(&[("token", &["kj1-abc"]), ("join", &["a:1"])], &[], "insecure = true\nleaf-set = 16");
        for shown in [choice.text(true), choice.document(true).to_string(), choice.text(false)] {
            assert!(!shown.contains("kj1-abc"), "{shown}");
        }
        let text = choice.text(true);
        assert!(text.contains("cluster = \"kringle\"                       # default\n"), "{text}");
        assert!(text.contains("leaf-set = 16 ") && text.contains("# file k.toml\n"), "{text}");
        assert!(text.contains("# data = (none)"), "{text}");
        assert!(read_file("shown", &text).is_ok());
        assert_eq!(choice.document(false)["settings"]["insecure"], true);
        assert_eq!(choice.document(true)["settings"]["join"]["origin"], "flag");
    }
}
