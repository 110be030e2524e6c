//! Deliveries: messages are given to applications, and answers, some of which take time, go back.

use std::sync::Arc;

use kringle_core::contact::Contact;
use kringle_core::edge::Input;
use kringle_core::message::{App as Bytes, Payload, Routed};
use kringle_core::time::Time;
use tokio::task::spawn_local;

use super::Driver;
use super::effects::guarded;
use crate::app::{Answer, App, AppError, Message, SERVING_MAX, WAITING_MAX};
use crate::describe;

/// Where an answer goes.
#[derive(Clone, Copy)]
struct To {
    origin: Contact,
    serial: u32,
    hops: u8,
}

impl Driver {
    /// Gives a message to its application, or lets it wait while that makes as many answers as it may.
    pub(super) fn deliver(&mut self, routed: Routed, not_after: Option<Time>) {
        let purpose = match &routed.payload {
            Payload::App(app) | Payload::Direct(app) => app.purpose,
            _ => return,
        };
        if self.serving < SERVING_MAX || purpose == describe::PURPOSE {
            return self.deliver_now(routed, not_after);
        }
        if self.undelivered.len() < WAITING_MAX {
            return self.undelivered.push_back((routed, not_after));
        }
        self.metrics.app_dropped.inc();
        if let Some(hook) = self.app(purpose) {
            let _ = guarded(|| hook.error(AppError::Busy));
        }
    }

    /// Gives a message to its application, unless the clock says that it is too late.
    fn deliver_now(&mut self, routed: Routed, not_after: Option<Time>) {
        if not_after.is_some_and(|end| self.clock.now() > end) {
            return self.soon.push_back(Input::DeliverRefused { routed: Box::new(routed) });
        }
        let Routed { key, origin, serial, hops, payload, .. } = routed;
        let (Payload::App(app) | Payload::Direct(app)) = payload else { return };
        let to = To { origin, serial, hops };
        if app.purpose == describe::PURPOSE {
            let bytes = self.view().answer(&app.bytes);
            return self.soon.push_back(Input::Answer { to: origin, serial, hops, bytes });
        }
        let Some(hook) = self.app(app.purpose) else {
            self.metrics.app_unknown.inc();
            return self.soon.push_back(Input::Unhandled { to: origin, serial, hops });
        };
        let Bytes { purpose, bytes } = *app;
        let message = Message { purpose, origin: origin.id, hops, bytes };
        match guarded(|| hook.respond(key, message)).unwrap_or(Answer::None) {
            Answer::None => self.answer(&*hook, to, None),
            Answer::Now(bytes) => self.answer(&*hook, to, Some(bytes)),
            Answer::Later(making) => {
                let Some(shell) = self.shell.upgrade() else { return };
                self.serving += 1;
                spawn_local(async move {
                    // In a task of its own, so that a panic ends nothing else.
                    let bytes = spawn_local(making).await.ok().flatten();
                    shell.enter(|driver| driver.served(&*hook, to, bytes));
                });
            }
        }
    }

    /// An answer that took time is there: the next message may begin.
    fn served(&mut self, hook: &dyn App, to: To, bytes: Option<Vec<u8>>) {
        self.serving -= 1;
        self.answer(hook, to, bytes);
        while self.serving < SERVING_MAX
            && let Some((routed, not_after)) = self.undelivered.pop_front()
        {
            self.deliver_now(routed, not_after);
        }
        self.settle();
    }

    fn answer(&mut self, hook: &dyn App, To { origin, serial, hops }: To, bytes: Option<Vec<u8>>) {
        let (limit, size) = (self.config.payload, bytes.as_ref().map_or(0, Vec::len));
        if size > limit as usize {
            let _ = guarded(|| hook.error(AppError::TooLarge { bytes: size, limit }));
        }
        let bytes = bytes.filter(|_| size <= limit as usize);
        self.soon.push_back(Input::Answer { to: origin, serial, hops, bytes });
    }

    fn app(&self, purpose: u32) -> Option<Arc<dyn App>> {
        self.apps.iter().find(|(other, _)| *other == purpose).map(|(_, hook)| hook.clone())
    }
}
