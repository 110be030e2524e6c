//! What the demo prints.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use kringle::{Base, Delivered, Found, Hit, Id, Key, NodeId, Peer, Summary, Survey, Tables, What};

use super::journal::Entry;
use super::port::Port;
use super::ring::{Member, Ring};

/// Digits of an id that are shown.
const SHORT: usize = 6;
/// Nodes that 'status' lists; 'ring' lists all.
const LISTED: usize = 16;

/// Writes what stands above the first prompt.
pub(crate) fn banner(nodes: usize, seed: u64, took: Duration, port: Option<&Port>) -> String {
    let settings = kringle::Settings::demo();
    let mut out = format!(
        "\n  kringle {} demo   {}, Pastry b={} L={}        up in {}\n",
        env!("CARGO_PKG_VERSION"),
        count(nodes, "node"),
        settings.base.bits(),
        settings.leaf_set,
        span(took)
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
        "cluster  {}   {} b={} L={}   {} up, {} suspect, {} down\nring     {health}\n\n",
        me.cluster,
        me.overlay,
        me.base,
        me.leaf_set,
        count(up, "node"),
        suspects,
        survey.silent.len()
    );
    let mut rows = vec![cells(["ID", "NAME", "STATE", "OWNS", "KNOWS", "UPTIME", ""])];
    for node in nodes.iter().take(LISTED) {
        rows.push(vec![
            short(&node.id),
            node.name.clone().unwrap_or_default(),
            state(node).into(),
            share(node.share),
            node.known.to_string(),
            format!("{} s", node.uptime_ms / 1000),
            mark(node, survey),
        ]);
    }
    out.push_str(&columns(&rows));
    if nodes.len() > LISTED {
        let _ = writeln!(out, "... and {} more: ring", nodes.len() - LISTED);
    }
    out.push_str("* this node is asked.   Next: ring, trace KEY, kill NODE, table\n");
    out
}

/// Writes all nodes in ring order.
pub(crate) fn ring(survey: &Survey) -> String {
    let mut rows = vec![cells(["ID", "NAME", "STATE", "OWNS", "FROM", "TO", ""])];
    for node in &survey.nodes {
        let (from, to) = match &node.range {
            Some((from, to)) => (short(from), short(to)),
            None if node.share > 0.5 => ("all".into(), "all".into()),
            None => ("-".into(), "-".into()),
        };
        let name = node.name.clone().unwrap_or_default();
        rows.push(vec![
            node.id.clone(),
            name,
            state(node).into(),
            share(node.share),
            from,
            to,
            mark(node, survey),
        ]);
    }
    let mut out = columns(&rows);
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
        millis(hit.took),
        finality(hit.is_final)
    )
}

/// Writes the way to a key. Each line has the rule that led to it.
pub(crate) fn trace(key: &str, found: &Found, replicas: &[NodeId], ring: &Ring) -> String {
    let origin = found.path.first().map_or("", |hop| hop.node.as_str());
    let mut out = format!("key  {key:?}  id {}   from {}\n\n", found.key, title(origin, ring));
    let id: Key = found.key.parse().unwrap_or(Id::ZERO);
    let mut rows = vec![cells([" hop", "node", "shares", "rule", "distance left", "RTT", ""])];
    for (at, hop) in found.path.iter().enumerate() {
        let came = at.checked_sub(1).and_then(|before| found.path.get(before));
        let shares = id.text(Base::HEX, hop.shared);
        let tenths = |tenths: u32| format!("2^{}.{}", tenths / 10, tenths % 10);
        rows.push(vec![
            format!("{at:3}"),
            short(&hop.node),
            if shares.is_empty() { "-".into() } else { shares },
            came.map_or("start".into(), |came| came.rule.clone()),
            hop.distance_log2_tenths.map_or("0".into(), tenths),
            came.and_then(|came| came.rtt_us)
                .map_or("-".into(), |micros| millis(Duration::from_micros(micros.into()))),
            if at + 1 == found.path.len() { "root".into() } else { String::new() },
        ]);
    }
    out.push_str(&columns(&rows));
    let nodes = ring.members().len();
    let _ = writeln!(
        out,
        "\ndelivered in {}, {}    log16({nodes}) = {:.1}    worst case {} rows{}",
        count(found.hops.into(), "hop"),
        millis(Duration::from_micros(found.micros)),
        (nodes as f64).ln() / 16_f64.ln(),
        Base::HEX.digits(),
        finality(found.is_final)
    );
    let replicas: Vec<String> = replicas.iter().map(|id| short(&id.to_string())).collect();
    let _ = writeln!(out, "replicas  {}", replicas.join("  "));
    out
}

fn finality(is_final: bool) -> &'static str {
    if is_final { "" } else { "    not final: the root may not deliver right now" }
}

/// Writes what became of a message.
pub(crate) fn delivered(delivered: &Delivered, took: Duration, ring: &Ring) -> String {
    let answer = match &delivered.answer {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "no answer".into(),
    };
    format!(
        "delivered  to {}  {}, {}\nanswer     {answer}\n",
        title(&delivered.root.to_string(), ring),
        count(delivered.hops.into(), "hop"),
        millis(took)
    )
}

/// Writes who was started.
pub(crate) fn spawned(new: &[Member], took: Duration, now: usize) -> String {
    let names = match new {
        [one] => one.title(),
        [first, .., last] => format!("{} to {}", first.name(), last.name()),
        [] => "nobody".into(),
    };
    format!("{names} joined in {}   {} now\n", span(took), count(now, "node"))
}

/// Writes everything a node tells about itself.
pub(crate) fn details(node: &Summary) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let range = match &node.range {
        Some((from, to)) => format!("{from} up to, not with, {to}"),
        None if node.share > 0.5 => "the whole ring".into(),
        None => "nothing".into(),
    };
    let may = if node.entitled { "may deliver" } else { "may not deliver" };
    let lines = [
        ("id", node.id.clone()),
        ("name", text(&node.name)),
        ("state", format!("{}, {may}", node.status)),
        ("uptime", format!("{} s, incarnation {}", node.uptime_ms / 1000, node.incarnation)),
        ("owns", format!("{} of the ring", share(node.share))),
        ("from", range),
        ("left", text(&node.left)),
        ("right", text(&node.right)),
        ("knows", format!("{}, {} in the leaf set", count(node.known, "node"), node.leaves)),
        ("links", format!("{} open", node.connections)),
        ("suspects", if node.suspects.is_empty() { "nobody".into() } else { node.suspects.join("  ") }),
    ];
    lines.iter().map(|(name, value)| format!("{name:9} {value}\n")).collect()
}

/// Writes a node's tables: one row of the routing table per line, its occupied cells by column.
pub(crate) fn tables(tables: &Tables) -> String {
    let ids = |entries: &[kringle::Entry]| {
        let ids: Vec<String> = entries.iter().map(|entry| short(&entry.id)).collect();
        if ids.is_empty() { "nobody".into() } else { ids.join("  ") }
    };
    let mut out = format!(
        "Node {}   b={} L={} M={}\n\nLeaf set, nearest first\n  smaller  {}\n  larger   {}\n\nRouting table\n",
        tables.id,
        tables.base,
        tables.leaf_set,
        tables.neighbourhood,
        ids(&tables.left),
        ids(&tables.right)
    );
    let rows: BTreeSet<u8> = tables.cells.iter().map(|cell| cell.row).collect();
    for row in rows {
        let cells = tables.cells.iter().filter(|cell| cell.row == row);
        let cells: Vec<String> =
            cells.map(|cell| format!("{:x}:{}", cell.column, short(&cell.holder.id))).collect();
        for (at, line) in cells.chunks(8).enumerate() {
            let head = if at == 0 { format!("row {row}") } else { String::new() };
            let _ = writeln!(out, "  {head:7}  {}", line.join("  "));
        }
    }
    let _ = writeln!(out, "\nNeighbourhood set, nearest first\n           {}", ids(&tables.neighbours));
    out
}

/// Writes whom a node knows.
pub(crate) fn peers(peers: &[Peer], ring: &Ring) -> String {
    if peers.is_empty() {
        return "nobody: this node is alone\n".into();
    }
    let mut rows = vec![cells(["ID", "NAME", "STATE", "RTT", "LINK", "KEPT AS", ""])];
    for peer in peers {
        rows.push(vec![
            short(&peer.id),
            ring.name_of(&peer.id).unwrap_or_else(|| "gone".into()),
            if peer.state == "suspect" { "SUSPECT".into() } else { peer.state.clone() },
            peer.rtt_us.map_or("-".into(), |micros| millis(Duration::from_micros(micros.into()))),
            if peer.connected { "open".into() } else { "-".into() },
            peer.roles.join(","),
            String::new(),
        ]);
    }
    columns(&rows)
}

/// Writes an event: the time of day in UTC, where, and what.
pub(crate) fn event(entry: &Entry) -> String {
    let (what, rest) = match &entry.event.what {
        What::Status { status } => ("status", status.clone()),
        What::PeerUp { peer } => ("peer-up", short(peer)),
        What::PeerDown { peer } => ("peer-down", short(peer)),
        What::Suspected { peer } => ("suspected", short(peer)),
        What::Cleared { peer } => ("cleared", short(peer)),
        What::Died { peer } => ("died", short(peer)),
        What::RangeGained { from, to } => ("range-gained", format!("{} to {}", short(from), short(to))),
        What::RangeLost { from, to } => ("range-lost", format!("{} to {}", short(from), short(to))),
        What::Refused { peer, reason } => ("refused", format!("{}: {reason}", short(peer))),
        What::LeasesOverdue => ("leases-overdue", "three leases without the right to deliver".into()),
        What::Missed { count } => ("missed", format!("{count} events")),
    };
    let (seconds, millis) = (entry.event.at_ms / 1000, entry.event.at_ms % 1000);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let name = format!("demo-{}", entry.number);
    format!("{hour:02}:{minute:02}:{second:02}.{millis:03}  {name:9} {what:14} {rest}\n")
}

/// Writes a span as people say it.
pub(crate) fn span(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

fn millis(span: Duration) -> String {
    format!("{:.2} ms", span.as_secs_f64() * 1e3)
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

fn short(id: &str) -> String {
    id.get(..SHORT).unwrap_or(id).to_owned()
}

fn title(id: &str, ring: &Ring) -> String {
    let name = ring.name_of(id).map_or(String::new(), |name| format!(" ({name})"));
    format!("{}{name}", short(id))
}

fn cells<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).into()
}

/// Writes rows as columns, each as wide as it has to be.
fn columns(rows: &[Vec<String>]) -> String {
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..most).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells: String = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  ")).collect();
        format!("{}\n", cells.trim_end())
    };
    rows.iter().map(line).collect()
}
