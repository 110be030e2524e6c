//! Parameters of scenarios: written as text, checked before anything starts, kept as text in reports.

use std::collections::BTreeMap;
use std::time::Duration;

/// A parameter a scenario may take. Its name is its flag on the command line.
#[derive(Debug)]
pub struct Param {
    /// The name: `leaf-set`.
    pub name: &'static str,
    /// What it means, in a line.
    pub about: &'static str,
    /// What may be written.
    pub kind: Kind,
}

/// What the text of a parameter may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number in this interval: `1000000`, `1e6`, `1_000_000`.
    Count(u64, u64),
    /// A number in this interval.
    Real(f64, f64),
    /// A span of time in this interval of seconds: `500ms`, `10s`, `30m`, `2.3h`.
    Span(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Whatever [`crate::network::Topology`] can be made from.
    Network,
    /// Whatever [`crate::churn`] can be made from.
    Churn,
}

macro_rules! params {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $kind:expr, $about:literal;)+) => {
        $($(#[$doc])* pub const $constant: &Param = &Param { name: $name, about: $about, kind: $kind };)+

        /// Every parameter there is.
        pub const ALL: &[&Param] = &[$($constant,)+];
    };
}

params! {
    /// Nodes.
    NODES = "nodes", Kind::Count(2, 8_000_000), "nodes of the ring";
    /// Lookups.
    LOOKUPS = "lookups", Kind::Count(1, 1_000_000_000), "lookups measured";
    /// Joins.
    JOINS = "joins", Kind::Count(1, 1_000_000), "joins measured, one after the other, once the ring has grown";
    /// Nodes of rings that are simulated beside a computed one.
    MEASURED = "measured", Kind::Count(2, 8_000_000), "nodes of the rings that are simulated beside the model";
    /// Maintenance rounds.
    ROUNDS = "rounds", Kind::Count(0, 1000), "maintenance rounds after the joins: every node swaps each row and exchanges sets";
    /// Bits per digit.
    BASE = "base", Kind::Count(1, 8), "bits per digit: b, ids are read in base 2^b";
    /// Leaf set.
    LEAF_SET = "leaf-set", Kind::Count(2, 512), "members of the leaf set, both sides together: L";
    /// Neighbourhood set.
    NEIGHBOURHOOD = "neighbourhood", Kind::Count(0, 512), "members of the neighbourhood set: M";
    /// Spares.
    SPARES = "spares", Kind::Count(0, 8), "further nodes kept per routing-table cell";
    /// The network.
    NETWORK = "network", Kind::Network, "plane, sphere, transit-stub, flat or matrix:FILE";
    /// Loss.
    LOSS = "loss", Kind::Real(0.0, 90.0), "messages lost, in per cent";
    /// Ownership.
    OWNERSHIP = "ownership", Kind::Word(&["hint", "lease"]), "what it takes to deliver: hint or lease";
    /// Replicas.
    REPLICAS = "replicas", Kind::Count(1, 32), "nodes nearest to a key that count as its replicas: k";
    /// Deaths.
    DEAD = "dead", Kind::Real(0.0, 90.0), "nodes that die silently, in per cent";
    /// Churn.
    CHURN = "churn", Kind::Churn, "poisson, weibull or trace:FILE";
    /// Session.
    SESSION = "session", Kind::Span(1.0, 3e7), "mean time a node stays";
    /// Duration.
    DURATION = "duration", Kind::Span(0.1, 3e7), "simulated time that is measured";
    /// Overlay.
    OVERLAY = "overlay", Kind::Word(&["pastry", "chord"]), "which overlay the nodes use: pastry or chord";
    /// Successors.
    SUCCESSORS = "successors", Kind::Count(2, 32), "Chord: successors a node keeps: r";
    /// Stabilisation.
    TICK = "tick", Kind::Span(0.05, 3e6), "Chord: how often a node asks its successor, and looks its fingers up";
    /// Rate of coming and going.
    RATE = "rate", Kind::Real(0.001, 1000.0), "joins, and as many deaths, per second; the highest of --steps rates";
    /// Steps.
    STEPS = "steps", Kind::Count(1, 64), "rates tried, up to --rate";
    /// Keys.
    KEYS = "keys", Kind::Count(1, 1_000_000_000), "keys spread over the nodes";
    /// Split.
    SPLIT = "split", Kind::Span(1.0, 1e6), "how long the network is split in two";
}

/// The values of a scenario's parameters, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params(BTreeMap<&'static str, String>);

impl Params {
    /// Takes a scenario's own values and those given instead.
    ///
    /// # Errors
    /// If a parameter is not one of the scenario's, or its value is impossible.
    pub fn new(
        defaults: &[(&'static Param, &'static str)],
        given: &BTreeMap<String, String>,
    ) -> Result<Params, String> {
        let mut values = BTreeMap::new();
        for (param, default) in defaults {
            let text = given.get(param.name).map_or(*default, |text| text.as_str());
            param.check(text).map_err(|problem| format!("--{}: {problem}", param.name))?;
            values.insert(param.name, text.to_owned());
        }
        match given.keys().find(|name| !values.contains_key(name.as_str())) {
            None => Ok(Params(values)),
            Some(stranger) => {
                let names: Vec<String> = values.keys().map(|name| format!("--{name}")).collect();
                Err(format!("this scenario has no --{stranger}; it has {}", names.join(", ")))
            }
        }
    }

    /// Returns the text of a parameter.
    ///
    /// # Panics
    /// If the scenario does not list it among its own.
    pub fn text(&self, param: &Param) -> &str {
        let value = self.0.get(param.name);
        value.unwrap_or_else(|| panic!("the scenario lists {} among its parameters", param.name))
    }

    /// Says whether the scenario has this parameter.
    pub fn has(&self, param: &Param) -> bool {
        self.0.contains_key(param.name)
    }

    /// Returns a whole number.
    pub fn count(&self, param: &Param) -> usize {
        count(self.text(param)).unwrap_or_default() as usize
    }

    /// Returns a number.
    pub fn real(&self, param: &Param) -> f64 {
        self.text(param).parse().unwrap_or_default()
    }

    /// Returns a span of time.
    pub fn span(&self, param: &Param) -> Duration {
        Duration::from_secs_f64(seconds(self.text(param)).unwrap_or_default())
    }

    /// Returns all values by name.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }
}

impl Param {
    /// Checks a value.
    ///
    /// # Errors
    /// Says what is wrong with it and what would do.
    pub fn check(&self, text: &str) -> Result<(), String> {
        let inside = |value: Option<f64>, least: f64, most: f64, what: &str| match value {
            None => Err(format!("{text:?} is not {what}")),
            Some(value) if value < least || value > most => {
                Err(format!("{text} is out of range: {least} to {most}"))
            }
            Some(_) => Ok(()),
        };
        match self.kind {
            Kind::Count(least, most) => inside(
                count(text).map(|value| value as f64),
                least as f64,
                most as f64,
                "a whole number such as 1000 or 1e6",
            ),
            Kind::Real(least, most) => {
                let value: Option<f64> = text.parse().ok();
                inside(value.filter(|value| value.is_finite()), least, most, "a number")
            }
            Kind::Span(least, most) => {
                inside(seconds(text), least, most, "a span of time such as 10s or 2.3h")
            }
            Kind::Word(words) if words.contains(&text) => Ok(()),
            Kind::Word(words) => Err(format!("{text:?} is none of {}", words.join(", "))),
            Kind::Network | Kind::Churn => Ok(()),
        }
    }
}

/// Reads a whole number, also as `1e6` or `1_000_000`.
pub fn count(text: &str) -> Option<u64> {
    let plain: String = text.chars().filter(|c| *c != '_' && *c != ',').collect();
    plain.parse().ok().or_else(|| {
        let value: f64 = plain.parse().ok()?;
        (value.fract() == 0.0 && (0.0..1e18).contains(&value)).then_some(value as u64)
    })
}

/// Reads a span of time in seconds.
pub fn seconds(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let number =
        |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    let with_unit = units.iter().find_map(|(unit, scale)| Some(number(text.strip_suffix(unit)?)? * scale));
    with_unit.or_else(|| number(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn values_are_read_as_people_write_them() {
        assert_eq!(count("1e6"), Some(1_000_000));
        assert_eq!(count("1_000"), Some(1000));
        assert_eq!(count("1,000"), Some(1000));
        assert_eq!(count("1.5"), None);
        assert_eq!(count("-1"), None);
        assert_eq!(seconds("2.3h"), Some(2.3 * 3600.0));
        assert_eq!(seconds("500ms"), Some(0.5));
        assert_eq!(seconds("10"), Some(10.0));
        assert_eq!(seconds("soon"), None);
    }

    #[test]
    fn impossible_values_are_refused_with_the_reason() {
        let own = [(NODES, "1000"), (OWNERSHIP, "hint")];
        let problem = |pairs: &[(&str, &str)]| Params::new(&own, &given(pairs)).unwrap_err();
        assert_eq!(problem(&[("nodes", "1")]), "--nodes: 1 is out of range: 2 to 8000000");
        assert_eq!(
            problem(&[("nodes", "many")]),
            "--nodes: \"many\" is not a whole number such as 1000 or 1e6"
        );
        assert_eq!(problem(&[("ownership", "mine")]), "--ownership: \"mine\" is none of hint, lease");
        assert_eq!(problem(&[("loss", "1")]), "this scenario has no --loss; it has --nodes, --ownership");
        let params = Params::new(&own, &given(&[("nodes", "2e3")])).unwrap();
        assert_eq!((params.count(NODES), params.text(OWNERSHIP)), (2000, "hint"));
    }
}
