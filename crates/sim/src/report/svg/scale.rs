//! From numbers to places along an axis, and which numbers are written beside it.

use super::super::number::{fixed, needed};
use super::SMALL;
use super::canvas::width;

/// How the numbers of an axis are placed.
pub(super) struct Scale {
    /// Both ends, as logarithms if it is logarithmic.
    from: f64,
    to: f64,
    log: bool,
}

/// A number written beside an axis.
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// How an axis ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// A little beyond the outermost numbers.
    Loose,
    /// At ticks; at zero, if the numbers are not all far from it.
    Ticks,
    /// At ticks, with zero among them.
    Zero,
}

impl Scale {
    /// Says whether a number has a place on such an axis. What is beyond all measure has none, for spans between
    /// such numbers overflow.
    pub(super) fn has_place(value: f64, log: bool) -> bool {
        value.abs() < 1e100 && (!log || value > 1e-100)
    }

    /// A scale for these numbers, which all have a place; nothing if there are none.
    pub(super) fn new(values: impl Iterator<Item = f64> + Clone, log: bool, ends: Ends) -> Option<Scale> {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        if least > most {
            return None;
        }
        Some(if log {
            Scale::logarithmic(least.log10(), most.log10(), ends)
        } else {
            Scale::linear(least, most, ends)
        })
    }

    /// A scale of `groups` places of equal width around 0, 1, 2, …
    pub(super) fn groups(groups: usize) -> Scale {
        Scale { from: -0.5, to: groups as f64 - 0.5, log: false }
    }

    fn logarithmic(mut from: f64, mut to: f64, ends: Ends) -> Scale {
        if ends == Ends::Loose {
            // A lone number gets the middle.
            let beyond = if to - from < 1e-9 { 0.5 } else { 0.04 * (to - from) };
            (from, to) = (from - beyond, to + beyond);
        } else {
            // Down to a whole decade, by a hair less for numbers that are one; bars need some height above it.
            let lower = (from - 1e-9).floor();
            (from, to) = (if ends == Ends::Zero { lower } else { (from + 1e-9).floor() }, (to - 1e-9).ceil());
            to = to.max(from + 1.0);
        }
        Scale { from, to, log: true }
    }

    fn linear(mut from: f64, mut to: f64, ends: Ends) -> Scale {
        let size = from.abs().max(to.abs());
        if ends == Ends::Zero || (ends == Ends::Ticks && to - from >= 0.25 * size) {
            (from, to) = (from.min(0.0), to.max(0.0));
        }
        // What differs by rounding only is equal, and needs room around it all the same.
        if to - from <= 1e-9 * size || to - from < 1e-90 {
            let room = if size < 1e-90 { 1.0 } else { 0.5 * size };
            (from, to) = match ends {
                Ends::Loose => (from - room, to + room),
                _ if from >= 0.0 => (0.0, to + room),
                _ => (from - room, 0.0),
            };
        }
        if ends == Ends::Loose {
            let beyond = 0.04 * (to - from);
            return Scale { from: from - beyond, to: to + beyond, log: false };
        }
        if ends == Ends::Zero && from < 0.0 {
            // Numbers under bars must not run into those of the axis.
            from -= 0.06 * (to - from);
        }
        let step = step((to - from) / 5.0);
        // By a hair less than a whole step beyond, for sums that miss a tick by rounding.
        Scale { from: step * (from / step + 1e-9).floor(), to: step * (to / step - 1e-9).ceil(), log: false }
    }

    /// Returns how far along the axis a number is, 0 to 1.
    pub(super) fn part(&self, value: f64) -> f64 {
        let value = if self.log { value.log10() } else { value };
        (value - self.from) / (self.to - self.from)
    }

    /// Returns where bars stand: at zero, or at the end if there is none.
    pub(super) fn floor(&self) -> f64 {
        if self.log { 10f64.powf(self.from) } else { 0f64.clamp(self.from, self.to) }
    }

    /// Returns the numbers to write along an axis of this length; `room` is how much of it a label takes.
    pub(super) fn ticks(&self, length: f64, room: impl Fn(&str) -> f64) -> Vec<Tick> {
        let fit = |ticks: &Vec<Tick>| {
            let end =
                |tick: &Tick, side: f64| self.part(tick.value) * length + side * room(&tick.label) / 2.0;
            ticks.windows(2).all(|pair| end(&pair[0], 1.0) <= end(&pair[1], -1.0))
        };
        if self.log {
            // Few decades need numbers between them, many do not even have room for all.
            let between: [(usize, &[f64]); 2] = [(3, &[1.0, 2.0, 5.0]), (2, &[1.0, 2.0, 3.0, 5.0, 7.0])];
            let many = self.to.floor() - self.from.ceil() >= 2.0;
            let between =
                between.into_iter().filter(|_| !many).map(|(least, all)| (least, self.decades(1, all)));
            let sparse = [1, 2, 3, 5, 10, 20, 50].into_iter().map(|every| (2, self.decades(every, &[1.0])));
            let mut choices = between.chain(sparse);
            if let Some((_, ticks)) = choices.find(|(least, ticks)| ticks.len() >= *least && fit(ticks)) {
                return ticks;
            }
        }
        let (from, to) =
            if self.log { (10f64.powf(self.from), 10f64.powf(self.to)) } else { (self.from, self.to) };
        let ticks = (1..=6).rev().map(|parts| even(from, to, step((to - from) / f64::from(parts))));
        let mut ticks: Vec<Vec<Tick>> = ticks.collect();
        let fitting = ticks.iter().position(fit).unwrap_or(ticks.len() - 1);
        ticks.swap_remove(fitting)
    }

    /// Returns the numbers between the decades of a logarithmic axis, which get a mark but no label.
    pub(super) fn between_ticks(&self) -> Vec<f64> {
        if !self.log || self.to - self.from > 8.0 {
            return Vec::new();
        }
        let marks = self.decades(1, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        marks.into_iter().map(|tick| tick.value).collect()
    }

    /// The multiples of powers of ten that are on a logarithmic axis.
    fn decades(&self, every: i32, factors: &[f64]) -> Vec<Tick> {
        let mut values = Vec::new();
        for decade in
            (self.from.floor() as i32..=self.to.ceil() as i32).filter(|decade| decade.rem_euclid(every) == 0)
        {
            values.extend(factors.iter().map(|factor| (*factor, decade)));
        }
        let on = |(factor, decade): &(f64, i32)| {
            let place = f64::from(*decade) + factor.log10();
            (self.from - 1e-9..=self.to + 1e-9).contains(&place)
        };
        // Written out while that can be read at a glance; all in the same way.
        let plain = self.from >= -4.1 && self.to <= 7.1;
        let label = |factor: f64, decade: i32| match (plain, factor == 1.0) {
            (true, _) => fixed(factor * 10f64.powi(decade), (-decade).max(0) as u8),
            (false, true) => format!("10{}", raised(decade)),
            (false, false) => format!("{factor}·10{}", raised(decade)),
        };
        let tick = |(factor, decade): (f64, i32)| Tick {
            value: factor * 10f64.powi(decade),
            label: label(factor, decade),
        };
        values.into_iter().filter(on).map(tick).collect()
    }
}

/// The room of a label that is written along its axis.
pub(super) fn across(label: &str) -> f64 {
    width(label, SMALL) + 12.0
}

/// Returns a number in full, or its first digits if it has many.
pub(super) fn short(value: f64) -> String {
    rounded(value, needed(value, telling(value, 6)))
}

/// Returns numbers as they are written over bars: all to the same digit, of which the largest has three; only what
/// is so small that rounding would distort it gets more.
pub(super) fn alike(values: &[f64]) -> Vec<String> {
    let largest = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let most = telling(largest, 3);
    let digits = values.iter().map(|value| needed(*value, most)).max().unwrap_or_default();
    let unit = 0.1f64.powi(digits.into());
    let label = |value: &f64| match value.abs() {
        0.0 => "0".to_owned(),
        size if size < unit => rounded(*value, telling(size, 1)),
        size if size < 10.0 * unit => rounded(*value, digits.max(needed(*value, telling(size, 2)))),
        _ => rounded(*value, digits),
    };
    values.iter().map(label).collect()
}

/// Returns how many digits after the point show so many digits that tell.
fn telling(value: f64, wanted: i32) -> u8 {
    if value == 0.0 { 0 } else { (wanted - 1 - value.abs().log10().floor() as i32).clamp(0, 9) as u8 }
}

/// Returns a number with so many digits, or by a power of ten if it would be mostly zeros.
fn rounded(value: f64, digits: u8) -> String {
    if value != 0.0 && !(1e-5..1e12).contains(&value.abs()) {
        scientific(value)
    } else {
        fixed(value, digits)
    }
}

fn scientific(value: f64) -> String {
    let text = format!("{value:.3e}");
    let (factor, power) = text.split_once('e').unwrap_or((&text, "0"));
    let factor =
        if factor.contains('.') { factor.trim_end_matches('0').trim_end_matches('.') } else { factor };
    format!("{factor}·10{}", raised(power.parse().unwrap_or_default()))
}

/// The multiples of a step between two ends.
fn even(from: f64, to: f64, step: f64) -> Vec<Tick> {
    let (first, last) = ((from / step - 1e-9).ceil(), (to / step + 1e-9).floor());
    let digits = (-step.log10().floor()).clamp(0.0, 12.0) as u8;
    let readable = (1e-5..1e12).contains(&from.abs().max(to.abs()));
    let label = |value: f64| match value {
        0.0 if !readable => "0".to_owned(),
        _ if !readable => scientific(value),
        _ => fixed(value, digits),
    };
    // Far from zero the steps may be finer than the numbers; then there are too many to be true.
    let count = (last - first).clamp(0.0, 20.0) as u32;
    (0..=count)
        .map(|at| (first + f64::from(at)) * step)
        .map(|value| Tick { value, label: label(value) })
        .collect()
}

/// Returns the next 1, 2 or 5 times a power of ten.
fn step(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.log10().floor());
    let factor =
        [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= at_least * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * power
}

fn raised(power: i32) -> String {
    let raise = |letter| match letter {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32(digit as u32 - '0' as u32 + '⁰' as u32).unwrap_or(digit),
    };
    power.to_string().chars().map(raise).collect()
}
