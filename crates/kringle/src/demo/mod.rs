//! `kringle demo`: a whole ring inside one process, and a prompt to play with it.
//!
//! The nodes are real ones; they only talk through memory instead of sockets, all on one thread, and keep nothing on
//! disk. Their keys come from the seed, so the ring is the same every time. [`ring`] starts and ends them, [`command`]
//! reads what is typed, [`session`] does it and [`data`] what concerns the store, [`show`] writes what came of it,
//! [`prompt`] waits for the next line on a thread of its own, and [`port`] lets other programs in.

mod command;
mod data;
mod journal;
mod port;
mod prompt;
mod ring;
mod session;
mod show;

use std::io::{self, IsTerminal, Write};
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use clap::Args;
use kringle_core::config::OverlayKind;
use kringle_runtime::overlays;
use tokio::task::LocalSet;

use crate::failure::{Ending, Failure};
use port::Port;
use prompt::{Prompt, Said};
use ring::{NODES_MAX, Ring};
use session::{Next, Session};

/// How long the ring may take to form.
const FORM: Duration = Duration::from_secs(120);
/// Progress is shown only after this long.
const PATIENCE: Duration = Duration::from_millis(500);

/// How large a ring, and which.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Nodes to start
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = node_count)]
    nodes: usize,
    /// Which ring: the same seed gives the same ids every time
    #[arg(long, value_name = "S", default_value_t = 42)]
    seed: u64,
    /// How the ring is organised: pastry or chord
    #[arg(long, value_name = "NAME", default_value = "pastry", value_parser = overlay)]
    overlay: OverlayKind,
}

fn overlay(text: &str) -> Result<OverlayKind, String> {
    overlays::by_name(text).ok_or_else(|| "must be pastry or chord".into())
}

fn node_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=NODES_MAX).contains(&count) => Ok(count),
        _ => Err(format!("must be a number from 1 to {NODES_MAX}")),
    }
}

/// Runs the demo until its user has had enough.
pub(crate) fn run(args: &DemoArgs, json: bool) -> Result<Ending, Failure> {
    if json {
        return Err(Failure::usage(
            "the demo is a conversation; it has no JSON",
            "Leave --json out, or ask the port the demo opens.",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::failed(
            format!("cannot start: {error}"),
            "Free some resources (memory, threads, file descriptors) and try again.",
        )
    })?;
    let ending = LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            ending = demo(args) => ending,
            _ = tokio::signal::ctrl_c() => Err(interrupted()),
        }
    });
    // The thread at the prompt may sit there for ever; nobody waits for it.
    runtime.shutdown_background();
    ending
}

fn interrupted() -> Failure {
    Failure::interrupted("the demo has ended", "Nothing was kept; the same ring again: kringle demo")
}

async fn demo(args: &DemoArgs) -> Result<Ending, Failure> {
    let began = Instant::now();
    let forming = Ring::start(args.nodes, args.seed, args.overlay, |ready| {
        progress(ready, args.nodes, began.elapsed())
    });
    let ring = match tokio::time::timeout(FORM, forming).await {
        Ok(ring) => ring?,
        Err(_) => {
            return Err(Failure::failed(
                format!("{} nodes did not become a ring within {} seconds", args.nodes, FORM.as_secs()),
                "Give the machine some air, or start fewer: kringle demo --nodes 16",
            ));
        }
    };
    let took = began.elapsed();
    clear_progress(took);
    let port = port::open_http(ring.here().node.handle()).await;
    banner(args, took, port.as_ref());
    let mut session = Session::new(ring, port);
    let ending = converse(&mut session).await;
    session.end().await;
    ending
}

/// Reads and answers until there is nothing more to read.
async fn converse(session: &mut Session) -> Result<Ending, Failure> {
    let mut prompt = Prompt::open()?;
    loop {
        let line = match wait(pin!(prompt.next()), session).await? {
            Said::Line(line) => line,
            Said::End => return Ok(Ending::Good),
            Said::Interrupt => return Err(interrupted()),
        };
        let answer = match command::parse(&line) {
            Ok(command) => session.execute(command).await,
            Err(failure) => Err(failure),
        };
        let written = match answer {
            Ok(Next::Quit) => return Ok(Ending::Good),
            Ok(Next::Answer(text)) => write(io::stdout(), &text),
            Err(failure) => write(io::stderr(), &format!("{failure}\n")),
        };
        if written.is_err() {
            // Nobody reads any more.
            return Ok(Ending::Good);
        }
    }
}

/// Waits for the next line; nodes may end meanwhile.
async fn wait(
    mut next: Pin<&mut impl Future<Output = Said>>,
    session: &mut Session,
) -> Result<Said, Failure> {
    loop {
        tokio::select! {
            said = &mut next => return Ok(said),
            lost = session.lose_one() => lost?,
        }
    }
}

fn write(mut to: impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

fn progress(ready: usize, of: usize, elapsed: Duration) {
    if elapsed > PATIENCE && io::stderr().is_terminal() {
        let _ = write(io::stderr(), &format!("\rstarting  {ready} of {of} nodes"));
    }
}

fn clear_progress(elapsed: Duration) {
    if elapsed > PATIENCE && io::stderr().is_terminal() {
        let _ = write(io::stderr(), &format!("\r{:40}\r", ""));
    }
}

fn banner(args: &DemoArgs, took: Duration, port: Option<&Port>) {
    let _ = write(io::stderr(), &show::banner(args.nodes, args.seed, args.overlay, took, port));
}

#[cfg(test)]
mod tests;
