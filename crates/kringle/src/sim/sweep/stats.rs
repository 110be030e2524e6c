//! What a handful of runs says about the mean.

/// The quantiles of Student's t at 0.975, for 1 to 29 degrees of freedom.
const T: [f64; 29] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
];

/// The same of the normal distribution, which the others tend to.
const Z: f64 = 1.959_964;

/// Some values, in short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// How many there are.
    pub(super) count: usize,
    pub(super) mean: f64,
    /// Half of the interval that holds the true mean in 95 of 100 cases; nothing is known from one value.
    pub(super) half: Option<f64>,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Returns nothing of no values. What is not a number does not count.
    pub(super) fn of(values: &[f64]) -> Option<Spread> {
        let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let count = values.len();
        let first = *values.first()?;
        let mean = values.iter().sum::<f64>() / count as f64;
        let half = (count > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / (count - 1) as f64).sqrt();
            quantile(count - 1) * deviation / (count as f64).sqrt()
        });
        let min = values.iter().copied().fold(first, f64::min);
        let max = values.iter().copied().fold(first, f64::max);
        Some(Spread { count, mean, half, min, max })
    }
}

/// Returns Student's t at 0.975. Past the table the first terms of its expansion are good to four digits.
fn quantile(freedom: usize) -> f64 {
    T.get(freedom.wrapping_sub(1)).copied().unwrap_or_else(|| {
        let n = freedom as f64;
        let second = 5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z;
        Z + (Z.powi(3) + Z) / (4.0 * n) + second / (96.0 * n * n)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let spread = Spread::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((spread.count, spread.mean, spread.min, spread.max), (5, 3.0, 1.0, 5.0));
        // 2.776 times the square root of 2.5 / 5.
        assert!((spread.half.unwrap() - 1.963).abs() < 0.001);
        assert_eq!(Spread::of(&[7.0, 7.0]).unwrap().half, Some(0.0));
    }

    #[test]
    fn few_values_promise_nothing() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[f64::NAN]), None);
        let one = Spread::of(&[f64::INFINITY, 2.0]).unwrap();
        assert_eq!((one.count, one.mean, one.half), (1, 2.0, None));
    }

    #[test]
    fn quantiles_go_on_where_the_table_ends() {
        assert_eq!(quantile(1), 12.706);
        assert_eq!(quantile(29), 2.045);
        for (freedom, known) in [(30, 2.0423), (60, 2.0003), (120, 1.9799), (10_000, 1.9602)] {
            assert!((quantile(freedom) - known).abs() < 0.0005, "{freedom}: {}", quantile(freedom));
        }
    }
}
