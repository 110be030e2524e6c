//! Bytes as dice: they choose a configuration, a status to start from, and one input after the other.
#![no_main]

#[allow(dead_code, reason = "the test of the core uses the rest")]
mod driver;

use driver::Driver;
use kringle_core::dice::Dice;
use kringle_core::overlay::Status;
use libfuzzer_sys::fuzz_target;

/// Dice that show what the fuzzer wrote, then nothing but zeros.
struct Written<'a>(&'a [u8]);

impl Written<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }
}

impl Dice for Written<'_> {
    fn roll(&mut self) -> u64 {
        (0..8).fold(0, |value, _| value << 8 | u64::from(self.byte()))
    }

    /// As few bytes as the choice needs: a change of one byte is then a change of one choice.
    fn below(&mut self, limit: usize) -> usize {
        match limit {
            0 | 1 => 0,
            2..=256 => usize::from(self.byte()) % limit,
            _ => self.roll() as usize % limit,
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut written = Written(bytes);
    let mut driver = Driver::new(written.byte().into());
    let start =
        [Status::Out, Status::Joining, Status::Waiting, Status::Ready, Status::Leaving, Status::Isolated];
    if !driver.bring(start[written.below(start.len())]) {
        return;
    }
    while !written.0.is_empty() {
        driver.step(&mut written);
    }
    driver.leave();
});
