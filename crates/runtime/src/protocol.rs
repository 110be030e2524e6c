//! The settings that all nodes of a cluster share: one table of their names, numbers and values.
//!
//! They are fixed when a cluster is founded, kept in `cluster.json` and told in every greeting. A node that joins takes
//! the cluster's values. A value that the operator or the program gave it (*said*) must be the cluster's already: a
//! different one is refused, KR0421. The number of copies is in the table too, but an operator can change it later.

use std::collections::BTreeMap;
use std::time::Duration;

use kringle_core::config::{OverlayKind, Ownership, Settings};
use kringle_core::id::Base;
use serde_json::{Map, Value};

use crate::overlays;

/// The number of the overlay, which has a field of its own in greetings and in `cluster.json`.
pub(crate) const OVERLAY: u64 = 0;
/// The number of copies a record has.
pub(crate) const COPIES: u64 = 10;
/// A set of settings, one bit for each: all that this version knows.
pub(crate) const ALL: u64 = (1 << FIELDS.len()) - 1;

/// The values of the shared settings, by number. Those of a peer may have numbers that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(BTreeMap<u64, u64>);

/// How a value is written.
enum Unit {
    Count,
    Micros,
    /// One of these words, by its place in the list.
    Word(&'static [&'static str]),
}

/// A shared setting. Its number is its place in [`FIELDS`] and never changes its meaning.
struct Field {
    name: &'static str,
    /// Whether `kringle start` has a flag of this name.
    is_flag: bool,
    unit: Unit,
    read: fn(&Settings) -> u64,
    /// Changes the setting, unless the value is impossible.
    write: fn(&mut Settings, u64) -> Option<()>,
}

const FIELDS: [Field; 11] = [
    Field {
        name: "overlay",
        is_flag: true,
        unit: Unit::Word(&["pastry", "chord"]),
        read: |settings| overlays::number(settings.overlay),
        write: |settings, value| {
            settings.overlay =
                *[OverlayKind::Pastry, OverlayKind::Chord].get(usize::try_from(value).ok()?)?;
            Some(())
        },
    },
    Field {
        name: "base",
        is_flag: true,
        unit: Unit::Count,
        read: |settings| settings.base.bits().into(),
        write: |settings, value| Base::new(value.try_into().ok()?).map(|base| settings.base = base),
    },
    Field {
        name: "leaf-set",
        is_flag: true,
        unit: Unit::Count,
        read: |settings| settings.leaf_set.into(),
        write: |settings, value| value.try_into().ok().map(|value| settings.leaf_set = value),
    },
    Field {
        name: "ownership",
        is_flag: true,
        unit: Unit::Word(&["lease", "hint"]),
        read: |settings| match settings.ownership {
            Ownership::Lease => 0,
            Ownership::Hint => 1,
        },
        write: |settings, value| {
            settings.ownership = *[Ownership::Lease, Ownership::Hint].get(usize::try_from(value).ok()?)?;
            Some(())
        },
    },
    Field {
        name: "lease",
        is_flag: true,
        unit: Unit::Micros,
        read: |settings| micros(settings.lease),
        write: |settings, value| {
            settings.lease = Duration::from_micros(value);
            settings.fit_lease();
            Some(())
        },
    },
    Field {
        name: "slots",
        is_flag: false,
        unit: Unit::Count,
        read: |settings| settings.slots.into(),
        write: |settings, value| value.try_into().ok().map(|value| settings.slots = value),
    },
    Field {
        name: "clock-ahead",
        is_flag: false,
        unit: Unit::Micros,
        read: |settings| micros(settings.clock_ahead),
        write: |settings, value| {
            settings.clock_ahead = Duration::from_micros(value);
            Some(())
        },
    },
    Field {
        // A small group of Chord nodes becomes a ring when it has three more members than this.
        name: "successors",
        is_flag: true,
        unit: Unit::Count,
        read: |settings| settings.successors.into(),
        write: |settings, value| value.try_into().ok().map(|value| settings.successors = value),
    },
    Field {
        // What makes ids of keys and nodes. This version has one; so has `id-bits`.
        name: "hash",
        is_flag: false,
        unit: Unit::Word(&["blake3"]),
        read: |_| 0,
        write: |_, value| (value == 0).then_some(()),
    },
    Field {
        // With `base`, how many digits an id has.
        name: "id-bits",
        is_flag: false,
        unit: Unit::Count,
        read: |_| 128,
        write: |_, value| (value == 128).then_some(()),
    },
    Field {
        name: "copies",
        is_flag: false,
        unit: Unit::Count,
        read: |settings| settings.replicas.into(),
        write: |settings, value| value.try_into().ok().map(|value| settings.replicas = value),
    },
];

impl Protocol {
    /// Reads the shared settings.
    pub fn of(settings: &Settings) -> Protocol {
        Protocol((0..).zip(&FIELDS).map(|(number, field)| (number, (field.read)(settings))).collect())
    }

    /// Returns the value of a setting.
    pub(crate) fn value(&self, number: u64) -> Option<u64> {
        self.0.get(&number).copied()
    }

    /// Returns the settings that have another value in `other`. What `other` does not name is no difference.
    pub(crate) fn differences(&self, other: &Protocol) -> Vec<u64> {
        other.0.iter().filter(|(number, value)| self.0.get(number) != Some(value)).map(|(n, _)| *n).collect()
    }

    /// Changes those of these settings that are in the set. Fails with the name of a setting whose value is impossible
    /// here.
    pub(crate) fn apply(&self, set: u64, settings: &mut Settings) -> Result<(), String> {
        for (&number, &value) in self.0.iter().filter(|(number, _)| set & bit(**number) != 0) {
            let written = field(number).and_then(|field| (field.write)(settings, value));
            written.ok_or_else(|| format!("{} cannot be {}", name(number), show(number, Some(value))))?;
        }
        Ok(())
    }

    /// Returns what a greeting says: values that are not the default. The overlay has a field of its own.
    pub(crate) fn told(&self) -> Vec<(u64, u64)> {
        let usual = Protocol::of(&Settings::default());
        usual.differences(self).into_iter().filter(|n| *n != OVERLAY).map(|n| (n, self.0[&n])).collect()
    }

    /// Reads what a greeting says. What it does not name has the default value.
    pub(crate) fn heard(told: impl IntoIterator<Item = (u64, u64)>) -> Protocol {
        let mut protocol = Protocol::of(&Settings::default());
        protocol.0.extend(told);
        protocol
    }

    /// Returns what `cluster.json` says, but for the overlay.
    pub(crate) fn written(&self) -> Map<String, Value> {
        let value = |number: u64, value: u64| match field(number).map(|field| &field.unit) {
            Some(Unit::Word(_)) => show(number, Some(value)).into(),
            _ => value.into(),
        };
        let fields = self.0.iter().filter(|(number, _)| **number != OVERLAY);
        fields.map(|(&number, &v)| (key(number), value(number, v))).collect()
    }

    /// Reads what `cluster.json` says. Files of older versions name the overlay only.
    pub(crate) fn read(overlay: OverlayKind, written: &Map<String, Value>) -> Result<Protocol, String> {
        let mut protocol = Protocol(BTreeMap::from([(OVERLAY, overlays::number(overlay))]));
        for (name, value) in written {
            let number = (0..FIELDS.len() as u64).find(|number| key(*number) == *name);
            let number = number.ok_or_else(|| format!("it names a setting unknown here, {name:?}"))?;
            let value = match (&FIELDS[number as usize].unit, value) {
                (Unit::Word(words), Value::String(text)) => {
                    words.iter().position(|word| word == text).map(|at| at as u64)
                }
                (Unit::Word(_), _) => None,
                (_, value) => value.as_u64(),
            };
            let value = value.ok_or_else(|| format!("{name:?} has no value that is known here"))?;
            protocol.0.insert(number, value);
        }
        Ok(protocol)
    }
}

/// Returns the set with one setting, or the empty set for a number no set can hold.
pub(crate) fn bit(number: u64) -> u64 {
    u32::try_from(number).ok().and_then(|number| 1_u64.checked_shl(number)).unwrap_or(0)
}

/// Returns the set with these settings.
pub(crate) fn set_of(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |set, number| set | bit(*number))
}

/// Returns the set with the setting of this name: empty if all nodes may have their own.
pub(crate) fn named(name: &str) -> u64 {
    FIELDS.iter().position(|field| field.name == name).map_or(0, |number| bit(number as u64))
}

/// Says in which setting a cluster and a node differ, and both values.
pub(crate) fn mismatch(cluster: &str, number: u64, ring: Option<u64>, node: Option<u64>) -> String {
    let (name, ring, node) = (name(number), show(number, ring), show(number, node));
    format!("cluster {cluster} has {name} {ring}, and the node to join has {name} {node} (KR0421)")
}

/// Says what to do about it.
pub(crate) fn remedy(number: u64) -> String {
    match field(number) {
        Some(Field { name, is_flag: true, .. }) => {
            format!("Start the node without --{name}: it takes the cluster's value.")
        }
        Some(Field { name, .. }) => {
            format!("Leave {name} out of the node's settings: it takes the cluster's value.")
        }
        None => "Start the node with the version of Kringle that the cluster has.".into(),
    }
}

fn field(number: u64) -> Option<&'static Field> {
    FIELDS.get(usize::try_from(number).ok()?)
}

/// Returns what people call a setting.
pub(crate) fn name(number: u64) -> String {
    field(number)
        .map_or_else(|| format!("a setting of a newer version ({number})"), |field| field.name.into())
}

/// Returns the name in `cluster.json`.
fn key(number: u64) -> String {
    let unit = if matches!(field(number), Some(Field { unit: Unit::Micros, .. })) { "_us" } else { "" };
    name(number).replace('-', "_") + unit
}

/// Writes a value as people do.
pub(crate) fn show(number: u64, value: Option<u64>) -> String {
    let Some(value) = value else { return "unset".into() };
    match field(number).map(|field| &field.unit) {
        Some(Unit::Micros) => format!("{:?}", Duration::from_micros(value)),
        Some(Unit::Word(words)) => {
            let word = usize::try_from(value).ok().and_then(|at| words.get(at));
            word.map_or_else(|| format!("unknown ({value})"), |word| (*word).into())
        }
        Some(Unit::Count) | None => value.to_string(),
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unusual() -> Settings {
        let mut settings =
            Settings { leaf_set: 16, slots: 64, successors: 5, replicas: 2, ..Settings::default() };
        (settings.overlay, settings.ownership) = (OverlayKind::Chord, Ownership::Hint);
        (settings.base, settings.lease) = (Base::new(2).unwrap(), Duration::from_millis(1500));
        settings.clock_ahead = Duration::from_secs(9);
        settings
    }

    #[test]
    fn names_numbers_and_words_lead_back() {
        for (number, field) in (0..).zip(&FIELDS) {
            assert_eq!((named(field.name), name(number).as_str()), (bit(number), field.name));
        }
        assert_eq!((name(COPIES), name(OVERLAY), named("name")), ("copies".into(), "overlay".into(), 0));
        for kind in [OverlayKind::Pastry, OverlayKind::Chord] {
            assert_eq!(show(OVERLAY, Some(overlays::number(kind))), overlays::name(kind));
        }
        assert_eq!((show(4, Some(1_500_000)), show(3, Some(7))), ("1.5s".into(), "unknown (7)".into()));
        assert_eq!((bit(63), bit(64), bit(u64::MAX)), (1 << 63, 0, 0));
    }

    #[test]
    fn greetings_say_nothing_of_defaults_and_all_of_the_rest() {
        assert_eq!(Protocol::of(&Settings::default()).told(), []);
        let protocol = Protocol::of(&unusual());
        let overlay = (OVERLAY, protocol.value(OVERLAY).unwrap());
        assert_eq!(Protocol::heard(protocol.told().into_iter().chain([overlay])), protocol);
        let newer = Protocol::heard([(40, 1)]);
        assert_eq!(Protocol::of(&Settings::default()).differences(&newer), [40]);
    }

    #[test]
    fn every_setting_is_applied_and_an_impossible_value_is_refused_by_name() {
        let mut settings = Settings::default();
        Protocol::of(&unusual()).apply(ALL, &mut settings).unwrap();
        assert_eq!(Protocol::of(&settings), Protocol::of(&unusual()));
        let mut same = Settings::default();
        Protocol::of(&unusual()).apply(named("base"), &mut same).unwrap();
        assert_eq!(same, Settings { base: Base::new(2).unwrap(), ..Settings::default() });
        for (number, value) in
            [(0, 2), (1, 9), (2, 1 << 16), (3, 2), (5, 1 << 32), (7, 256), (8, 1), (9, 160), (10, 256)]
        {
            let error = Protocol::heard([(number, value)]).apply(ALL, &mut Settings::default()).unwrap_err();
            assert!(error.contains(&name(number)), "{error}");
        }
        // A long lease brings the time limits it needs.
        let long = Protocol::heard([(4, 600_000_000)]);
        long.apply(ALL, &mut settings).unwrap();
        assert!(settings.check().is_ok());
    }

    #[test]
    fn files_keep_every_value_and_unknown_names_are_refused() {
        let protocol = Protocol::of(&unusual());
        let written = protocol.written();
        assert_eq!(
            (written["lease_us"].as_u64(), written["ownership"].as_str()),
            (Some(1_500_000), Some("hint"))
        );
        assert_eq!(Protocol::read(OverlayKind::Chord, &written), Ok(protocol.clone()));
        let older = Protocol::read(OverlayKind::Chord, &Map::new()).unwrap();
        assert!(protocol.differences(&older).is_empty());
        for (name, value) in [("mesh", Value::from(1)), ("base", "four".into()), ("hash", "sha1".into())] {
            let mut written = written.clone();
            written.insert(name.into(), value);
            assert!(Protocol::read(OverlayKind::Chord, &written).unwrap_err().contains(name));
        }
    }
}
