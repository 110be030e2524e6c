//! Looks at one world of the store's rules: name, how (b, d or w), states, left-out rule (or none).
use kringle_check::explore::{Bounds, Search};
use kringle_check::store_rules::{Left, plan::Plan, search::search};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let names: Vec<&str> = if args[1] == "all" { kringle_check::store_rules::plan::PLANS.iter().map(|p| p.name).collect() } else { args[1].split(',').collect() };
    let states = args[3].parse().expect("number");
    let secs: u64 = args.get(5).map_or(100, |s| s.parse().expect("number"));
    for name in names {
        let plan = Plan::named(name).expect("plan");
        let lefts: Vec<&'static [Left]> = match args.get(4).map(|s| s.as_str()) {
            None | Some("none") => vec![&[]],
            Some("written") => vec![Left::AS_WRITTEN],
            Some("all") => Left::ALL.chunks(1).collect(),
            Some(n) => Left::ALL.chunks(1).filter(|l| format!("{:?}", l[0]) == n).collect(),
        };
        for left in lefts {
            let plan = plan.without(left);
            let how = match args[2].as_str() { "b" => Search::Breadth, "d" => Search::Depth, n => Search::Walks(n[1..].parse().unwrap_or(1)) };
            let found = search(plan, how, Bounds { states, time: std::time::Duration::from_secs(secs), threads: if args[2] == "b" { 1 } else { 2 } });
            println!("{name} {left:?}: states {} unique {} depth {} in {:?} complete {} missing {:?}", found.states, found.unique, found.depth, found.time, found.complete, found.missing);
            if let Some((p, acts)) = found.broken {
                println!("  BROKEN {p} in {} steps", acts.len());
                for a in acts { println!("    {a}"); }
            }
        }
    }
}
