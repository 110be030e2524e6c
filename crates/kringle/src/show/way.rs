//! `lookup`, `trace` and `route`: where a key lies, and the way there.

use kringle_core::id::{Base, Id};
use kringle_runtime::report::{Found, Summary};

use super::{Width, count, took};

/// What was found out about a key.
pub(crate) struct Way<'a> {
    /// The key as it was asked for; none if it was asked for by id.
    pub(crate) text: Option<&'a str>,
    /// The answer.
    pub(crate) found: &'a Found,
    /// Who should hold the key, nearest first.
    pub(crate) replicas: &'a [String],
    /// The node that was asked, if it told about itself.
    pub(crate) origin: Option<&'a Summary>,
    /// How many nodes the ring has, if that is known.
    pub(crate) nodes: Option<usize>,
    /// Write ids in full.
    pub(crate) long: bool,
    /// Node after node was asked, instead of passing the question on.
    pub(crate) iterative: bool,
}

impl Way<'_> {
    fn width(&self) -> Width {
        let path = self.found.path.iter().map(|hop| hop.node.as_str());
        let all = path.chain([self.found.root.as_str()]).chain(self.replicas.iter().map(String::as_str));
        Width::of(all, self.long)
    }

    fn key(&self) -> String {
        let name = self.text.map_or(String::new(), |text| format!("{text:?}  "));
        format!("{name}id {}", self.found.key)
    }

    fn replicas(&self, width: Width) -> String {
        let ids: Vec<&str> = self.replicas.iter().map(|id| width.cut(id)).collect();
        if ids.is_empty() { String::new() } else { format!("replicas  {}\n", ids.join("  ")) }
    }
}

/// Writes who answers for a key.
pub(crate) fn lookup(way: &Way<'_>) -> String {
    let (found, width) = (way.found, way.width());
    let places: Vec<String> = found.endpoints.iter().map(ToString::to_string).collect();
    let places = if places.is_empty() { String::new() } else { format!("   {}", places.join(" ")) };
    format!(
        "key       {}\nroot      {}{places}   {}, {}{}\n{}",
        way.key(),
        width.cut(&found.root),
        count(found.hops.into(), "hop"),
        took(found.micros),
        finality(way),
        way.replicas(width)
    )
}

/// Writes the way to a key, hop by hop. Each line has the rule that led to it.
pub(crate) fn trace(way: &Way<'_>) -> String {
    let (found, width) = (way.found, way.width());
    let origin = found.path.first().map_or("?", |hop| hop.node.as_str());
    let name = way.origin.and_then(|origin| origin.name.as_deref());
    let name = name.map_or(String::new(), |name| format!(" ({name})"));
    let mut out = format!("key  {}   from {}{name}\n\n", way.key(), width.cut(origin));
    let base = way.origin.and_then(|origin| Base::new(origin.base)).unwrap_or(Base::HEX);
    let key: Id = found.key.parse().unwrap_or(Id::ZERO);
    let mut rows = vec![["node", "shares", "rule", "distance left", "RTT", ""].map(String::from)];
    for (at, hop) in found.path.iter().enumerate() {
        let came = at.checked_sub(1).and_then(|before| found.path.get(before));
        let shares = key.text(base, hop.shared);
        rows.push([
            width.cut(&hop.node).to_owned(),
            if shares.is_empty() { "-".into() } else { shares },
            came.map_or("start".into(), |came| came.rule.clone()),
            hop.distance_log2_tenths
                .map_or("0".into(), |tenths| format!("2^{}.{}", tenths / 10, tenths % 10)),
            came.and_then(|came| came.rtt_us).map_or("-".into(), |micros| took(micros.into())),
            if at + 1 == found.path.len() { "root".into() } else { String::new() },
        ]);
    }
    let least = [6, 6, 32, 13, 7, 0];
    let widths: Vec<usize> = (0..least.len())
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(least[at]))
        .collect();
    for (at, row) in rows.iter().enumerate() {
        let hop = if at == 0 { " hop".to_owned() } else { format!("{:3} ", at - 1) };
        let gaps = [3, 2, 2, 3, 3, 0];
        let cells: String = row
            .iter()
            .zip(&widths)
            .zip(gaps)
            .map(|((cell, width), gap)| format!("{cell:width$}{:gap$}", ""))
            .collect();
        out.push_str(format!("{hop}  {cells}").trim_end());
        out.push('\n');
    }
    let is_chord = way.origin.is_some_and(|origin| origin.overlay == "chord");
    let worst = if is_chord { String::new() } else { format!("    worst case {} rows", base.digits()) };
    out.push_str(&format!(
        "\n{} in {}, {}{}{worst}{}\n{}",
        if way.iterative { "found" } else { "delivered" },
        count(found.hops.into(), "hop"),
        took(found.micros),
        expected(way),
        finality(way),
        way.replicas(width)
    ));
    out
}

/// Says what the paper expects, if it is known how many nodes there are. A leaf set that is not full holds them all.
fn expected(way: &Way<'_>) -> String {
    let base = match way.origin {
        // Fingers halve the distance.
        Some(origin) if origin.successors.is_some() => 1,
        origin => origin.map_or(Base::HEX.bits(), |origin| origin.base),
    };
    let known = way.origin.filter(|origin| match origin.successors {
        Some(_) => origin.mode.as_deref() == Some("forming"),
        None => origin.leaves < usize::from(origin.leaf_set),
    });
    let Some(nodes) = way.nodes.or(known.map(|origin| origin.leaves + 1)) else { return String::new() };
    let columns = 1_u32 << base.min(8);
    let hops = (nodes as f64).ln() / f64::from(columns).ln();
    format!("    log{columns}({nodes}) = {hops:.1}")
}

fn finality(way: &Way<'_>) -> &'static str {
    if way.iterative {
        return "    asked node by node; the root itself was not asked";
    }
    if way.found.is_final { "" } else { "    not final: the root may not deliver right now" }
}

/// Writes what became of a message that was delivered.
pub(crate) fn delivered(root: &str, hops: u64, micros: u64, answered: bool) -> String {
    let answer = if answered { "" } else { "  no answer" };
    let (root, hops) = (Width::of([], false).cut(root), count(usize::try_from(hops).unwrap_or(0), "hop"));
    format!("delivered  to {root}  {hops}  {}{answer}", took(micros))
}

#[cfg(test)]
mod tests {
    use kringle_runtime::report::Hop;

    use super::super::samples::{id, summary};
    use super::*;

    fn hop(node: &str, rule: &str, shared: u8, tenths: u32, rtt_us: Option<u32>) -> Hop {
        Hop { node: id(node), rule: rule.into(), shared, distance_log2_tenths: Some(tenths), rtt_us }
    }

    fn found() -> Found {
        Found {
            key: "aaf4c61ddcc5e8a2dabede0f3b482cd9".into(),
            root: id("aaf0d2"),
            endpoints: Vec::new(),
            hops: 3,
            is_final: true,
            micros: 560,
            path: vec![
                hop("1d77e0", "routing table row 0, column a", 0, 1268, Some(210)),
                hop("a3b90c", "routing table row 1, column a", 1, 1229, Some(180)),
                hop("aa1f55", "leaf set, numerically closest", 2, 1197, Some(170)),
                hop("aaf0d2", "root", 3, 1140, None),
            ],
        }
    }

    #[test]
    fn a_trace_shows_each_hop_and_the_rule_that_led_there() {
        let (found, replicas) = (found(), [id("aaf0d2"), id("aa1f55"), id("b07c44")]);
        let mut origin = summary("1d77e0", Some("demo-2"), 7402);
        (origin.leaves, origin.leaf_set) = (63, 64);
        let way = Way {
            text: Some("hello"),
            found: &found,
            replicas: &replicas,
            origin: Some(&origin),
            nodes: None,
            long: false,
            iterative: false,
        };
        let text = "\
key  \"hello\"  id aaf4c61ddcc5e8a2dabede0f3b482cd9   from 1d77e0 (demo-2)

 hop  node     shares  rule                              distance left   RTT
  0   1d77e0   -       start                             2^126.8         -
  1   a3b90c   a       routing table row 0, column a     2^122.9         0.21 ms
  2   aa1f55   aa      routing table row 1, column a     2^119.7         0.18 ms
  3   aaf0d2   aaf     leaf set, numerically closest     2^114.0         0.17 ms   root

delivered in 3 hops, 0.56 ms    log16(64) = 1.5    worst case 32 rows
replicas  aaf0d2  aa1f55  b07c44
";
        assert_eq!(trace(&way), text);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut found = found();
        found.is_final = false;
        found.path.truncate(1);
        found.hops = 0;
        let way = Way {
            text: None,
            found: &found,
            replicas: &[],
            origin: None,
            nodes: None,
            long: false,
            iterative: false,
        };
        let text = trace(&way);
        assert!(text.starts_with("key  id aaf4c61ddcc5e8a2dabede0f3b482cd9   from 1d77e0\n"), "{text}");
        assert!(text.contains("-         root\n"), "{text}");
        let end = "delivered in 0 hops, 0.56 ms    worst case 32 rows    not final: the root may not deliver right now\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_lookup_is_three_lines() {
        let (found, replicas) = (found(), [id("aaf0d2"), id("aa1f55")]);
        let way = Way {
            text: Some("hello"),
            found: &found,
            replicas: &replicas,
            origin: None,
            nodes: None,
            long: false,
            iterative: false,
        };
        let text = "\
key       \"hello\"  id aaf4c61ddcc5e8a2dabede0f3b482cd9
root      aaf0d2   3 hops, 0.56 ms
replicas  aaf0d2  aa1f55
";
        assert_eq!(lookup(&way), text);
    }
}
