//! Bytes from outside, shown in JSON.
//!
//! JSON only demands that the characters below U+0020 are escaped. A terminal obeys some more, and a browser that is
//! told the wrong type looks for tags, so those are escaped too.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;

/// Bytes as JSON: a text if they are UTF-8, and `{"base64": ...}` otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a text or {\"base64\": ...}", deny_unknown_fields)]
pub enum Bytes {
    /// They are UTF-8.
    Text(String),
    /// They are not.
    Other {
        /// The bytes in base64, with padding.
        base64: String,
    },
}

impl Bytes {
    /// Chooses the way to show these bytes.
    pub fn new(bytes: &[u8]) -> Bytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => Bytes::Text(text.into()),
            Err(_) => Bytes::Other { base64: base64(bytes) },
        }
    }

    /// Returns the bytes. `None` if what should be base64 is not.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Bytes::Text(text) => Some(text.into_bytes()),
            Bytes::Other { base64 } => unbase64(&base64),
        }
    }
}

/// Shows bytes in a line of text: as they are if they are text a terminal only prints, escaped otherwise, and not too
/// many of them.
pub fn line(bytes: &[u8]) -> String {
    const MOST: usize = 80;
    let shown = match std::str::from_utf8(bytes) {
        Ok(text)
            if !text.chars().any(|c| c.is_control() || is_acted_on(c) && !matches!(c, '<' | '>' | '&')) =>
        {
            text.to_owned()
        }
        _ => bytes.escape_ascii().to_string(),
    };
    match shown.chars().count() > MOST {
        true => shown.chars().take(MOST).chain("...".chars()).collect(),
        false => shown,
    }
}

/// Reads base64, with or without padding. `None` if it is not.
pub fn unbase64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    if text.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        let mut bits = 0_u32;
        for character in group {
            bits = bits << 6 | u32::from(letter(*character)?);
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

fn letter(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Writes bytes in base64, with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Writes a document as JSON that is safe to look at. Fails only for types JSON can not hold.
pub fn json(document: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    document.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Careful))?;
    Ok(bytes)
}

/// Escapes what terminals and browsers would act on.
struct Careful;

impl Formatter for Careful {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        let mut start = 0;
        for (at, found) in text.char_indices().filter(|(_, c)| is_acted_on(*c)) {
            writer.write_all(&text.as_bytes()[start..at])?;
            write!(writer, "\\u{:04x}", u32::from(found))?;
            start = at + found.len_utf8();
        }
        writer.write_all(&text.as_bytes()[start..])
    }
}

/// Control characters of both kinds, marks that turn the direction of writing, line ends of JavaScript, and tags.
fn is_acted_on(c: char) -> bool {
    matches!(c, '<' | '>' | '&' | '\u{7f}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(unbase64(text).unwrap(), bytes.as_bytes());
            assert_eq!(unbase64(text.trim_end_matches('=')).unwrap(), bytes.as_bytes());
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
        assert_eq!(unbase64("//79"), Some(vec![0xff, 0xfe, 0xfd]));
        assert_eq!((unbase64("Z"), unbase64("Zm9*")), (None, None));
    }

    #[test]
    fn bytes_that_are_no_text_are_marked() {
        assert_eq!(json(&Bytes::new(b"hi")).unwrap(), b"\"hi\"");
        assert_eq!(json(&Bytes::new(b"\xff")).unwrap(), b"{\"base64\":\"/w==\"}");
        for bytes in [&b"hi"[..], b"\xff", b""] {
            let read: Bytes = serde_json::from_slice(&json(&Bytes::new(bytes)).unwrap()).unwrap();
            assert_eq!(read.into_bytes().unwrap(), bytes);
        }
    }

    #[test]
    fn keys_are_shown_in_one_harmless_line() {
        assert_eq!(line("caf\u{e9} <1>".as_bytes()), "caf\u{e9} <1>");
        assert_eq!(line(b"a\nb\x1b\xff"), "a\\nb\\x1b\\xff");
        assert_eq!(line(&[b'x'; 500]).len(), 83);
    }

    #[test]
    fn nothing_a_terminal_or_browser_acts_on_comes_out_and_all_of_it_comes_back() {
        let text = "<script>\u{1b}[2J\u{7f}\u{9b}31m\u{2028}\u{202e}&\"\\\n\u{e9}\u{0}";
        let written = String::from_utf8(json(&text).unwrap()).unwrap();
        assert!(!written.contains(|c: char| c.is_control() || is_acted_on(c)), "{written}");
        assert!(written.contains('\u{e9}'));
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }
}
