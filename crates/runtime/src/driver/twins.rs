//! Whether this node is the only one with its identity.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use super::Driver;
use crate::handle::Ending;
use crate::transport::hello::Hello;

impl Driver {
    /// Somebody knows a life of this node that is not behind this one. If it answers, it is a twin, and one of the two
    /// has to end; if not, it is in the past, and this life has to be later than it.
    pub(super) fn doubt_myself(&mut self, incarnation: u32, endpoints: Vec<SocketAddr>) {
        if std::mem::replace(&mut self.doubting, true) {
            return;
        }
        let Some(shell) = self.shell.upgrade() else { return };
        spawn_local(async move {
            let since = Instant::now();
            let answer = shell.ask_who(&endpoints).await;
            shell.enter(|driver| driver.answered_doubt(incarnation, &endpoints, answer));
            // Not more often than this, whatever others say.
            sleep(Duration::from_secs(2).saturating_sub(since.elapsed())).await;
            shell.enter(|driver| driver.doubting = false);
        });
    }

    /// Says whether it is time for another life: a minute after the last one, then twice as long each time, whatever
    /// others say.
    pub(super) fn may_be_reborn(&mut self) -> bool {
        let pause = Duration::from_secs(60) * (1 << self.rebirths.min(10));
        let due = self.reborn_at.is_none_or(|at| self.now.since(at) >= pause);
        if due {
            self.reborn_at = Some(self.now);
            self.rebirths += 1;
        }
        due
    }

    pub(super) fn answered_doubt(
        &mut self,
        incarnation: u32,
        endpoints: &[SocketAddr],
        answer: Option<Hello>,
    ) {
        match answer {
            Some(hello) if hello.instance == self.me.instance => {}
            Some(hello) => {
                let theirs = (hello.incarnation, hello.instance);
                if theirs > (self.me.incarnation, self.me.instance) {
                    let at = endpoints.first().map(ToString::to_string).unwrap_or_default();
                    let what = format!("the same identity runs at {at}, in a later life ({})", theirs.0);
                    self.finish(Ending::Twin { what });
                }
            }
            None if incarnation >= self.me.incarnation && self.may_be_reborn() => {
                self.be_reborn(incarnation.saturating_add(1));
            }
            None => {}
        }
    }
}
