//! Knowing before certifying: a node that has been out of touch hears its whole leaf set again.

use crate::config::Safeguard;
use crate::edge::{Ctx, Note};
use crate::overlay::pastry::Pastry;
use crate::overlay::probe::Why;
use crate::time::Time;

impl Pastry {
    /// From now on every leaf is asked.
    pub(in crate::overlay::pastry) fn start_verifying(&mut self, now: Time) {
        if let Some(leases) = &mut self.leases {
            leases.verifying = Some(now);
        }
    }

    /// Every leaf has answered, or is known to be dead. A joiner can not tell whether it was stopped meanwhile, so for
    /// it only the beginning counts.
    pub(in crate::overlay::pastry) fn finish_verifying(&mut self) {
        if let Some(leases) = &mut self.leases {
            leases.verified = leases.verifying.take();
        }
    }

    /// Called after every answer and time-out.
    pub(in crate::overlay::pastry) fn continue_verifying(&mut self, cx: &mut Ctx<'_>) {
        let verifying = self.leases.as_ref().is_some_and(|leases| leases.verifying.is_some());
        // Nobody to hear from is not the same as having heard everybody.
        let heard = !self.router.leaf_set().is_empty() && !self.prober.has_open(Why::LEAF);
        if verifying && self.is_in_ring() && heard {
            self.start_verifying(cx.now);
            self.finish_verifying();
            self.seek_leases(cx);
        }
    }

    /// Says whether what we know of our surroundings is recent enough to be certified.
    pub(super) fn is_verified(&self, cx: &Ctx<'_>) -> bool {
        let Some(leases) = &self.leases else { return true };
        let lately = |began: Time| cx.now < began.after(cx.config.lease_held());
        !cx.config.rule(Safeguard::Verified)
            || leases.verified.is_some_and(lately)
            || self.entitled_until(cx.now, cx.config).is_some()
    }

    /// Hears every leaf again if we have been out of touch.
    pub(super) fn verify(&mut self, cx: &mut Ctx<'_>) {
        if self.is_verified(cx) || !self.is_in_ring() {
            return;
        }
        if self.leases.as_ref().is_some_and(|leases| leases.verifying.is_none()) {
            cx.note(Note::Verifying);
            self.start_verifying(cx.now);
            for leaf in self.router.leaf_set().members().to_vec() {
                self.probe(leaf, Why::LEAF.and(Why::WATCH), cx);
            }
        }
    }
}
