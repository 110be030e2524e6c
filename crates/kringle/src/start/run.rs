//! A node in this process: one thread, one runtime, from the first port to the last signal.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use kringle_front::errors::Kind;
use kringle_runtime::report::What;
use kringle_runtime::{Ending, Events, Handle, descriptors};
use serde_json::json;
use tokio::task::LocalSet;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::choice::Choice;
use super::plan::Plan;
use super::words::{self, Started};
use super::{http, signals};
use crate::failure::Failure;
use crate::output::Manners;

/// How long the token of the first words is good.
const INVITATION: Duration = Duration::from_secs(3600);
/// Different reasons for waiting that are told.
const REASONS_MAX: usize = 32;
/// Resolving names is the only work on other threads. One is enough, and soon gone.
const HELPERS_MAX: usize = 1;
const HELPER_IDLE: Duration = Duration::from_secs(1);

/// Runs a node until it ends or is told to. Returns the exit code.
pub(super) fn run(plan: Plan, choice: &Choice, manners: Manners) -> Result<u8, Failure> {
    log_to_stderr(plan.log.clone());
    #[cfg(target_os = "linux")]
    {
        // A node needs few pages; the allocator would have the system make them large. Nothing depends on it.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(HELPERS_MAX)
        .thread_keep_alive(HELPER_IDLE)
        .build()
        .map_err(|error| {
            let remedy = "Free some resources (memory, file descriptors) and try again.";
            Failure::failed(format!("cannot start: {error}"), remedy)
        })?;
    let ready_file = plan.ready_file.clone();
    let ending = LocalSet::new().block_on(&runtime, live(plan, choice, manners));
    // A name that is still being resolved must not keep the process.
    runtime.shutdown_background();
    if let Some(path) = &ready_file {
        // What is left of it misleads nobody for long: the next start removes it.
        let _ = words::remove_ready(path);
    }
    ending
}

fn log_to_stderr(targets: Targets) {
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Somebody who has set up logging already wants it that way.
    let _ = tracing_subscriber::registry().with(layer).with(targets).try_init();
}

async fn live(plan: Plan, choice: &Choice, manners: Manners) -> Result<u8, Failure> {
    let start = Instant::now();
    let Plan { mut builder, data, seeds, is_public, http, hosts, client, ready_file, .. } = plan;
    // Before anything is started: from now on a signal is an orderly end.
    let mut signals = signals::Signals::new()?;
    if let Some(path) = &ready_file {
        words::remove_ready(path)?;
    }
    let listener = match http {
        Some(address) => Some(http::bind(address).await?),
        None => None,
    };
    let http = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    if let Some(client) = client.clone().or(http.and_then(|bound| http::url(bound, &[]))) {
        builder = builder.advertise_client(client);
    }
    let node = builder.start_here().await.map_err(|error| words::not_started(&error))?;
    let info = node.info();
    let files = descriptors::shares().ok();
    let started = Started { info, http, data: data.as_deref(), seeds: &seeds, files };
    if let Some(bound) = http.filter(|bound| client.is_none() && bound.ip().is_unspecified()) {
        // It fails only if the node has ended, which is noticed below.
        let _ = node.set_client(http::url(bound, &info.advertised)).await;
    }
    let mut config = choice.document(true);
    config["bound"] = json!({ "peers": info.bound, "advertised": info.advertised, "http": http });
    let server = listener.map(|listener| http::answer(listener, &node, &hosts, config)).transpose();
    let server = server.map_err(|error| {
        Failure::failed(format!("cannot answer clients: {error}"), "Choose another address with --http.")
    })?;
    manners.note(&started.text());
    if let Some(path) = &ready_file {
        announce(path, &started, &node).await?;
    }
    if is_public && info.founded {
        match node.issue_token(INVITATION).await {
            Ok(Ok(token)) => manners.note(&words::invitation(info, &token)),
            Ok(Err(why)) => manners.note(&format!("join     no token: {why}")),
            Err(_) => {}
        }
    }
    let ending = attend(&node, &mut signals, start, manners).await;
    if let Some(server) = server {
        server.stop().await;
    }
    ending
}

async fn announce(path: &Path, started: &Started<'_>, node: &Handle) -> Result<(), Failure> {
    let written = words::write_ready(path, &started.document());
    if written.is_err() {
        node.stop().await;
    }
    written
}

/// Waits for the end, and tells what happens until the node is ready.
async fn attend(
    node: &Handle,
    signals: &mut signals::Signals,
    start: Instant,
    manners: Manners,
) -> Result<u8, Failure> {
    let mut events = node.events();
    let code = tokio::select! {
        over = node.ended() => return judge(over),
        code = signals.next() => code,
        () = tell(node, &mut events, start, manners) => tokio::select! {
            over = node.ended() => return judge(over),
            code = signals.next() => code,
        },
    };
    manners.note("stopping; once more to end at once");
    tokio::select! {
        over = node.stop() => match over {
            Ending::Stopped | Ending::Left => Ok(code),
            other => judge(other),
        },
        again = signals.next() => Ok(again),
    }
}

/// Says why it takes so long, and when it is done.
async fn tell(node: &Handle, events: &mut Events, start: Instant, manners: Manners) {
    let mut said: BTreeSet<String> = BTreeSet::new();
    loop {
        tokio::select! {
            biased;
            ready = node.ready() => match ready {
                Ok(()) => break,
                // It has ended; whoever waits for that says more.
                Err(_) => return std::future::pending().await,
            },
            event = events.next() => match event.as_deref().map(|event| &event.what) {
                // The same reason again and again is one reason; and nobody reads a hundred.
                Some(What::Refused { reason, .. }) if said.len() < REASONS_MAX => {
                    if said.insert(reason.clone()) {
                        manners.note(&format!("waiting  {reason}"));
                    }
                }
                Some(_) => {}
                None => return std::future::pending().await,
            },
        }
    }
    let company = node.summary().await.map_or(String::new(), |me| format!(", {}", words::company(&me)));
    manners.note(&format!("ready after {:.1} s{company}", start.elapsed().as_secs_f64()));
}

fn judge(over: Ending) -> Result<u8, Failure> {
    match over {
        Ending::Stopped | Ending::Left => Ok(0),
        Ending::Twin { what } => Err(Failure::coded(
            7,
            what,
            "Only one process may be this node. Stop one of them, or start with a data directory of its own.",
        )),
        Ending::WrongCluster { what } => {
            let row = Kind::Misdirected.row();
            Err(Failure::coded(row.exit, format!("refused by the cluster: {what}"), row.remedy))
        }
        Ending::Refused { what } => Err(Failure::coded(
            4,
            format!("refused by the cluster: {what}"),
            "Check --cluster, and bring a fresh token (kringle token new, on a member) or the same secret.",
        )),
        Ending::FoundedApart { what } => {
            let row = Kind::FoundedApart.row();
            Err(Failure::coded(row.exit, format!("{what} ({})", row.code), row.remedy))
        }
        Ending::Retired => Err(Failure::coded(
            7,
            "this node was retired with 'kringle leave ID --dead': the cluster refuses its id",
            "Start with another data directory to join as a new node.",
        )),
        Ending::Failed { what } => {
            Err(Failure::failed(format!("the node can not go on: {what}"), "Mend that, then start it again."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ending_has_its_exit_code() {
        assert!(matches!(judge(Ending::Stopped), Ok(0)));
        assert!(matches!(judge(Ending::Left), Ok(0)));
        assert_eq!(judge(Ending::Twin { what: "twin".into() }).unwrap_err().code(), 7);
        assert_eq!(judge(Ending::Refused { what: "no".into() }).unwrap_err().code(), 4);
        assert_eq!(judge(Ending::WrongCluster { what: "base".into() }).unwrap_err().code(), 4);
        assert_eq!(judge(Ending::FoundedApart { what: "two".into() }).unwrap_err().code(), 4);
        assert_eq!(judge(Ending::Retired).unwrap_err().code(), 7);
        assert_eq!(judge(Ending::Failed { what: "disk".into() }).unwrap_err().code(), 1);
    }
}
