//! Numbers of bytes, as people write them.

/// Reads a number of bytes: `4096`, `64KiB`, `8MiB`, `2GiB`.
pub(crate) fn read(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(format!("{text:?} is not a number of bytes (for instance 8MiB)")),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("{text:?} is not a number of bytes (for instance 8MiB)"))?;
    number.checked_mul(unit).ok_or_else(|| format!("{text:?} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_powers_of_two() {
        let good = ["0", "4096", "5B", "64KiB", "8MiB", "2GiB"].map(|text| read(text).unwrap());
        assert_eq!(good, [0, 4096, 5, 64 << 10, 8 << 20, 2 << 30]);
        for bad in ["", "MiB", "8 MiB", "8MB", "-1", "1.5GiB", "99999999999GiB"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
