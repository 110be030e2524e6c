//! `status`, `ring` and `peers`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use kringle_runtime::report::{Held, Peer, RingCheck, Summary, Survey};

use super::{Columns, Sheet, Width, count, rtt, share, uptime};

/// What is known of a ring: this node, and the others if it asked around.
pub(crate) struct Cluster<'a> {
    /// The node that was asked.
    pub(crate) me: &'a Summary,
    /// What it found.
    pub(crate) survey: Option<&'a Survey>,
    /// Round trips from it, by id.
    pub(crate) trips: BTreeMap<String, u32>,
}

/// Writes which properties of a ring hold.
pub(crate) fn check(check: &RingCheck) -> String {
    let (asked, group) = (count(check.nodes, "node"), check.nodes - check.ring);
    let mut text = format!("{asked} asked: {} of a ring, {group} of a small group", check.ring);
    if !check.silent.is_empty() {
        text += &format!(", {} silent", check.silent.len());
    }
    if check.cut {
        text += "; there are more";
    }
    text += "\n";
    for property in &check.properties {
        let when = if property.always { "always" } else { "in peace" };
        let holds = match (property.holds, property.always) {
            (true, _) => "holds",
            (false, true) => "BROKEN",
            (false, false) => "not yet",
        };
        text += &format!("{when:9} {:31} {holds}\n", property.name);
    }
    text
}

/// Writes the health of a cluster on one screen.
pub(crate) fn status(cluster: &Cluster<'_>, columns: Columns) -> String {
    let me = cluster.me;
    let nodes = cluster.survey.map_or(std::slice::from_ref(me), |survey| survey.nodes.as_slice());
    let suspects = suspects(nodes);
    let silent = cluster.survey.map_or(&[][..], |survey| survey.silent.as_slice());
    let all = nodes.iter().map(|node| node.id.as_str()).chain(silent.iter().map(String::as_str));
    let width = Width::of(all, columns.long);
    let mut sheet = Sheet::new(&["ID", "NAME", "ADDRESS", "STATE", ">OWNS", ">RTT", ">UPTIME", "VERSION"]);
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in nodes {
        let mut cells = vec![
            width.cut(&node.id).to_owned(),
            name(node),
            address(&node.endpoints),
            state(node, &suspects).into(),
            share(node.share),
            rtt(cluster.trips.get(&node.id).copied()),
            uptime(node.uptime_ms),
            node.version.clone(),
        ];
        cells.extend((node.id == me.id).then(|| "*".to_owned()));
        rows.insert(&node.id, cells);
    }
    for id in silent {
        let mut cells = vec![width.cut(id).to_owned(), "-".into(), "-".into(), "DOWN".into()];
        cells.extend(std::iter::repeat_n("-".to_owned(), 4));
        rows.insert(id, cells);
    }
    rows.into_values().for_each(|cells| sheet.row(cells));
    if columns.no_header {
        return sheet.text(columns);
    }
    format!(
        "cluster  {}   {}   {}\nring     {}\n{}\n{}* this node.   Next: kringle ring, kringle peers, kringle trace KEY\n",
        me.cluster,
        shape(me),
        tally(nodes, &suspects, silent.len()),
        wholeness(cluster),
        data(nodes) + &disks(nodes, &width),
        sheet.text(columns)
    )
}

/// Names the overlay and how it is set.
pub(crate) fn shape(node: &Summary) -> String {
    match (node.successors, &node.mode) {
        (Some(r), Some(mode)) => format!("{} r={r} {mode}", node.overlay),
        (Some(r), None) => format!("{} r={r}", node.overlay),
        (None, _) => format!("{} b={} L={}", node.overlay, node.base, node.leaf_set),
    }
}

/// Writes what is wrong with disks, or was.
fn disks(nodes: &[Summary], width: &Width) -> String {
    let mut text = String::new();
    for node in nodes {
        for line in node.disk.iter().flat_map(super::node::disk) {
            let name = node.name.as_deref().unwrap_or_else(|| width.cut(&node.id));
            text += &format!("disk     {name}: {line}\n");
        }
    }
    text
}

/// Writes what the cluster stores, and whether all copies are there.
fn data(nodes: &[Summary]) -> String {
    let held: Vec<Held> = nodes.iter().filter_map(|node| node.store).collect();
    if held.is_empty() {
        return String::new();
    }
    let sum = |count: fn(&Held) -> u64| held.iter().map(count).sum::<u64>();
    let mut text = format!(
        "data     {} records, {} copies   {} slots under-replicated, {} being copied\n",
        sum(|held| held.records),
        sum(|held| held.copies),
        sum(|held| held.under_replicated.into()),
        sum(|held| u64::from(held.pulls.max(held.moving))),
    );
    let stuck = sum(|held| held.stuck.into());
    if stuck > 0 {
        text += &format!(
            "         {stuck} slots have no quorum: start the nodes that are missing, or see 'kringle recover'\n"
        );
    }
    let doubting = sum(|held| held.doubting.into());
    if doubting > 0 {
        text += &format!("         {doubting} copies are damaged and being fetched from other replicas\n");
    }
    let rebuilt = held.iter().map(|held| held.rebuilt).max().unwrap_or(0);
    if rebuilt > 0 {
        text += &format!("         {rebuilt} slots were rebuilt without a quorum ('kringle recover')\n");
    }
    for (node, clock) in nodes.iter().filter_map(|node| Some((node, node.store?.clock))) {
        let off = clock.off_ms.unwrap_or(clock.ahead_ms);
        if clock.settled && off.abs() >= 1000 {
            let (way, name) =
                (if off > 0 { "ahead" } else { "behind" }, node.name.as_ref().unwrap_or(&node.id));
            text +=
                &format!("         the wall clock of {name} is {:.1} s {way}\n", off.abs() as f64 / 1000.0);
        }
    }
    if sum(|held| held.pairs.into()) > 0 {
        text += "         two copies are less available than one: add a third node\n";
    }
    let full = held.iter().filter(|held| !held.has_room).count();
    if full > 0 {
        text += &format!("         the disks of {full} nodes are full\n");
    }
    text
}

/// Writes the nodes in ring order, with what each answers for.
pub(crate) fn ring(survey: &Survey, columns: Columns) -> String {
    let width = Width::of(survey.nodes.iter().map(|node| node.id.as_str()), columns.long);
    let suspects = suspects(&survey.nodes);
    let mut sheet = Sheet::new(&["ID", "NAME", "ADDRESS", "STATE", ">OWNS", "FROM", "TO"]);
    for node in &survey.nodes {
        let (from, to) = match &node.range {
            Some((from, to)) => (width.cut(from).to_owned(), width.cut(to).to_owned()),
            None if node.share > 0.5 => ("all".into(), "all".into()),
            None => ("-".into(), "-".into()),
        };
        let mut cells = vec![
            width.cut(&node.id).to_owned(),
            name(node),
            address(&node.endpoints),
            state(node, &suspects).into(),
            share(node.share),
            from,
            to,
        ];
        cells.extend((node.id == survey.by).then(|| "*".to_owned()));
        sheet.row(cells);
    }
    let mut text = sheet.text(columns);
    if !columns.no_header {
        let silent: Vec<&str> = survey.silent.iter().map(|id| width.cut(id)).collect();
        if !silent.is_empty() {
            text.push_str(&format!("no answer from  {}\n", silent.join("  ")));
        }
        if survey.cut {
            text.push_str("there are more nodes than were asked\n");
        }
    }
    text
}

/// Writes whom a node knows.
pub(crate) fn peers(peers: &[Peer], columns: Columns) -> String {
    let width = Width::of(peers.iter().map(|peer| peer.id.as_str()), columns.long);
    let mut sheet = Sheet::new(&["ID", "ADDRESS", "STATE", ">RTT", "LINK", "KEPT-AS"]);
    for peer in peers {
        sheet.row(vec![
            width.cut(&peer.id).to_owned(),
            address(&peer.endpoints),
            if peer.state == "suspect" { "SUSPECT".into() } else { peer.state.clone() },
            rtt(peer.rtt_us),
            match &peer.via {
                Some(relay) => format!("via {}", width.cut(relay)),
                None => if peer.connected { "open" } else { "-" }.into(),
            },
            peer.roles.join(","),
        ]);
    }
    let text = sheet.text(columns);
    if peers.is_empty() && !columns.no_header { format!("{text}nobody: this node is alone\n") } else { text }
}

fn suspects(nodes: &[Summary]) -> BTreeSet<&str> {
    nodes.iter().flat_map(|node| node.suspects.iter().map(String::as_str)).collect()
}

/// Returns the word for a node's state. Healthy ones are in lower case.
fn state<'a>(node: &'a Summary, suspects: &BTreeSet<&str>) -> &'a str {
    match node.status.as_str() {
        _ if suspects.contains(node.id.as_str()) => "SUSPECT",
        "ready" if node.entitled => "up",
        // Part of the ring, but its neighbours have not leased it the right to deliver.
        "ready" => "unleased",
        "isolated" => "ISOLATED",
        other => other,
    }
}

fn tally(nodes: &[Summary], suspects: &BTreeSet<&str>, down: usize) -> String {
    let suspect = nodes.iter().filter(|node| suspects.contains(node.id.as_str())).count();
    let up = nodes.iter().filter(|node| state(node, suspects) == "up").count();
    let others = nodes.len() - up - suspect;
    let others = if others > 0 { format!(", {others} not ready") } else { String::new() };
    let ups = if down > 0 {
        format!("{up} of {} up", count(nodes.len() + down, "node"))
    } else {
        format!("{} up", count(up, "node"))
    };
    format!("{ups}{others}, {suspect} suspect, {down} {}", if down > 0 { "DOWN" } else { "down" })
}

fn wholeness(cluster: &Cluster<'_>) -> String {
    match cluster.survey {
        None => format!("this node is {}; nobody else was asked", cluster.me.status),
        Some(survey) if survey.whole => "whole  (all ring neighbours agree)".into(),
        Some(survey) if survey.cut => {
            format!("larger than the {} that were asked", count(survey.nodes.len(), "node"))
        }
        Some(survey) if !survey.silent.is_empty() => {
            format!("NOT whole  ({} did not answer)", count(survey.silent.len(), "node"))
        }
        Some(survey) if survey.nodes.iter().any(|node| node.status != "ready") => {
            "not whole yet  (somebody is not ready)".into()
        }
        Some(_) => "NOT whole  (ring neighbours disagree; look again in a few seconds)".into(),
    }
}

fn name(node: &Summary) -> String {
    node.name.clone().unwrap_or_else(|| "-".into())
}

/// Returns the first address, and how many more there are.
pub(super) fn address(endpoints: &[SocketAddr]) -> String {
    match endpoints {
        [] => "-".into(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first}+{}", rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{id, summary, survey};
    use kringle_runtime::report::{Disk, Property};

    use super::*;

    #[test]
    fn the_data_line_adds_up_what_nodes_hold() {
        let mut survey = survey();
        let held = Held { slots: 3, copies: 30, records: 10, pairs: 0, has_room: true, ..Held::default() };
        survey.nodes.iter_mut().for_each(|node| node.store = Some(held));
        assert!(data(&survey.nodes).starts_with("data     30 records, 90 copies   0 slots under-replicated"));
        let worse = Held { under_replicated: 2, stuck: 1, pairs: 1, has_room: false, ..held };
        survey.nodes[0].store = Some(worse);
        let text = data(&survey.nodes);
        for part in
            ["2 slots under-replicated", "1 slots have no quorum", "less available than one", "disks of 1"]
        {
            assert!(text.contains(part), "{text}");
        }
        let disk = Disk { repairs: 1, files: vec!["store/keyspaces/1/tables/7".into()], ..Disk::default() };
        survey.nodes[0].disk = Some(disk);
        let text = disks(&survey.nodes, &Width::of([], false));
        assert!(
            text.starts_with("disk     ") && text.contains("repaired 1 time") && text.contains("tables/7"),
            "{text}"
        );
        survey.nodes.iter_mut().for_each(|node| node.store = None);
        assert_eq!(data(&survey.nodes), "");
    }

    #[test]
    fn a_check_says_what_is_broken_and_what_is_not_so_yet() {
        let property = |name: &str, always, holds| Property { name: name.into(), always, holds };
        let found = RingCheck {
            by: "1".into(),
            nodes: 3,
            ring: 2,
            silent: vec!["9".into()],
            cut: false,
            properties: vec![
                property("ordered ring", true, false),
                property("at least one ring", true, true),
                property("ideal ring", false, false),
            ],
        };
        let text = check(&found);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "3 nodes asked: 2 of a ring, 1 of a small group, 1 silent");
        assert_eq!(lines[1], "always    ordered ring                    BROKEN");
        assert_eq!(lines[2], "always    at least one ring               holds");
        assert_eq!(lines[3], "in peace  ideal ring                      not yet");
        assert!(!found.is_good());
    }

    #[test]
    fn a_chord_cluster_shows_its_list_length_and_mode() {
        let mut me = summary("1d77e0", None, 7402);
        (me.overlay, me.successors, me.mode) = ("chord".into(), Some(8), Some("forming".into()));
        let cluster = Cluster { me: &me, survey: None, trips: BTreeMap::new() };
        let text = status(&cluster, Columns::default());
        assert!(text.starts_with("cluster  demo   chord r=8 forming   1 node up"), "{text}");
    }

    fn shown(survey: &Survey) -> String {
        let me = summary("1d77e0", Some("demo-2"), 7402);
        let trips = BTreeMap::from([(id("0af3c1"), 120)]);
        status(&Cluster { me: &me, survey: Some(survey), trips }, Columns::default())
    }

    #[test]
    fn a_healthy_cluster_fits_on_a_screen() {
        let text = "\
cluster  demo   pastry b=4 L=8   3 nodes up, 0 suspect, 0 down
ring     whole  (all ring neighbours agree)

ID      NAME    ADDRESS         STATE   OWNS     RTT  UPTIME  VERSION
0af3c1  demo-7  127.0.0.1:7407  up     25.0%  0.12ms   2m14s  0.1.0
1d77e0  demo-2  127.0.0.1:7402  up     25.0%       -   2m14s  0.1.0 *
a3b90c  -       127.0.0.1:7411  up     25.0%       -   2m14s  0.1.0
* this node.   Next: kringle ring, kringle peers, kringle trace KEY
";
        assert_eq!(shown(&survey()), text);
    }

    #[test]
    fn what_is_wrong_is_said_first() {
        let mut survey = survey();
        survey.whole = false;
        survey.silent = vec![id("6b2e9f")];
        survey.nodes[0].suspects = vec![id("a3b90c")];
        let text = shown(&survey);
        assert!(
            text.starts_with("cluster  demo   pastry b=4 L=8   2 of 4 nodes up, 1 suspect, 1 DOWN\n"),
            "{text}"
        );
        assert!(text.contains("\nring     NOT whole  (1 node did not answer)\n"), "{text}");
        assert!(
            text.contains("\n6b2e9f  -       -               DOWN         -       -       -  -\n"),
            "{text}"
        );
        assert!(text.contains("SUSPECT"), "{text}");
    }

    #[test]
    fn a_node_that_asked_nobody_shows_itself() {
        let mut me = summary("1d77e0", None, 7402);
        (me.status, me.entitled) = ("joining".into(), false);
        let cluster = Cluster { me: &me, survey: None, trips: BTreeMap::new() };
        let text = status(&cluster, Columns::default());
        assert!(
            text.contains("0 nodes up, 1 not ready, 0 suspect, 0 down\nring     this node is joining;"),
            "{text}"
        );
    }

    #[test]
    fn the_ring_shows_who_answers_for_what() {
        let mut survey = survey();
        survey.nodes.truncate(2);
        survey.nodes[1].range = None;
        survey.nodes[1].share = 0.0;
        let text = "\
ID      NAME    ADDRESS         STATE   OWNS  FROM    TO
0af3c1  demo-7  127.0.0.1:7407  up     25.0%  000000  400000
1d77e0  demo-2  127.0.0.1:7402  up      0.0%  -       - *
";
        assert_eq!(ring(&survey, Columns::default()), text);
        let wide = ring(&survey, Columns { no_header: true, long: true });
        assert!(wide.starts_with(&id("0af3c1")) && wide.lines().count() == 2, "{wide}");
    }

    #[test]
    fn peers_are_shown_with_their_places() {
        let peer = Peer {
            id: id("a3b90c"),
            incarnation: 1,
            endpoints: vec![([10, 0, 0, 1], 7400).into(), ([10, 0, 0, 2], 7400).into()],
            rtt_us: Some(15_000),
            state: "suspect".into(),
            connected: true,
            via: None,
            roles: vec!["left".into(), "table".into()],
        };
        let text = "\
ID      ADDRESS          STATE     RTT  LINK  KEPT-AS
a3b90c  10.0.0.1:7400+1  SUSPECT  15ms  open  left,table
";
        assert_eq!(peers(std::slice::from_ref(&peer), Columns::default()), text);
        let relayed = Peer { via: Some(id("77aa01")), ..peer };
        assert!(peers(&[relayed], Columns::default()).contains("  via 77aa01  left,table\n"));
        assert!(peers(&[], Columns::default()).ends_with("nobody: this node is alone\n"));
    }
}
