//! What background work may send.

use crate::edge::{Ctx, Note};
use crate::time::Time;

/// A token bucket of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Budget {
    spent: u32,
    since: Time,
}

impl Budget {
    /// Takes that many bytes, or says that the budget is spent.
    pub(super) fn take(&mut self, bytes: u32, cx: &mut Ctx<'_>) -> bool {
        let earned = cx.now.since(self.since).as_micros() * u128::from(cx.config.budget) / 1_000_000;
        if earned > 0 {
            self.spent = self.spent.saturating_sub(u32::try_from(earned).unwrap_or(u32::MAX));
            self.since = cx.now;
        }
        if self.spent.saturating_add(bytes) > cx.config.budget_burst {
            cx.note(Note::BudgetSpent);
            return false;
        }
        self.spent += bytes;
        true
    }
}
