//! What the system tells a process to do.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// The exit code after SIGTERM.
#[cfg(unix)]
const TERMINATED: u8 = 143;

/// Requests to end, from now on.
#[cfg(unix)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

#[cfg(unix)]
impl Signals {
    /// Starts to listen. Until now a signal has ended the process at once.
    pub(super) fn new() -> Result<Signals, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                let remedy = "Free some file descriptors and try again.";
                Failure::failed(format!("cannot listen for signals: {error}"), remedy)
            })
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one, and returns the exit code it calls for.
    pub(super) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}

/// Requests to end, from now on.
#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Starts to listen.
    pub(super) fn new() -> Result<Signals, Failure> {
        Ok(Signals)
    }

    /// Waits for the next one, and returns the exit code it calls for.
    pub(super) async fn next(&mut self) -> u8 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        INTERRUPTED
    }
}
