//! The rows: which fault, under which load, and what passes.

use super::check::Check;
use super::heal;
use super::options::Options;

/// One fault and its demands.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: &'static str,
    /// The fault.
    pub(super) what: &'static str,
    /// What has to be measured for the row to pass. Rows with a load also demand that all is ready
    /// within 60 s after the fault, and what `verdict` checks.
    pub(super) passes: &'static str,
    /// Whether it belongs to `cargo xtask test`.
    pub(super) sample: bool,
    pub(super) run: fn(&Options) -> Result<Vec<Check>, String>,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        id: "sample",
        what: "partition of 5 nodes into 2 / 3 for 10 s, heal",
        passes: "one ring <= 30 s after healing",
        sample: true,
        run: heal::sample,
    },
    Row {
        id: "heal",
        what: "partition of 7 nodes into 3 / 4 (--parts) for 60 s (--cut), heal",
        passes: "one ring <= 30 s (three parts: 45 s) and no failed operation later than that after healing",
        sample: false,
        run: heal::heal,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_different_ids() {
        let mut ids: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROWS.len());
    }
}
