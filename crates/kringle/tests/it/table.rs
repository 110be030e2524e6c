//! `kringle table --example`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::brute_force::Ring;
use crate::{kringle, kringle_with_input};

#[test]
fn the_lectures_node_is_printed_as_drawn() {
    let golden = include_str!("../golden/lecture.txt");
    assert_eq!(kringle(&["table", "--example", "lecture"]).succeeded(), golden);
}

#[test]
fn the_lectures_node_is_the_same_for_programs() {
    let state = kringle(&["table", "--example", "lecture", "--json"]).json();
    assert_eq!(state["schema"], "kringle.table/1");
    assert_eq!(state["node"], "10233102");
    assert_eq!(state["leaf_set"]["smaller"][0], "10233033");
    let cells = cells(&state);
    assert_eq!(cells.len(), 18);
    // The examples of the vector list.
    assert_eq!(cells[&(4, 1)], "10231000");
    assert_eq!(cells[&(2, 3)], "10323302");
    assert_eq!(cells[&(0, 3)], "31203203");
    assert_eq!(cells[&(3, 2)], "10222302");
}

#[test]
fn any_ring_matches_brute_force() {
    for (b, digits, seed) in [
        (1, 20, 1),
        (2, 8, 2),
        (3, 7, 3),
        (3, 43, 4),
        (4, 8, 5),
        (4, 32, 6),
        (5, 6, 7),
        (7, 5, 8),
        (7, 19, 9),
        (8, 16, 10),
    ] {
        compare(&Ring::random(b, digits, 200, seed), &[]);
    }
}

#[test]
fn sizes_can_be_chosen_and_small_rings_fit_whole() {
    let ring = Ring::random(3, 6, 200, 11);
    compare(&ring, &["--leaf-set", "2", "--neighbourhood", "0"]);
    compare(&ring, &["--leaf-set", "32", "--neighbourhood", "5"]);
    compare(&ring, &["--leaf-set", "512", "--neighbourhood", "512"]);
    for nodes in 1..12 {
        compare(&Ring::random(2, 5, nodes, 12), &["--leaf-set", "6"]);
    }
    // Every point of the ring is a node.
    compare(&Ring::random(2, 3, 64, 13), &[]);
}

/// Runs the binary over a ring and compares both of its outputs with brute force.
fn compare(ring: &Ring, options: &[&str]) {
    let (b, digits) = (ring.b.to_string(), ring.ids[0].len().to_string());
    let mut args = vec!["table", "--example", &b, &digits, "-"];
    args.extend(options);
    let option = |name: &str| {
        let at = options.iter().position(|option| *option == name)?;
        options[at + 1].parse::<usize>().ok()
    };
    let usual = 1 << ring.b;
    let (smaller, larger) = ring.leaves(option("--leaf-set").unwrap_or(usual) / 2);
    let neighbours = ring.neighbours(option("--neighbourhood").unwrap_or(usual));
    let wanted = ring.cells();

    let text = kringle_with_input(&args, &ring.file()).succeeded();
    let printed = Printed::read(&text, ring.b);
    assert_eq!((&printed.smaller, &printed.larger), (&smaller, &larger), "{text}");
    assert_eq!(printed.cells, wanted.values().cloned().collect::<Vec<_>>(), "{text}");
    assert_eq!(printed.neighbours, neighbours, "{text}");

    args.push("--json");
    let state = kringle_with_input(&args, &ring.file()).json();
    assert_eq!(state["node"], ring.text(&ring.ids[0]).as_str());
    assert_eq!(strings(&state["leaf_set"]["smaller"]), smaller);
    assert_eq!(strings(&state["leaf_set"]["larger"]), larger);
    assert_eq!(strings(&state["neighbourhood"]["members"]), neighbours);
    assert_eq!(cells(&state), wanted);
}

/// The ids found in printed text, in reading order.
struct Printed {
    smaller: Vec<String>,
    larger: Vec<String>,
    cells: Vec<String>,
    neighbours: Vec<String>,
}

impl Printed {
    fn read(text: &str, b: u32) -> Printed {
        let sections: Vec<&str> = text.split("\n\n").collect();
        let [_, leaves, table, neighbours] = sections[..] else { panic!("four sections: {text}") };
        let ids = |words: &str| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let remark = |line: &&str| line.contains("nobody") || line.contains("whole ring");
        let lines = leaves.lines().skip(1).filter(|line| !remark(line));
        // Both sides have the same number of leaves, so each line has some of both.
        let halves = lines.map(|line| line.trim().split_once("   ").expect("two sides"));
        let (smaller, larger): (Vec<&str>, Vec<&str>) = halves.unzip();
        let neighbours: Vec<&str> = neighbours.lines().skip(1).filter(|line| !remark(line)).collect();
        let cells = table.lines().skip(2).flat_map(str::split_whitespace).filter(|word| word.contains('-'));
        let joined = |cell: &str| {
            if b <= 5 { cell.replace('-', "") } else { cell.replace('-', ".").trim_matches('.').to_owned() }
        };
        Printed {
            smaller: ids(&smaller.join(" ")),
            larger: ids(&larger.join(" ")),
            cells: cells.map(joined).collect(),
            neighbours: ids(&neighbours.join(" ")),
        }
    }
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter().map(|item| item.as_str().expect("of texts").to_owned()).collect()
}

fn cells(state: &Value) -> BTreeMap<(usize, u8), String> {
    let mut cells = BTreeMap::new();
    for row in state["routing_table"].as_array().expect("rows") {
        for cell in row["cells"].as_array().expect("cells") {
            let number = |value: &Value| value.as_u64().expect("a number");
            let at = (number(&row["row"]) as usize, number(&cell["column"]) as u8);
            cells.insert(at, cell["node"].as_str().expect("an id").to_owned());
        }
    }
    cells
}
