//! Figures in words, the same in a terminal, in Markdown and in HTML.

use super::number::{NONE, fixed, needed};
use super::{Figure, Report, Want};

impl Figure {
    /// Says whether it is what was wanted; nothing if nothing was.
    pub fn met(&self) -> Option<bool> {
        self.want.map(|want| want.holds(self.ours))
    }

    /// Returns the result without its unit.
    ///
    /// It gets more digits than asked for if rounding would contradict the verdict: 4.004 is more than 4.
    pub(super) fn ours_text(&self) -> String {
        let shown =
            |digits: u8| format!("{:.*}", usize::from(digits), self.ours).parse().unwrap_or(self.ours);
        let fits =
            |digits: &u8| self.want.is_none_or(|want| want.holds(shown(*digits)) == want.holds(self.ours));
        let digits = (self.digits..self.digits.saturating_add(9)).find(fits).unwrap_or(self.digits);
        fixed(self.ours, digits)
    }

    /// Returns the result with its unit.
    pub(super) fn ours_with_unit(&self) -> String {
        format!("{} {}", self.ours_text(), self.unit).trim_end().to_owned()
    }

    pub(super) fn paper_text(&self) -> String {
        self.paper.map_or(NONE.to_owned(), |paper| fixed(paper, self.digits))
    }

    pub(super) fn limit_text(&self) -> String {
        self.limit.map_or(NONE.to_owned(), |limit| fixed(limit, self.digits))
    }

    /// Returns what was wanted. Bounds are told in full, for a verdict hangs on them.
    pub(super) fn want_text(&self) -> String {
        let bound = |bound: f64| fixed(bound, self.digits.max(needed(bound, 9)));
        match self.want {
            None => NONE.to_owned(),
            Some(Want::AtMost(most)) => format!("at most {}", bound(most)),
            Some(Want::AtLeast(least)) => format!("at least {}", bound(least)),
            Some(Want::Between(least, most)) => format!("within {} to {}", bound(least), bound(most)),
        }
    }

    pub(super) fn verdict(&self) -> &'static str {
        match self.met() {
            None => NONE,
            Some(true) => "met",
            Some(false) => "MISSED",
        }
    }
}

impl Report {
    /// Returns how many of the figures of which something is wanted are so, and how many there are.
    pub fn score(&self) -> (usize, usize) {
        let verdicts = || self.all_figures().filter_map(Figure::met);
        (verdicts().filter(|met| *met).count(), verdicts().count())
    }

    /// Returns the outcome in a sentence or two.
    pub(super) fn verdict(&self) -> String {
        let verdict = match self.score() {
            (_, 0) => "Nothing in particular is wanted of these figures.".to_owned(),
            (met, wanted) => format!("{met} of {wanted} wanted figures met."),
        };
        if self.complete { verdict } else { format!("Interrupted: what was measured until then. {verdict}") }
    }
}
