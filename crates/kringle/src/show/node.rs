//! `node` and `table`: one node, and the tables it keeps.

use kringle_core::id::Id;
use kringle_front::moment::timestamp;
use kringle_runtime::report::{ChordTables, Disk, Entry, Summary, Tables};

use super::{Columns, Sheet, Width, count, rtt, share, uptime};
use crate::notation::Notation;
use crate::table::{self, State};

/// Digits of a shortened id, in bits.
const SHORT_BITS: u8 = 24;

/// Writes everything a node tells about itself.
pub(crate) fn details(node: &Summary) -> String {
    let missing = || "-".to_owned();
    let endpoints: Vec<String> = node.endpoints.iter().map(ToString::to_string).collect();
    let entitled = if node.entitled { "may deliver" } else { "may not deliver" };
    let range = match &node.range {
        Some((from, to)) => format!("{from} up to, not with, {to}"),
        None if node.share > 0.5 => "the whole ring".into(),
        None => "nothing".into(),
    };
    let lines = [
        ("id", node.id.clone()),
        ("name", node.name.clone().unwrap_or_else(missing)),
        ("cluster", node.cluster.clone()),
        ("overlay", format!("{} {}", super::cluster::shape(node), node.ownership)),
        ("state", format!("{}, {entitled}", node.status)),
        ("uptime", format!("{}, incarnation {}", uptime(node.uptime_ms), node.incarnation)),
        ("peers at", endpoints.join("  ")),
        ("clients at", node.client.clone().unwrap_or_else(missing)),
        ("region", node.region.clone().unwrap_or_else(missing)),
        ("owns", format!("{} of the ring", share(node.share))),
        ("from", range),
        ("left", node.left.clone().unwrap_or_else(missing)),
        ("right", node.right.clone().unwrap_or_else(missing)),
        (
            "knows",
            format!(
                "{}, {} {}, {} open",
                count(node.known, "node"),
                node.leaves,
                if node.successors.is_some() { "beside it" } else { "in the leaf set" },
                count(node.connections, "connection")
            ),
        ),
        ("suspects", if node.suspects.is_empty() { "nobody".into() } else { node.suspects.join("  ") }),
        ("version", node.version.clone()),
    ];
    let disk = node.disk.iter().flat_map(disk).map(|text| ("disk", text));
    let lines = lines.into_iter().chain(disk);
    lines.map(|(name, text)| format!("{name:11} {text}").trim_end().to_owned() + "\n").collect()
}

/// Says what is wrong with a disk, or was.
pub(crate) fn disk(disk: &Disk) -> Vec<String> {
    let mut lines = Vec::new();
    match disk.state.as_str() {
        "repair" => lines.push("damaged, and being repaired: this node serves nothing until then".to_owned()),
        "full" => lines.push("full: this node serves nothing until there is room".to_owned()),
        _ => {}
    }
    if let Some(why) = &disk.lost {
        lines.push(format!("lost, so the store began empty: {why}"));
    }
    if disk.repairs > 0 {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        lines.push(format!(
            "repaired {} so far, last {}: {} lost, {}; in {}",
            count(number(disk.repairs.into()), "time"),
            timestamp(disk.repaired_ms),
            count(number(disk.lost_bytes), "byte"),
            count(number(disk.lost_entries), "entry").replace("entrys", "entries"),
            disk.files.join(" "),
        ));
        lines.extend(disk.kept.iter().map(|kept| format!("the damaged store is kept in {kept}")));
    }
    if disk.torn_bytes > 0 {
        let torn = count(usize::try_from(disk.torn_bytes).unwrap_or(usize::MAX), "byte");
        lines.push(format!("dropped {torn} of an interrupted commit at the last start; never acknowledged"));
    }
    lines
}

/// Writes a node's tables as the Pastry paper draws them, or the state of a Chord node. `None` if they are no tables of a node.
pub(crate) fn tables(tables: &Tables, long: bool) -> Option<String> {
    if let Some(state) = &tables.chord {
        return Some(chord(&tables.id, state, long));
    }
    let id = |text: &String| text.parse::<Id>().ok();
    let ids = |entries: &[Entry]| entries.iter().map(|entry| id(&entry.id)).collect::<Option<Vec<Id>>>();
    let (me, left, right) = (id(&tables.id)?, ids(&tables.left)?, ids(&tables.right)?);
    let neighbours = ids(&tables.neighbours)?;
    let mut rows: Vec<Vec<(u8, Id)>> = Vec::new();
    for cell in &tables.cells {
        let row = usize::from(cell.row);
        rows.resize_with(rows.len().max(row + 1), Vec::new);
        rows[row].push((cell.column, id(&cell.holder.id)?));
    }
    let base = kringle_core::id::Base::new(tables.base)?;
    let digits = base.digits();
    let held = rows.iter().flatten().map(|(_, id)| *id);
    let all: Vec<Id> = held.chain(left.clone()).chain(right.clone()).chain(neighbours.clone()).collect();
    let shown = if long { digits } else { enough(me, &all, base, rows.len()) };
    // A side that is not full has run out of nodes, and a full one may meet the other.
    let side = usize::from(tables.leaf_set / 2);
    let whole = left.len() < side || left.iter().any(|leaf| right.contains(leaf));
    Some(table::draw(&State {
        notation: Notation::new(tables.base, shown)?,
        digits,
        me,
        leaf_set: tables.leaf_set,
        neighbourhood: tables.neighbourhood,
        left,
        right,
        whole,
        rows,
        neighbours,
    }))
}

/// Writes the state of a Chord node: who is beside it, its fingers, and what it is doing about its place.
fn chord(me: &str, state: &ChordTables, long: bool) -> String {
    let beside = state.predecessor.iter().chain(&state.successors).map(|entry| entry.id.as_str());
    let fingers = state.fingers.iter().map(|finger| finger.node.id.as_str());
    let doubted = state.suspects.iter().map(String::as_str);
    let width = Width::of(beside.chain(fingers).chain(doubted).chain([me]), long);
    let mode = match state.mode.as_str() {
        "forming" => format!(
            "forming: {} in list {}, a ring from {}",
            count(state.members.len(), "member"),
            state.epoch,
            state.r + 3
        ),
        other => other.to_owned(),
    };
    let mut out = format!("Node {}   chord r={}   {mode}\n\n", width.cut(me), state.r);
    let with_trip = |entry: &Entry| format!("{}  {}", width.cut(&entry.id), rtt(entry.rtt_us));
    let predecessor = state.predecessor.as_ref().map_or("-".into(), with_trip);
    out += &format!("Predecessor     {predecessor}\n");
    out += "Successors      ";
    let lines: Vec<String> = state.successors.iter().map(with_trip).collect();
    out += &if lines.is_empty() { "-".into() } else { lines.join("\n                ") };
    let query = match &state.query {
        Some(query) => format!(
            "{} at {}, asked {}{}",
            query.name,
            width.cut(&query.target),
            if query.attempts == 1 { "once".into() } else { format!("{} times", query.attempts) },
            if query.busy { ", which is busy" } else { "" }
        ),
        None => "none".into(),
    };
    let rectify = state.rectify_with.as_ref().map_or("nobody".into(), |id| width.cut(id).to_owned());
    let suspects: Vec<&str> = state.suspects.iter().map(|id| width.cut(id)).collect();
    let suspects = if suspects.is_empty() { "nobody".into() } else { suspects.join("  ") };
    out += &format!(
        "\n\nQuery           {query}\nRectify with    {rectify}\nWaiting for it  {}\nSuspects        {suspects}\n",
        count(state.delayed, "node")
    );
    if state.fingers.is_empty() {
        return out + "\nFingers         none: whoever is beside it is enough\n";
    }
    let mut sheet = Sheet::new(&[">FINGER", "START", "END", "NODE", ">RTT"]);
    for finger in &state.fingers {
        let cut = |id: &String| width.cut(id).to_owned();
        let (start, end) = (cut(&finger.start), cut(&finger.end));
        sheet.row(vec![
            format!("2^{}", finger.bit),
            start,
            end,
            cut(&finger.node.id),
            rtt(finger.node.rtt_us),
        ]);
    }
    out + "\n" + &sheet.text(Columns { long, no_header: false })
}

/// Returns how many digits tell these apart and show every row.
fn enough(me: Id, others: &[Id], base: kringle_core::id::Base, rows: usize) -> u8 {
    let mut all: Vec<Id> = others.iter().copied().chain([me]).collect();
    all.sort_unstable();
    all.dedup();
    let shared = all.windows(2).map(|pair| pair[0].shared_digits(pair[1], base)).max().unwrap_or(0);
    let rows = u8::try_from(rows).unwrap_or(u8::MAX);
    let least = SHORT_BITS.div_ceil(base.bits());
    least.max(shared.saturating_add(1)).max(rows.saturating_add(2)).min(base.digits())
}

/// Writes the leaf set with round trips, in ring order.
pub(crate) fn leaf_set(tables: &Tables, columns: Columns) -> String {
    let all = tables.left.iter().chain(&tables.right).map(|entry| entry.id.as_str());
    let width = Width::of(all.chain([tables.id.as_str()]), columns.long);
    let mut sheet = Sheet::new(&[">PLACE", "ID", ">RTT"]);
    let number = |at: usize, sign: char| format!("{sign}{}", at + 1);
    for (at, entry) in tables.left.iter().enumerate().rev() {
        sheet.row(vec![number(at, '-'), width.cut(&entry.id).to_owned(), rtt(entry.rtt_us)]);
    }
    sheet.row(vec!["0".into(), width.cut(&tables.id).to_owned(), "-".into(), "*".into()]);
    for (at, entry) in tables.right.iter().enumerate() {
        sheet.row(vec![number(at, '+'), width.cut(&entry.id).to_owned(), rtt(entry.rtt_us)]);
    }
    sheet.text(columns)
}

/// Writes the neighbourhood set with round trips, nearest first.
pub(crate) fn neighbours(tables: &Tables, columns: Columns) -> String {
    let width = Width::of(tables.neighbours.iter().map(|entry| entry.id.as_str()), columns.long);
    let mut sheet = Sheet::new(&["ID", ">RTT"]);
    for entry in &tables.neighbours {
        sheet.row(vec![width.cut(&entry.id).to_owned(), rtt(entry.rtt_us)]);
    }
    sheet.text(columns)
}

#[cfg(test)]
mod tests {
    use kringle_runtime::report::{Cell, FingerEntry, QueryEntry};

    use super::super::samples::{id, summary};
    use super::*;

    fn entry(start: &str, rtt_us: Option<u32>) -> Entry {
        Entry { id: id(start), rtt_us }
    }

    fn sample() -> Tables {
        let cell =
            |row, column, start: &str| Cell { row, column, holder: entry(start, None), spares: Vec::new() };
        Tables {
            id: id("1d77e0"),
            overlay: "pastry".into(),
            base: 4,
            leaf_set: 8,
            neighbourhood: 8,
            left: vec![entry("0af3c1", Some(210)), entry("a3b90c", None)],
            right: vec![entry("a3b90c", None), entry("0af3c1", Some(210))],
            cells: vec![cell(0, 0, "0af3c1"), cell(0, 10, "a3b90c")],
            neighbours: vec![entry("0af3c1", Some(210))],
            chord: None,
        }
    }

    #[test]
    fn a_running_nodes_tables_look_like_a_teaching_nodes() {
        let text = "\
Node 1d77e0   base 16 (b=4)   digits 32   leaf set L=8   neighbourhood M=8

Leaf set      SMALLER   LARGER
              0af3c1    a3b90c
              a3b90c    0af3c1
              the whole ring fits, so the sides overlap

Routing table
 row  occupied cells; the node's own digit in brackets
  0   -0-af3c1   (1)        -a-3b90c
  1   (d)
  ...

Neighbourhood set
              0af3c1
";
        assert_eq!(tables(&sample(), false).unwrap(), text);
        assert!(tables(&sample(), true).unwrap().contains(&id("1d77e0")));
        let broken = Tables { id: "nobody".into(), ..sample() };
        assert_eq!(tables(&broken, false), None);
    }

    #[test]
    fn a_chord_node_shows_who_is_beside_it_and_what_it_is_doing() {
        let state = ChordTables {
            mode: "ring".into(),
            r: 3,
            predecessor: Some(entry("0af3c1", Some(210))),
            successors: vec![entry("2a0000", None), entry("a3b90c", Some(180))],
            fingers: vec![FingerEntry {
                bit: 127,
                start: id("9d77e0"),
                end: id("1d77e0"),
                node: entry("a3b90c", Some(180)),
            }],
            suspects: vec![id("1f0000")],
            joined: true,
            query: Some(QueryEntry {
                name: "Stabilize".into(),
                target: id("2a0000"),
                attempts: 1,
                busy: true,
            }),
            rectify_with: None,
            delayed: 2,
            epoch: 4,
            members: Vec::new(),
        };
        let text = "\
Node 1d77e0   chord r=3   ring

Predecessor     0af3c1  0.21ms
Successors      2a0000  -
                a3b90c  0.18ms

Query           Stabilize at 2a0000, asked once, which is busy
Rectify with    nobody
Waiting for it  2 nodes
Suspects        1f0000

FINGER  START   END     NODE       RTT
 2^127  9d77e0  1d77e0  a3b90c  0.18ms
";
        let shown = Tables { overlay: "chord".into(), chord: Some(state.clone()), ..sample() };
        assert_eq!(tables(&shown, false).unwrap(), text);
        let small = ChordTables {
            mode: "forming".into(),
            members: vec![id("1d77e0")],
            fingers: Vec::new(),
            successors: Vec::new(),
            predecessor: None,
            ..state
        };
        let text = tables(&Tables { chord: Some(small), ..sample() }, false).unwrap();
        assert!(text.contains("forming: 1 member in list 4, a ring from 6"), "{text}");
        assert!(text.contains("Predecessor     -\n") && text.contains("Fingers         none"), "{text}");
    }

    #[test]
    fn ids_are_long_enough_for_the_deepest_row() {
        let mut deep = sample();
        deep.cells.push(Cell { row: 9, column: 1, holder: entry("1d77e00001", None), spares: Vec::new() });
        let text = tables(&deep, false).unwrap();
        assert!(text.contains("\n  9   (0)              1d77e0000-1-00"), "{text}");
    }

    #[test]
    fn the_leaf_set_is_in_ring_order() {
        let text = "\
PLACE  ID         RTT
   -2  a3b90c       -
   -1  0af3c1  0.21ms
    0  1d77e0       - *
   +1  a3b90c       -
   +2  0af3c1  0.21ms
";
        assert_eq!(leaf_set(&sample(), Columns::default()), text);
        assert_eq!(neighbours(&sample(), Columns::default()), "ID         RTT\n0af3c1  0.21ms\n");
    }

    #[test]
    fn details_name_everything() {
        let text = details(&summary("1d77e0", Some("demo-2"), 7402));
        assert!(text.contains("state       ready, may deliver\n"), "{text}");
        assert!(text.contains("knows       2 nodes, 2 in the leaf set, 2 connections open\n"), "{text}");
        assert!(text.lines().all(|line| line == line.trim_end()));
    }
}
