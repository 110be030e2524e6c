//! What the demo prints where it differs from what the commands of the same names do: names instead of addresses.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use kringle::{Delivered, Hit, Key, Peer, Summary, Survey};
use kringle_core::config::OverlayKind;

use super::journal::Entry;
use super::port::Port;
use super::ring::{Member, Ring};
use crate::show::cluster::shape;
use crate::show::{Columns, Sheet, Width, count, event, rtt, share, took, uptime};

/// Nodes that 'status' lists; 'ring' lists all.
const LISTED: usize = 16;

/// Writes what stands above the first prompt.
pub(crate) fn banner(
    nodes: usize,
    seed: u64,
    overlay: OverlayKind,
    spent: Duration,
    port: Option<&Port>,
) -> String {
    let settings = kringle::Settings::demo();
    let shape = match overlay {
        OverlayKind::Pastry => format!("Pastry b={} L={}", settings.base.bits(), settings.leaf_set),
        OverlayKind::Chord => format!("Chord r={}", settings.successors),
    };
    let mut out = format!(
        "\n  kringle {} demo   {}, {shape}        up in {}\n",
        env!("CARGO_PKG_VERSION"),
        count(nodes, "node"),
        span(spent)
    );
    if let Some(Port { address, moved, .. }) = port {
        let why = if *moved { "   (the usual port is taken)" } else { "" };
        let _ = writeln!(out, "  http        curl http://{address}/v1/status{why}");
    }
    let _ = write!(
        out,
        "  seed {seed} - the same ring every time. Nothing is written to disk. Ctrl-C ends it.\n\n  \
         try:  trace hello     kill 3     status     help\n\n"
    );
    out
}

/// Writes the health of the ring.
pub(crate) fn status(me: &Summary, survey: &Survey) -> String {
    let nodes = &survey.nodes;
    let suspects: BTreeSet<&String> = nodes.iter().flat_map(|node| &node.suspects).collect();
    // Whoever has left may be in doubt at those who did not hear its goodbye; it is not part of the ring any more.
    let suspects = nodes.iter().filter(|node| suspects.contains(&node.id)).count();
    let up = nodes.iter().filter(|node| state(node) == "up").count();
    let health = match (survey.whole, survey.silent.len()) {
        (true, _) => "whole  (all ring neighbours agree)".into(),
        (false, 0) => "NOT whole yet  (ring neighbours disagree; look again in a second)".into(),
        (false, silent) => format!("NOT whole  ({} did not answer)", count(silent, "node")),
    };
    let mut out = format!(
        "cluster  {}   {}   {} up, {} suspect, {} down\nring     {health}\n\n",
        me.cluster,
        shape(me),
        count(up, "node"),
        suspects,
        survey.silent.len()
    );
    let mut sheet = Sheet::new(&["ID", "NAME", "STATE", ">OWNS", ">KNOWS", ">UPTIME"]);
    for node in nodes.iter().take(LISTED) {
        sheet.row(row(vec![
            short(&node.id),
            node.name.clone().unwrap_or_default(),
            state(node).into(),
            share(node.share),
            node.known.to_string(),
            uptime(node.uptime_ms),
            mark(node, survey),
        ]));
    }
    out.push_str(&sheet.text(Columns::default()));
    if nodes.len() > LISTED {
        let _ = writeln!(out, "... and {} more: ring", nodes.len() - LISTED);
    }
    out.push_str("* this node is asked.   Next: ring, trace KEY, kill NODE, table\n");
    out
}

/// Writes all nodes in ring order.
pub(crate) fn ring(survey: &Survey) -> String {
    let mut sheet = Sheet::new(&["ID", "NAME", "STATE", ">OWNS", "FROM", "TO"]);
    for node in &survey.nodes {
        let (from, to) = match &node.range {
            Some((from, to)) => (short(from), short(to)),
            None if node.share > 0.5 => ("all".into(), "all".into()),
            None => ("-".into(), "-".into()),
        };
        let name = node.name.clone().unwrap_or_default();
        sheet.row(row(vec![
            node.id.clone(),
            name,
            state(node).into(),
            share(node.share),
            from,
            to,
            mark(node, survey),
        ]));
    }
    let mut out = sheet.text(Columns::default());
    for id in &survey.silent {
        let _ = writeln!(out, "{id}  did not answer");
    }
    out
}

fn mark(node: &Summary, survey: &Survey) -> String {
    if node.id == survey.by { "*".into() } else { String::new() }
}

fn state(node: &Summary) -> &str {
    match node.status.as_str() {
        "ready" if node.entitled => "up",
        // Part of the ring, but its neighbours have not leased it the right to deliver.
        "ready" => "unleased",
        other => other,
    }
}

/// Writes who answers for a key.
pub(crate) fn lookup(key: &str, id: Key, hit: &Hit, ring: &Ring) -> String {
    format!(
        "key   {key:?}  id {id}\nroot  {}   {}, {}{}\n",
        title(&hit.root.to_string(), ring),
        count(hit.hops.into(), "hop"),
        took(micros(hit.took)),
        finality(hit.is_final)
    )
}

fn finality(is_final: bool) -> &'static str {
    if is_final { "" } else { "    not final: the root may not deliver right now" }
}

/// Writes what became of a message.
pub(crate) fn delivered(delivered: &Delivered, spent: Duration, ring: &Ring) -> String {
    let answer = match &delivered.answer {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "no answer".into(),
    };
    format!(
        "delivered  to {}  {}, {}\nanswer     {answer}\n",
        title(&delivered.root.to_string(), ring),
        count(delivered.hops.into(), "hop"),
        took(micros(spent))
    )
}

/// Writes who was started.
pub(crate) fn spawned(new: &[Member], spent: Duration, now: usize) -> String {
    let names = match new {
        [one] => one.title(),
        [first, .., last] => format!("{} to {}", first.name(), last.name()),
        [] => "nobody".into(),
    };
    format!("{names} joined in {}   {} now\n", span(spent), count(now, "node"))
}

/// Writes whom a node knows.
pub(crate) fn peers(peers: &[Peer], ring: &Ring) -> String {
    if peers.is_empty() {
        return "nobody: this node is alone\n".into();
    }
    let mut sheet = Sheet::new(&["ID", "NAME", "STATE", ">RTT", "LINK", "KEPT-AS"]);
    for peer in peers {
        sheet.row(row(vec![
            short(&peer.id),
            ring.name_of(&peer.id).unwrap_or_else(|| "gone".into()),
            if peer.state == "suspect" { "SUSPECT".into() } else { peer.state.clone() },
            rtt(peer.rtt_us),
            if peer.connected { "open".into() } else { "-".into() },
            peer.roles.join(","),
            String::new(),
        ]));
    }
    sheet.text(Columns::default())
}

/// Writes an event, and where it happened.
pub(crate) fn event(entry: &Entry) -> String {
    format!("{:9} {}", format!("demo-{}", entry.number), event::line(&entry.event, false, false))
}

/// Leaves out marks that are not there.
fn row(mut cells: Vec<String>) -> Vec<String> {
    cells.pop_if(|last| last.is_empty());
    cells
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Writes a span as people say it.
pub(crate) fn span(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

fn short(id: &str) -> String {
    Width::of([], false).cut(id).to_owned()
}

fn title(id: &str, ring: &Ring) -> String {
    let name = ring.name_of(id).map_or(String::new(), |name| format!(" ({name})"));
    format!("{}{name}", short(id))
}
