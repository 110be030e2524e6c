//! How teaching ids are written: a number of digits in base 2^b.
//!
//! The digits sit at the top of the 128-bit id and the rest is zero. So a ring of 4^8 points is the product's ring
//! seen from afar: prefixes are the same, and every distance is the small ring's distance times one factor.

use kringle_core::id::{Base, Id, IdError};

use crate::failure::Failure;

/// Base and length of the ids of one teaching ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notation {
    base: Base,
    digits: u8,
}

impl Notation {
    /// Makes a notation, or `None` if b is not 1 to 8 or 128 bits do not hold that many digits.
    pub(crate) fn new(b: u8, digits: u8) -> Option<Notation> {
        let base = Base::new(b)?;
        (1..=base.digits()).contains(&digits).then_some(Notation { base, digits })
    }

    /// Reads what people wrote for b and the number of digits.
    pub(crate) fn read(b: &str, digits: &str) -> Result<Notation, Failure> {
        let base = b.parse().ok().and_then(Base::new).ok_or_else(|| {
            Failure::usage(
                format!("b cannot be {b:?}"),
                "Ids are written in base 2^b; take b from 1 to 8, for instance 4 for hexadecimal digits.",
            )
        })?;
        digits.parse().ok().and_then(|digits| Notation::new(base.bits(), digits)).ok_or_else(|| {
            Failure::usage(
                format!("an id cannot have {digits:?} digits"),
                format!(
                    "Ids have up to 128 bits; in base {} (b={}) take 1 to {} digits.",
                    base.columns(),
                    base.bits(),
                    base.digits()
                ),
            )
        })
    }

    /// Returns the base.
    pub(crate) fn base(self) -> Base {
        self.base
    }

    /// Returns how many digits an id has.
    pub(crate) fn digits(self) -> u8 {
        self.digits
    }

    /// Returns how many characters an id has.
    pub(crate) fn width(self) -> usize {
        let digits = usize::from(self.digits);
        if self.is_dotted() { 3 * digits - 1 } else { digits }
    }

    /// Says whether a digit takes two characters, with a dot between digits.
    pub(crate) fn is_dotted(self) -> bool {
        self.base.bits() > 5
    }

    /// Writes an id.
    pub(crate) fn text(self, id: Id) -> String {
        id.text(self.base, self.digits)
    }

    /// Writes the first `count` digits of an id.
    pub(crate) fn prefix(self, id: Id, count: u8) -> String {
        id.text(self.base, count.min(self.digits))
    }

    /// Writes one digit.
    pub(crate) fn digit(self, value: u8) -> String {
        let id = Id::ZERO.with_digit(0, value, self.base);
        id.expect("digits come from ids of this base").text(self.base, 1)
    }

    /// Writes a distance as a number in the base of the ids, without leading zeros.
    pub(crate) fn distance(self, distance: u128) -> String {
        let text = self.text(Id::new(distance));
        let (zero, last) = if self.is_dotted() { ("00.", 2) } else { ("0", 1) };
        let mut rest = text.as_str();
        while rest.len() > last {
            match rest.strip_prefix(zero) {
                Some(shorter) => rest = shorter,
                None => break,
            }
        }
        rest.to_owned()
    }

    /// Writes an id as in the Pastry paper's table: shared prefix, the digit in question, the rest.
    pub(crate) fn dashed(self, id: Id, row: u8) -> String {
        let text = self.text(id);
        let (step, gap) = if self.is_dotted() { (3, 1) } else { (1, 0) };
        let start = usize::from(row) * step;
        let end = start + step - gap;
        // The dots next to the dashes go: 0a.7f.01 in row 1 is 0a-7f-01.
        let (before, digit, after) = (
            text.get(..start.saturating_sub(gap)).unwrap_or(""),
            text.get(start..end).unwrap_or(""),
            text.get(end + gap..).unwrap_or(""),
        );
        format!("{before}-{digit}-{after}")
    }

    /// Reads an id.
    pub(crate) fn parse(self, text: &str) -> Result<Id, Failure> {
        Id::parse_text(text, self.base, self.digits).map_err(|error| {
            let what = match error {
                IdError::Digit { at, .. } => {
                    format!("digit {}, {:?}, is not possible", u16::from(at) + 1, self.piece(text, at))
                }
                // The other causes concern the length, and count differently from people when there are dots.
                _ => match self.count(text) {
                    1 => format!("an id has {} digits, this has 1 digit", self.digits),
                    found => format!("an id has {} digits, this has {found}", self.digits),
                },
            };
            Failure::usage(what, self.rule())
        })
    }

    fn count(self, text: &str) -> usize {
        if self.is_dotted() { text.split('.').count() } else { text.chars().count() }
    }

    /// Returns the digit at a place of a text, cut short if somebody wrote a novel there.
    fn piece(self, text: &str, at: u8) -> String {
        let at = usize::from(at);
        if self.is_dotted() {
            text.split('.').nth(at).unwrap_or("").chars().take(8).collect()
        } else {
            text.chars().nth(at).into_iter().collect()
        }
    }

    /// Says how an id is written.
    pub(crate) fn rule(self) -> String {
        let (digits, columns) = (self.digits, self.base.columns());
        let largest = |bits: u8| self.digit(u8::MAX >> (8 - bits));
        let bits = self.base.bits();
        let last = largest(bits);
        let values = match (bits, self.is_dotted()) {
            (_, true) => format!("each two hexadecimal characters from 00 to {last}, joined by dots"),
            (1, _) => "each 0 or 1".to_owned(),
            (2 | 3, _) => format!("each from 0 to {last}"),
            _ => format!("each 0 to 9 or a to {last}"),
        };
        let whole = if digits == 1 { "digit" } else { "digits" };
        // What is left of 128 bits for the last digit. All digits but that one always fit.
        let room = 128 - bits * (digits - 1);
        let short = if room < bits {
            let most = largest(room);
            format!("; the last one at most {most}, because 128 bits end there")
        } else {
            String::new()
        };
        format!("Write an id as {digits} {whole} of base {columns}, {values}{short}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notation(b: u8, digits: u8) -> Notation {
        Notation::new(b, digits).unwrap()
    }

    #[test]
    fn only_possible_notations_are_made() {
        assert!(Notation::new(0, 8).is_none() && Notation::new(9, 8).is_none());
        for (b, most) in [(1, 128), (2, 64), (3, 43), (4, 32), (5, 26), (6, 22), (7, 19), (8, 16)] {
            assert!(Notation::new(b, 0).is_none());
            assert!(Notation::new(b, most).is_some());
            assert!(Notation::new(b, most + 1).is_none());
        }
        assert!(Notation::read("4", "8").is_ok());
        for (b, digits) in [("x", "8"), ("0", "8"), ("4", "33"), ("4", "-1"), ("4", ""), ("300", "1")] {
            assert!(Notation::read(b, digits).is_err());
        }
    }

    #[test]
    fn cells_are_dashed_around_the_digit_of_their_row() {
        let plain = notation(2, 8);
        let id = plain.parse("10233102").unwrap();
        assert_eq!(plain.dashed(id, 0), "-1-0233102");
        assert_eq!(plain.dashed(id, 4), "1023-3-102");
        assert_eq!(plain.dashed(id, 7), "1023310-2-");
        let dotted = notation(8, 3);
        let id = dotted.parse("0a.7f.01").unwrap();
        assert_eq!(dotted.dashed(id, 0), "-0a-7f.01");
        assert_eq!(dotted.dashed(id, 1), "0a-7f-01");
        assert_eq!(dotted.dashed(id, 2), "0a.7f-01-");
    }

    #[test]
    fn distances_are_numbers_of_the_same_base() {
        let hex = notation(4, 8);
        let (a, b) = (hex.parse("65523c05").unwrap(), hex.parse("65400000").unwrap());
        assert_eq!(hex.distance(a.distance(b)), "123c05");
        assert_eq!(hex.distance(0), "0");
        let dotted = notation(7, 4);
        let (a, b) = (dotted.parse("00.01.00.00").unwrap(), dotted.parse("00.00.7f.7f").unwrap());
        assert_eq!(dotted.distance(a.distance(b)), "01");
        assert_eq!(dotted.distance(a.distance(Id::ZERO)), "01.00.00");
        assert_eq!(dotted.distance(0), "00");
    }

    #[test]
    fn a_bad_id_says_what_and_what_to_do() {
        let say = |b, digits, text: &str| notation(b, digits).parse(text).unwrap_err().to_string();
        assert!(say(2, 8, "1023").contains("an id has 8 digits, this has 4"));
        assert!(say(2, 8, "10233402").contains("digit 6, \"4\", is not possible"));
        assert!(say(2, 8, "10233402").contains("8 digits of base 4, each from 0 to 3."));
        assert!(say(4, 2, "6g").contains("each 0 to 9 or a to f."));
        assert!(say(5, 1, "w").contains("1 digit of base 32, each 0 to 9 or a to v."));
        assert!(say(7, 3, "0a7f01").contains("an id has 3 digits, this has 1 digit"));
        assert!(say(7, 3, "0a.ff.01").contains("digit 2, \"ff\", is not possible"));
        assert!(say(7, 3, "0a.ff.01").contains("from 00 to 7f, joined by dots."));
        assert!(say(3, 43, &"7".repeat(43)).contains("the last one at most 3, because 128 bits end there."));
    }
}
