//! `kringle route --example`.

use crate::brute_force::Ring;
use crate::{kringle, kringle_with_input};

#[test]
fn the_lectures_two_decisions_are_explained() {
    let golden = include_str!("../golden/route.txt");
    assert_eq!(kringle(&["route", "--example"]).succeeded(), golden);
}

#[test]
fn one_of_them_can_be_asked_for() {
    let both = kringle(&["route", "--example"]).succeeded();
    for key in ["65b23c05", "65523c05", "65B23C05"] {
        let one = kringle(&["route", "--example", key]).succeeded();
        assert!(both.contains(&one), "{one}");
        assert!(one.starts_with(&format!("Key {} ", key.to_lowercase())), "{one}");
    }
}

#[test]
fn another_key_is_explained_over_the_first_table() {
    // Column 5 of row 2 is empty only in the second table.
    let told = kringle(&["route", "--example", "65500000"]).succeeded();
    assert!(told.contains("Forward to 655e0c94   (routing table row 2, column 5)"), "{told}");
    let told = kringle(&["route", "--example", "65a1fc06"]).succeeded();
    assert!(told.contains("Forward to 65a1fc07   (leaf set, numerically closest)"), "{told}");
}

#[test]
fn programs_read_the_same() {
    let both = kringle(&["route", "--example", "--json"]).json();
    assert_eq!(both["schema"], "kringle.route/1");
    let routes = both["routes"].as_array().expect("a list");
    assert_eq!(routes.len(), 2);
    let (cell, rare) = (&routes[0], &routes[1]);
    assert_eq!((&cell["cell"]["row"], &cell["cell"]["digit"]), (&2.into(), &"b".into()));
    assert_eq!(cell["decision"]["rule"], "cell");
    assert_eq!(cell["decision"]["to"], cell["cell"]["node"]);
    assert!(cell["rare_case"].is_null());
    assert_eq!(rare["decision"]["rule"], "rare-case");
    assert_eq!(rare["decision"]["to"], "6547d1e0");
    assert_eq!(rare["rare_case"]["candidates"][0]["distance"], "a6a25");
    assert_eq!(rare["cell"]["occupied_columns"], serde_json::json!([1, 2, 3, 4, 7, 8, 9, 11, 12, 13, 15]));
}

#[test]
fn a_table_of_ones_own_is_explained_too() {
    for (b, digits, seed) in [(2, 8, 21), (3, 7, 22), (7, 5, 23)] {
        let ring = Ring::random(b, digits, 200, seed);
        let (base, digits) = (b.to_string(), digits.to_string());
        for key in &ring.ids {
            // A node's id as the key: it ends at that node, which is the message's way out of every table.
            let key = ring.text(key);
            let args =
                ["route", "--example", &key, "--table", "-", "--base", &base, "--digits", &digits, "--json"];
            let told = kringle_with_input(&args, &ring.file()).json();
            let told = &told["routes"][0];
            let own = ring.text(&ring.ids[0]);
            assert_eq!(told["node"], own.as_str());
            let action = if key == own { "deliver" } else { "forward" };
            assert_eq!(told["decision"]["action"], action, "{told:#}");
            // The ids are those of real nodes, so the cell of each of them is occupied or the leaf set has it.
            assert_ne!(told["decision"]["rule"], "rare-case", "{told:#}");
        }
    }
}

#[test]
fn a_larger_leaf_set_covers_more() {
    let ring = "1000\n1100\n1200\n1300\n2000\n3000\n0000\n";
    let ask = |leaves: &str| {
        let args = [
            "route",
            "--example",
            "2010",
            "--table",
            "-",
            "--base",
            "2",
            "--digits",
            "4",
            "--leaf-set",
            leaves,
        ];
        kringle_with_input(&args, ring).succeeded()
    };
    assert!(ask("2").contains("(routing table row 0, column 2)"));
    assert!(ask("6").contains("It is the whole ring"));
}
