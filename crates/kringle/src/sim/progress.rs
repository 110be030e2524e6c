//! How far a run has come: a bar on a terminal, a line for each step elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kringle_sim::lab::Watch;

use super::memory;

/// Whatever takes less time needs no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often the bar is brought up to date.
const REDRAW: Duration = Duration::from_millis(200);

/// Steps of the bar.
const FULL: u64 = 1000;

const TEMPLATE: &str = "{msg}  [{bar:30.}]  {percent} %   ETA {eta}   {prefix}";

/// Looks on, tells, and ends the run if it is told to.
pub(crate) struct Progress<'a> {
    stop: &'a AtomicBool,
    show: Show,
    step: Option<Step>,
}

/// Where progress is told.
enum Show {
    /// Nowhere.
    Nothing,
    /// One line when a step begins and one when it ends.
    Lines(Box<dyn Write + Send>),
    /// A bar that is drawn over itself.
    Bar(Bar),
}

struct Bar {
    bar: ProgressBar,
    began: Instant,
    visible: bool,
    drawn: Option<Instant>,
}

struct Step {
    name: String,
    began: Instant,
    ended: bool,
}

impl<'a> Progress<'a> {
    /// Tells on standard error, or nowhere.
    pub(crate) fn new(stop: &'a AtomicBool, quiet: bool) -> Progress<'a> {
        let show = if quiet {
            Show::Nothing
        } else if io::stderr().is_terminal() {
            Show::Bar(Bar::new())
        } else {
            Show::Lines(Box::new(io::stderr()))
        };
        Progress { stop, show, step: None }
    }

    /// Tells in lines, wherever.
    #[cfg(test)]
    pub(crate) fn lines(stop: &'a AtomicBool, to: Box<dyn Write + Send>) -> Progress<'a> {
        Progress { stop, show: Show::Lines(to), step: None }
    }

    /// One of many runs is done.
    pub(crate) fn part(&mut self, so_far: usize, all: usize, what: &str) {
        match &mut self.show {
            Show::Nothing => {}
            Show::Lines(to) => drop(writeln!(to, "{so_far} of {all}: {what}")),
            Show::Bar(bar) => {
                let step = format!("{so_far} of {all} runs");
                bar.bar.set_message(step.clone());
                bar.draw(&step, so_far as f64 / all.max(1) as f64, false);
            }
        }
    }

    /// The run is over: no bar is left behind.
    pub(crate) fn finish(&mut self) {
        self.end_step();
        self.step = None;
        if let Show::Bar(bar) = &mut self.show {
            bar.bar.finish_and_clear();
            *bar = Bar::new();
        }
    }

    fn end_step(&mut self) {
        let Some(step) = self.step.as_mut().filter(|step| !step.ended) else { return };
        step.ended = true;
        if let Show::Lines(to) = &mut self.show {
            let seconds = step.began.elapsed().as_secs_f64();
            let held = memory::bytes(memory::held());
            // Nobody is left to tell if this fails; the run goes on.
            let _ = writeln!(to, "{}: {seconds:.1} s, {held} held", step.name);
        }
    }
}

impl Watch for Progress<'_> {
    fn progress(&mut self, step: &str, done: f64) {
        let is_new = self.step.as_ref().is_none_or(|current| current.name != step);
        if is_new {
            self.end_step();
            self.step = Some(Step { name: step.to_owned(), began: Instant::now(), ended: false });
            if let Show::Lines(to) = &mut self.show {
                let _ = writeln!(to, "{step} ...");
            }
        }
        if let Show::Bar(bar) = &mut self.show {
            bar.draw(step, done, is_new);
        }
        if done >= 1.0 {
            self.end_step();
        }
    }

    fn interrupted(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Bar {
    fn new() -> Bar {
        let bar = ProgressBar::with_draw_target(Some(FULL), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("##-"));
        Bar { bar, began: Instant::now(), visible: false, drawn: None }
    }

    fn draw(&mut self, step: &str, done: f64, is_new: bool) {
        if is_new {
            self.bar.reset();
            self.bar.set_message(step.to_owned());
        } else if self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        if !self.visible && self.began.elapsed() >= PATIENCE {
            self.visible = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.drawn = Some(Instant::now());
        self.bar.set_prefix(memory::bytes(memory::held()));
        self.bar.set_position((done.clamp(0.0, 1.0) * FULL as f64) as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_step_has_one_line_at_its_start_and_one_at_its_end() {
        let (stop, told) = (AtomicBool::new(false), Shared::default());
        let mut progress = Progress::lines(&stop, Box::new(told.clone()));
        for done in [0.0, 0.3, 0.6, 1.0, 1.0] {
            progress.progress("joins", done);
        }
        progress.progress("lookups", 0.5);
        progress.progress("rounds", 0.5);
        assert!(!progress.interrupted());
        stop.store(true, Ordering::Relaxed);
        assert!(progress.interrupted());
        progress.finish();
        progress.finish();
        let told = String::from_utf8(told.0.lock().unwrap().clone()).unwrap();
        let starts: Vec<&str> = told.lines().map(|line| line.split(':').next().unwrap()).collect();
        let expected = ["joins ...", "joins", "lookups ...", "lookups", "rounds ...", "rounds"];
        assert_eq!(starts, expected);
    }

    #[test]
    fn the_bar_can_be_drawn() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        let mut bar = Bar::new();
        bar.draw("joins", 0.5, true);
        assert_eq!(bar.bar.position(), 500);
        assert!(!bar.visible, "nobody waits for half a second yet");
    }
}
