//! Numbers for people: thousands apart, no more digits than they are worth.

/// What stands where there is no number.
pub(super) const NONE: &str = "–";

/// Returns a whole number with thousands separators.
pub(super) fn grouped(number: u64) -> String {
    group(&number.to_string())
}

/// Returns a number with so many digits after the point and thousands separators; [`NONE`] if it is none.
pub(super) fn fixed(number: f64, digits: u8) -> String {
    if !number.is_finite() {
        return NONE.to_owned();
    }
    let text = format!("{:.*}", usize::from(digits), number.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    // No minus before what was rounded to nothing.
    let negative = number < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    format!("{}{}{rest}", if negative { "-" } else { "" }, group(whole))
}

/// Returns how many digits after the point a number needs to be written in full, up to `most`.
pub(super) fn needed(number: f64, most: u8) -> u8 {
    let text = format!("{:.*}", usize::from(most), number);
    text.split_once('.').map_or(0, |(_, rest)| rest.trim_end_matches('0').len() as u8)
}

/// Returns a size with a binary unit: `1.9 GiB`.
pub(super) fn iec(bytes: u64) -> String {
    let mut size = bytes as f64;
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = "";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        // As shown, not as is: 1,023.96 KiB would be told as 1,024.0 KiB.
        if unit.is_empty() || size >= 1023.95 {
            (size, unit) = (size / 1024.0, next);
        }
    }
    format!("{size:.1} {unit}")
}

fn group(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(100), "100");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(fixed(1234.5678, 2), "1,234.57");
        assert_eq!(fixed(-1234.5, 0), "-1,234");
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(f64::NAN, 2), "–");
        assert_eq!(needed(3.96, 6), 2);
        assert_eq!(needed(4.0, 6), 0);
    }

    #[test]
    fn sizes_change_unit_before_they_show_1024() {
        let told: Vec<_> = [0, 1023, 1024, 1536, (1 << 20) - 1, 2_040_109_466, u64::MAX].map(iec).to_vec();
        assert_eq!(told, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.9 GiB", "16.0 EiB"]);
    }
}
