//! Bytes as text: hexadecimal for files, base 32 (RFC 4648, lower case, no padding) for tokens that people paste.
//!
//! Reading is strict: every byte string has exactly one text.

const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Writes two lower-case hexadecimal digits per byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).map(|half| DIGITS[usize::from(half)] as char).collect()
}

/// Reads what [`hex`] writes.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let value = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

/// Writes five bits per letter; bits missing in the last one are zero.
pub(crate) fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity((bytes.len() * 8).div_ceil(5));
    let (mut held, mut bits) = (0u32, 0);
    for byte in bytes {
        held = held << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(BASE32[(held >> bits & 31) as usize] as char);
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        text.push(BASE32[(held << (5 - bits) & 31) as usize] as char);
    }
    text
}

/// Reads what [`base32`] writes. `None` for a foreign letter, a length no bytes give, or left-over bits that are set.
pub(crate) fn unbase32(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 5 / 8);
    let (mut held, mut bits) = (0u32, 0);
    for letter in text.bytes() {
        let value = match letter {
            b'a'..=b'z' => letter - b'a',
            b'2'..=b'7' => letter - b'2' + 26,
            _ => return None,
        };
        held = held << 5 | u32::from(value);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    (bits < 5 && held == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_one_text_per_value() {
        assert_eq!(hex(&[0x00, 0x9f, 0xff]), "009fff");
        assert_eq!(unhex("009fff"), Some(vec![0x00, 0x9f, 0xff]));
        for wrong in ["0", "0g", "FF", " 00", "é"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn base32_follows_the_vectors_of_rfc_4648() {
        let vectors = [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foo", "mzxw6"),
            ("foob", "mzxw6yq"),
            ("fooba", "mzxw6ytb"),
            ("foobar", "mzxw6ytboi"),
        ];
        for (bytes, text) in vectors {
            assert_eq!(base32(bytes.as_bytes()), text);
            assert_eq!(unbase32(text), Some(bytes.as_bytes().to_vec()));
        }
        for wrong in ["m", "mz0q", "MY", "mz", "mzx", "my======"] {
            assert_eq!(unbase32(wrong), None, "{wrong}");
        }
    }
}
