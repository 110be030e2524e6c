//! Patterns for keys: `*` stands for any bytes, `?` for one byte, `\` makes the byte after it plain.
//!
//! A key is any bytes, so a `?` is a byte too, not a character.

use std::fmt;

/// Bytes a pattern may have.
pub const GLOB_MAX: usize = 1024;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Plain(u8),
    One,
    Any,
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobError {
    /// It ends with a `\` that nothing follows.
    Open,
    /// It has too many bytes.
    TooLong,
}

impl fmt::Display for GlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GlobError::Open => {
                write!(f, "the pattern ends with a \\ that nothing follows; write \\\\ for a backslash")
            }
            GlobError::TooLong => write!(f, "the pattern is longer than {GLOB_MAX} bytes"),
        }
    }
}

impl std::error::Error for GlobError {}

impl Glob {
    /// Reads a pattern.
    pub fn new(text: impl AsRef<[u8]>) -> Result<Glob, GlobError> {
        let text = text.as_ref();
        if text.len() > GLOB_MAX {
            return Err(GlobError::TooLong);
        }
        let (mut parts, mut bytes) = (Vec::with_capacity(text.len()), text.iter());
        while let Some(byte) = bytes.next() {
            let part = match byte {
                b'*' => Part::Any,
                b'?' => Part::One,
                b'\\' => Part::Plain(*bytes.next().ok_or(GlobError::Open)?),
                plain => Part::Plain(*plain),
            };
            // Two stars in a row say no more than one.
            if part != Part::Any || parts.last() != Some(&Part::Any) {
                parts.push(part);
            }
        }
        Ok(Glob { parts })
    }

    /// Says whether a key fits.
    pub fn matches(&self, key: &[u8]) -> bool {
        self.judge(key).0
    }

    /// Says whether a key fits, and how many steps it took to see, so that a walk can end before a nasty pattern has
    /// cost too much. At most the length of the key times that of the pattern.
    pub fn judge(&self, key: &[u8]) -> (bool, u64) {
        let (mut at, mut part, mut steps) = (0, 0, 0);
        // The last star, and how far into the key it reaches. Going back to an earlier one never helps.
        let mut star: Option<(usize, usize)> = None;
        while at < key.len() {
            steps += 1;
            match self.parts.get(part) {
                Some(Part::Any) => {
                    star = Some((part, at));
                    part += 1;
                    continue;
                }
                Some(Part::One) => (at, part) = (at + 1, part + 1),
                Some(Part::Plain(byte)) if *byte == key[at] => (at, part) = (at + 1, part + 1),
                _ => match star {
                    Some((before, reach)) => {
                        star = Some((before, reach + 1));
                        (at, part) = (reach + 1, before + 1);
                    }
                    None => return (false, steps),
                },
            }
        }
        (self.parts[part..].iter().all(|part| *part == Part::Any), steps + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_bytes() {
        for (pattern, key, fits) in [
            ("", &b""[..], true),
            ("", b"a", false),
            ("*", b"", true),
            ("*", b"\xff\x00", true),
            ("a*", b"abc", true),
            ("a*", b"ba", false),
            ("*c", b"abcc", true),
            ("a*b*c", b"a-b-b-c", true),
            ("a*b*c", b"a-c-b", false),
            ("?", b"\xff", true),
            ("?", "\u{e9}".as_bytes(), false),
            ("??", "\u{e9}".as_bytes(), true),
            ("user:?", b"user:", false),
            ("\\*", b"*", true),
            ("\\*", b"a", false),
            ("**a**", b"xax", true),
        ] {
            assert_eq!(Glob::new(pattern).unwrap().matches(key), fits, "{pattern} {key:?}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        assert_eq!(Glob::new("a\\"), Err(GlobError::Open));
        assert_eq!(Glob::new("x".repeat(1025)), Err(GlobError::TooLong));
        assert!(Glob::new("\\\\").unwrap().matches(b"\\"));
    }

    #[test]
    fn a_nasty_pattern_is_counted() {
        let (fits, steps) = Glob::new("*a".repeat(20) + "b").unwrap().judge(&[b'a'; 1000]);
        assert!(!fits && steps < 50_000, "{steps}");
    }

    #[test]
    fn every_short_pattern_agrees_with_the_obvious_way() {
        fn plain(parts: &[u8], key: &[u8]) -> bool {
            match (parts.split_first(), key.split_first()) {
                (None, _) => key.is_empty(),
                (Some((b'*', rest)), None) => plain(rest, key),
                (Some((b'*', rest)), Some((_, tail))) => plain(rest, key) || plain(parts, tail),
                (Some(_), None) => false,
                (Some((part, rest)), Some((byte, tail))) => {
                    (*part == b'?' || part == byte) && plain(rest, tail)
                }
            }
        }
        let strings = |letters: &'static [u8], most: usize| {
            let mut all: Vec<Vec<u8>> = vec![Vec::new()];
            let mut from = 0;
            for _ in 0..most {
                let to = all.len();
                for at in from..to {
                    all.extend(
                        letters
                            .iter()
                            .map(|letter| [all[at].as_slice(), &[*letter]].concat())
                            .collect::<Vec<_>>(),
                    );
                }
                from = to;
            }
            all
        };
        for pattern in strings(b"ab*?", 5) {
            let glob = Glob::new(&pattern).unwrap();
            for key in strings(b"ab", 5) {
                assert_eq!(glob.matches(&key), plain(&pattern, &key), "{pattern:?} {key:?}");
            }
        }
    }
}
