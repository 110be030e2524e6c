//! `kringle sim hunt`: many seeds of the store under chaos, side by side. Only what goes wrong is printed.

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::Duration;
use std::{io, panic, sync::mpsc};

use clap::{Args, ValueEnum};
use kringle_core::config::OverlayKind;
use kringle_sim::lab::params::seconds;
use kringle_sim::store_chaos::{NODES_MAX, SetUp, fault_names, hunt::hunt as run_all};

use super::{Answer, Bench};
use crate::failure::{Ending, Failure};

#[derive(Debug, Args)]
pub(super) struct HuntArgs {
    /// Seeds to run: a range with both ends, or one seed
    #[arg(long, value_name = "FIRST..LAST", default_value = "1..100")]
    seeds: String,
    /// Nodes at the start [default: 1 to 12, drawn from the seed]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Simulated time in which faults happen
    #[arg(long, value_name = "TIME", default_value = "1m")]
    duration: String,
    /// Overlay of the nodes
    #[arg(long, value_name = "WORD", default_value = "pastry")]
    overlay: Which,
    /// Faults that are not drawn, separated by commas
    #[arg(long, value_name = "NAME,...")]
    leave_out: Option<String>,
    /// Runs side by side [default: one per processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Pastry,
    Chord,
}

pub(super) fn hunt(bench: &mut Bench<'_>, args: &HuntArgs) -> Answer {
    let seeds = read_seeds(&args.seeds)?;
    let refuse = |what: String, remedy: String| Failure::usage(what, remedy);
    let span = seconds(&args.duration).filter(|span| (0.1..=1e6).contains(span)).ok_or_else(|| {
        refuse(format!("--duration {}: not a span of time", args.duration), "For instance: 10m".into())
    })?;
    if args.nodes.is_some_and(|nodes| !(1..=200).contains(&nodes)) {
        return Err(refuse("--nodes: out of range: 1 to 200".into(), format!("1 to {NODES_MAX} is usual.")));
    }
    let names = fault_names();
    let mut leave_out = Vec::new();
    for name in args.leave_out.iter().flat_map(|text| text.split(',')).map(str::trim) {
        let Some(name) = names.get(name) else {
            let names: Vec<&str> = names.into_iter().collect();
            return Err(refuse(
                format!("there is no fault {name:?}"),
                format!("One of: {}", names.join(", ")),
            ));
        };
        leave_out.push(*name);
    }
    let overlay = match args.overlay {
        Which::Pastry => OverlayKind::Pastry,
        Which::Chord => OverlayKind::Chord,
    };
    let duration = Duration::from_secs_f64(span);
    let set_up = |seed| {
        let drawn = SetUp::drawn(seed, duration);
        SetUp { overlay, nodes: args.nodes.unwrap_or(drawn.nodes), leave_out: leave_out.clone(), ..drawn }
    };
    let threads = args.threads.or_else(|| available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let stop = bench.stop;
    let mut found: Vec<String> = Vec::new();
    let mut lost = None;
    // A node that finds itself broken panics; the violation says so.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    // Told from this thread as soon as they are found: the runs have threads of their own.
    let (found_one, finds) = mpsc::channel();
    let hunted = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let found_one = found_one;
            run_all(seeds, threads, &set_up, &|| !stop.load(Ordering::Relaxed), &mut |violation| {
                let _ = found_one.send(violation.clone());
            })
        });
        for violation in finds {
            if !bench.json
                && let Err(error) = writeln!(bench.out, "{violation}\n").and_then(|()| bench.out.flush())
                && error.kind() != io::ErrorKind::BrokenPipe
            {
                lost = Some(Failure::output(&error));
            }
            found.push(violation.replay);
        }
        running.join()
    });
    panic::set_hook(hook);
    let Ok(hunted) = hunted else {
        return Err(Failure::failed("a run ended without a word", "Run fewer --seeds to find it."));
    };
    if let Some(failure) = lost {
        return Err(failure);
    }
    let text = if bench.json {
        serde_json::json!({
            "runs": hunted.runs, "failed": hunted.failed, "operations": hunted.operations,
            "faults": hunted.faults, "again": found,
        })
        .to_string()
            + "\n"
    } else {
        format!(
            "{} of {} runs failed; {} operations and {} faults in the others\n",
            hunted.failed, hunted.runs, hunted.operations, hunted.faults
        )
    };
    if stop.load(Ordering::Relaxed) {
        let failure =
            Failure::interrupted("interrupted; above is what was found until then", "Run it again.");
        return Ok((text, Ending::Failed(failure)));
    }
    Ok((text, if hunted.failed > 0 { Ending::Bad } else { Ending::Good }))
}

fn read_seeds(text: &str) -> Result<std::ops::RangeInclusive<u64>, Failure> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let ends = match text.split_once("..") {
        Some((first, last)) => number(first).zip(number(last.trim_start_matches('='))),
        None => number(text).map(|seed| (seed, seed)),
    };
    let ends = ends.filter(|(first, last)| first <= last);
    ends.map(|(first, last)| first..=last).ok_or_else(|| {
        let what = format!("--seeds {text}: not a range");
        Failure::usage(what, "Write --seeds 1..10 for the ten from 1 to 10, or --seeds 7.")
    })
}
