//! Ctrl-C: once to end a run and keep what is done, twice to end it at once.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a process ends with that Ctrl-C has ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Whether somebody wants the run to end.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// From here on Ctrl-C sets [`STOP`]. If that cannot be arranged it ends the process as usual.
pub(crate) fn listen() {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        let _ =
            writeln!(io::stderr(), "\nending the run and keeping what is done; Ctrl-C again ends at once");
    };
    let _ = ctrlc::set_handler(handler);
}
