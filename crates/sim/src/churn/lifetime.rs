//! How long nodes stay: the Weibull distribution, of which the exponential one is a case.

use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};

/// A distribution of session lengths.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lifetime {
    /// One over the shape: a session is the scale times this power of an exponential number.
    power: f64,
    /// In seconds.
    scale: f64,
    /// In seconds.
    mean: f64,
}

const MEAN_MIN: Duration = Duration::from_millis(1);
const MEAN_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl Lifetime {
    pub(super) fn new(shape: f64, mean: Duration) -> Result<Lifetime, String> {
        if !(0.2..=5.0).contains(&shape) {
            return Err(format!("a shape of {shape}; expected 0.2 to 5"));
        }
        if !(MEAN_MIN..=MEAN_MAX).contains(&mean) {
            return Err(format!("a mean session of {mean:?}; expected a millisecond to ten years"));
        }
        let (power, mean) = (1.0 / shape, mean.as_secs_f64());
        Ok(Lifetime { power, scale: mean / gamma(1.0 + power), mean })
    }

    /// In seconds.
    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Draws the length of a session.
    pub(super) fn session(&self, dice: &mut SeededDice) -> Duration {
        seconds(self.scale * standard(dice).powf(self.power))
    }

    /// Draws how long a node will stay that is found in a system long in use.
    ///
    /// The longer a session, the likelier it is to be found under way, and one is found at any point of it. Weighing a
    /// Weibull session by its length turns the exponential number in it into a gamma one.
    pub(super) fn remaining(&self, dice: &mut SeededDice) -> Duration {
        let whole = self.scale * gamma_number(1.0 + self.power, dice).powf(self.power);
        seconds(whole * unit(dice))
    }
}

/// Draws an exponential time.
pub(super) fn exponential(mean_seconds: f64, dice: &mut SeededDice) -> Duration {
    seconds(mean_seconds * standard(dice))
}

/// What is too far away for a duration never happens.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Draws from 0 up to but not including 1.
fn unit(dice: &mut SeededDice) -> f64 {
    (dice.roll() >> 11) as f64 / (1u64 << 53) as f64
}

/// Draws an exponential number with mean 1.
fn standard(dice: &mut SeededDice) -> f64 {
    -(1.0 - unit(dice)).ln()
}

/// Draws a gamma number of this shape and scale 1: exponential numbers for the whole part of the shape, and for the
/// rest the share that Johnk's rejection method finds of one.
fn gamma_number(shape: f64, dice: &mut SeededDice) -> f64 {
    let whole: f64 = (0..shape as u32).map(|_| standard(dice)).sum();
    let rest = shape.fract();
    if rest == 0.0 {
        return whole;
    }
    loop {
        let (a, b) = (unit(dice).powf(1.0 / rest), unit(dice).powf(1.0 / (1.0 - rest)));
        if a + b > 0.0 && a + b <= 1.0 {
            return whole + standard(dice) * a / (a + b);
        }
    }
}

/// Returns the gamma function of a number of at least 1 (Lanczos, with the usual nine coefficients).
fn gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const COEFFICIENTS: [f64; 8] = [
        676.5203681218851,
        -1259.1392167224028,
        771.3234287776531,
        -176.6150291621406,
        12.507343278686905,
        -0.13857109526572012,
        9.984369578019572e-6,
        1.5056327351493116e-7,
    ];
    let x = x - 1.0;
    let mut sum = 0.9999999999998099;
    for (step, coefficient) in (1u32..).zip(COEFFICIENTS) {
        sum += coefficient / (x + f64::from(step));
    }
    let t = x + G + 0.5;
    std::f64::consts::TAU.sqrt() * t.powf(x + 0.5) * (-t).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    fn mean(mut draw: impl FnMut(&mut SeededDice) -> f64) -> f64 {
        let mut dice = SeededDice::new(1);
        (0..DRAWS).map(|_| draw(&mut dice)).sum::<f64>() / f64::from(DRAWS)
    }

    #[test]
    fn gamma_is_the_factorial_and_what_lies_between() {
        let known = [(1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (6.0, 120.0), (1.5, 0.886_226_925_452_758)];
        for (x, expected) in known {
            assert!((gamma(x) / expected - 1.0).abs() < 1e-12, "{x}: {}", gamma(x));
        }
    }

    #[test]
    fn gamma_numbers_have_the_mean_and_variance_of_their_shape() {
        for shape in [1.0, 1.2, 2.5, 3.0, 5.9] {
            let first = mean(|dice| gamma_number(shape, dice));
            let second = mean(|dice| (gamma_number(shape, dice) - shape).powi(2));
            assert!((first / shape - 1.0).abs() < 0.01, "{shape}: mean {first}");
            assert!((second / shape - 1.0).abs() < 0.03, "{shape}: variance {second}");
        }
    }

    #[test]
    fn sessions_have_the_mean_told_and_the_spread_of_their_shape() {
        for (shape, tolerance) in [(0.5, 0.02), (0.7, 0.02), (1.0, 0.01), (2.0, 0.01)] {
            let lifetime = Lifetime::new(shape, Duration::from_secs(100)).unwrap();
            let found = mean(|dice| lifetime.session(dice).as_secs_f64());
            assert!((found / 100.0 - 1.0).abs() < tolerance, "{shape}: {found}");
            // A share of 1/e outlasts the scale, whatever the shape.
            let scale = 100.0 / gamma(1.0 + 1.0 / shape);
            let longer = mean(|dice| f64::from(lifetime.session(dice).as_secs_f64() > scale));
            assert!((longer - 0.3679).abs() < 0.005, "{shape}: {longer}");
        }
        let half = Lifetime::new(0.5, Duration::from_secs(100)).unwrap();
        assert_eq!((half.scale, half.power, half.mean()), (100.0 / gamma(3.0), 2.0, 100.0));
    }

    /// The mean of what remains is the second moment of a session over twice its mean. For shape 0.5 these are 24 and 2
    /// of the scale, which makes three means; for the exponential distribution it is the mean itself.
    #[test]
    fn who_is_found_under_way_stays_longer_than_a_newcomer_in_heavy_tails() {
        for (shape, expected) in [(1.0, 100.0), (0.5, 300.0), (2.0, 63.66)] {
            let lifetime = Lifetime::new(shape, Duration::from_secs(100)).unwrap();
            let found = mean(|dice| lifetime.remaining(dice).as_secs_f64());
            assert!((found / expected - 1.0).abs() < 0.03, "{shape}: {found}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let refused = |shape, mean| Lifetime::new(shape, mean).unwrap_err();
        let hour = Duration::from_secs(3600);
        assert_eq!(refused(0.1, hour), "a shape of 0.1; expected 0.2 to 5");
        assert_eq!(refused(f64::NAN, hour), "a shape of NaN; expected 0.2 to 5");
        let problem = refused(1.0, Duration::ZERO);
        assert_eq!(problem, "a mean session of 0ns; expected a millisecond to ten years");
        assert!(Lifetime::new(1.0, MEAN_MAX * 2).is_err());
    }
}
