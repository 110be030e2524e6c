//! Delays of every topology, each fault on and off, and what is said about malformed files and flags.

use super::*;

const NODES: u32 = 200;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn steady() -> Network {
    Network::new(Topology::Flat { min: millis(1), max: millis(1) }, 1)
}

fn transit_stub(seed: u64) -> Topology {
    Topology::parse("transit-stub", seed).unwrap()
}

fn three_hosts() -> Matrix {
    Matrix::parse("# delays\n0 10.5,80\n\n11, 0\t75\n80 0 0\n").unwrap()
}

/// Mean of the direct delays between some nodes, in milliseconds.
fn mean(network: &Network) -> f64 {
    let pairs = (0..NODES).flat_map(|a| (0..a).map(move |b| (a, b)));
    let total: f64 = pairs.map(|(a, b)| network.direct(a, b).as_secs_f64() * 1e3).sum();
    total / f64::from(NODES * (NODES - 1) / 2)
}

#[test]
fn cuts_are_one_way_and_mended() {
    let flat = Topology::Flat { min: millis(1), max: millis(2) };
    let mut network = Network::new(flat, 1);
    network.cut(1, 2);
    assert_eq!(network.transmit(1, 2), [None, None]);
    assert!(network.transmit(2, 1)[0].is_some());
    network.mend();
    assert!(network.transmit(1, 2)[0].is_some_and(|delay| delay >= millis(1)));
}

#[test]
fn reachability_need_not_be_transitive() {
    let mut network = steady();
    network.cut_both(1, 3);
    let heard: Vec<_> = [(1, 2), (2, 3), (3, 2), (2, 1), (1, 3), (3, 1)]
        .map(|(from, to)| network.transmit(from, to)[0].is_some())
        .into();
    assert_eq!(heard, [true, true, true, true, false, false]);
    network.mend_both(3, 1);
    assert!(!network.is_cut(1, 3) && !network.is_cut(3, 1));
}

#[test]
fn loss_and_duplication_happen_as_often_as_told() {
    let mut network = steady();
    network.loss_per_million = 100_000;
    network.doubled_per_million = 200_000;
    let fates: Vec<_> = (0..10_000).map(|_| network.transmit(1, 2)).collect();
    let lost = fates.iter().filter(|copies| copies[0].is_none()).count();
    let doubled = fates.iter().filter(|copies| copies[1].is_some()).count();
    assert!((900..1100).contains(&lost), "{lost}");
    assert!((1650..1950).contains(&doubled), "{doubled}");
}

#[test]
fn a_network_without_faults_does_nothing_but_delay() {
    let mut network = steady();
    assert!((0..1_000).all(|to| network.transmit(1, to) == [Some(millis(1)), None]));
}

#[test]
fn some_messages_are_held_up_and_overtaken() {
    let mut network = steady();
    network.reordered_per_million = 300_000;
    network.reorder_by = millis(50);
    let delays: Vec<_> = (0..10_000).filter_map(|_| network.transmit(1, 2)[0]).collect();
    assert_eq!(delays.len(), 10_000, "none is lost");
    let late: Vec<_> = delays.iter().filter(|delay| **delay > millis(1)).collect();
    assert!((2_850..3_150).contains(&late.len()), "{}", late.len());
    assert!(late.iter().all(|delay| **delay <= millis(51)));
    let mean = late.iter().map(|delay| delay.as_secs_f64()).sum::<f64>() / late.len() as f64;
    assert!((0.025..0.027).contains(&mean), "{mean}");
}

#[test]
fn both_copies_of_a_message_are_held_up() {
    let mut network = steady();
    network.reordered_per_million = 1_000_000;
    network.doubled_per_million = 1_000_000;
    network.reorder_by = millis(50);
    for _ in 0..100 {
        let [Some(first), Some(second)] = network.transmit(1, 2) else { panic!("a copy is missing") };
        assert_eq!(second - first, millis(1));
    }
}

/// Runs recorded before a fault existed must stay the same while it is off.
#[test]
fn faults_that_are_off_roll_no_dice() {
    let flat = || Network::new(Topology::Flat { min: millis(1), max: millis(10) }, 7);
    let (mut plain, mut faulty) = (flat(), flat());
    faulty.reorder_by = millis(50);
    faulty.cut_both(1, 2);
    faulty.cut_pairs_per_million = 1_000_000;
    faulty.split(3);
    faulty.slow(4, 9);
    let cut: Vec<_> = (0..100).map(|to| faulty.transmit(100, to)).collect();
    assert!(cut.iter().all(|copies| *copies == [None, None]), "{cut:?}");
    faulty.quiet();
    let fates = |network: &mut Network| -> Vec<_> { (0..100).map(|to| network.transmit(100, to)).collect() };
    assert_eq!(fates(&mut plain), fates(&mut faulty));
}

/// What seed 5 gives. Printed seeds stay worth keeping.
#[test]
fn old_runs_stay_the_same() {
    let mut network = Network::new(Topology::Flat { min: millis(1), max: millis(10) }, 5);
    network.loss_per_million = 100_000;
    network.doubled_per_million = 300_000;
    let mut sum = 0u128;
    for to in 0..1_000 {
        for (copy, delay) in network.transmit(1, to).into_iter().enumerate() {
            sum = sum * 31 % 1_000_000_007 + copy as u128 + delay.map_or(0, |delay| delay.as_nanos());
        }
    }
    network.topology = Topology::Plane { side: millis(50) };
    for to in 0..1_000 {
        sum = sum * 31 % 1_000_000_007 + network.delay(1, to).as_nanos();
    }
    assert_eq!(sum, 129_054_241);
}

#[test]
fn a_share_of_the_pairs_is_cut_both_ways_and_stays_so() {
    let mut network = steady();
    let pairs: Vec<_> = (0..NODES).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
    let cut = |network: &Network| pairs.iter().filter(|(a, b)| network.is_cut(*a, *b)).count();
    assert_eq!(cut(&network), 0);
    network.cut_pairs_per_million = 100_000;
    let some = cut(&network);
    assert!((1_850..2_130).contains(&some), "{some} of {}", pairs.len());
    assert!(pairs.iter().all(|(a, b)| network.is_cut(*a, *b) == network.is_cut(*b, *a)));
    let fewer = network.clone();
    network.cut_pairs_per_million = 500_000;
    assert!(pairs.iter().all(|(a, b)| !fewer.is_cut(*a, *b) || network.is_cut(*a, *b)));
    network.cut_pairs_per_million = 1_000_000;
    assert_eq!(cut(&network), pairs.len());
    assert!((0..NODES).all(|node| !network.is_cut(node, node)));

    let mut other = Network::new(Topology::Plane { side: millis(50) }, 2);
    other.cut_pairs_per_million = 100_000;
    assert!(pairs.iter().any(|(a, b)| other.is_cut(*a, *b) != fewer.is_cut(*a, *b)), "seeds differ");
    network.mend();
    assert_eq!(cut(&network), 0);
}

#[test]
fn groups_hear_nothing_of_each_other_until_mended() {
    let mut network = steady();
    network.split(3);
    let sizes = (0..3).map(|group| (0..NODES).filter(|node| network.group(*node) == group).count());
    let sizes: Vec<_> = sizes.collect();
    assert!(sizes.iter().all(|size| (40..95).contains(size)), "{sizes:?}");
    assert_eq!(sizes.iter().sum::<usize>(), NODES as usize);
    for (a, b) in (0..NODES).flat_map(|a| (0..NODES).map(move |b| (a, b))) {
        let same = network.group(a) == network.group(b);
        assert_eq!(network.transmit(a, b)[0].is_some(), same, "{a} to {b}");
    }
    network.split(1);
    assert!((0..NODES).all(|node| network.group(node) == 0 && !network.is_cut(0, node)));
    network.split(2);
    network.mend();
    assert!((0..NODES).all(|node| network.group(node) == 0 && !network.is_cut(0, node)));
}

#[test]
fn groups_can_be_listed() {
    let mut network = steady();
    network.split_by(vec![0, 1, 1, 7]);
    assert_eq!([0, 1, 2, 3, 4].map(|node| network.group(node)), [0, 1, 1, 7, 0]);
    assert!(network.is_cut(0, 1) && network.is_cut(1, 0) && network.is_cut(3, 1));
    assert!(!network.is_cut(1, 2));
    assert!(!network.is_cut(0, 4), "who is not listed is in group 0");
}

#[test]
fn slow_nodes_are_slow_in_both_directions() {
    let mut network = steady();
    network.slow(5, 4);
    network.slow(2, 10);
    let delays = [(1, 5), (5, 1), (2, 5), (5, 2), (1, 2), (1, 3)].map(|(from, to)| network.delay(from, to));
    assert_eq!(delays, [4, 4, 40, 40, 10, 1].map(millis));
    assert_eq!(network.direct(1, 5), millis(4));
    assert_eq!(network.transmit(1, 5), [Some(millis(4)), None]);
    network.slow(5, 3);
    assert_eq!(network.delay(1, 5), millis(3), "the last factor counts");
    network.slow(5, 1);
    assert_eq!([network.delay(1, 5), network.delay(1, 2)], [millis(1), millis(10)]);
    network.slow(2, u32::MAX);
    network.slow(5, u32::MAX);
    network.doubled_per_million = 1_000_000;
    assert!(network.transmit(2, 5)[1].is_some(), "no factor is too large");
}

#[test]
fn mending_leaves_what_has_no_place_and_quiet_ends_everything() {
    let mut network = steady();
    network.loss_per_million = 1;
    network.doubled_per_million = 2;
    network.reordered_per_million = 3;
    network.reorder_by = millis(9);
    network.slow(1, 2);
    network.sparse = true;
    network.cut(1, 2);
    network.split(2);
    network.cut_pairs_per_million = 4;
    network.mend();
    assert_eq!([network.loss_per_million, network.doubled_per_million], [1, 2]);
    assert_eq!([network.reordered_per_million, network.cut_pairs_per_million], [3, 0]);
    assert_eq!(network.delay(1, 2), millis(2));
    assert!(!network.is_cut(1, 2));
    network.cut(1, 2);
    network.quiet();
    assert_eq!(
        [network.loss_per_million, network.doubled_per_million, network.reordered_per_million],
        [0; 3]
    );
    assert_eq!(network.delay(1, 2), millis(1));
    assert!(!network.is_cut(1, 2));
    assert!(network.sparse, "how nodes connect is not a fault");
}

#[test]
fn every_topology_is_symmetric_and_drawn_from_the_seed() {
    let plane = |_| Topology::Plane { side: millis(100) };
    let sphere = |_| Topology::Sphere { half: millis(100) };
    let places: [fn(u64) -> Topology; 3] = [plane, sphere, transit_stub];
    for place in places {
        let (mut one, mut other) = (Network::new(place(1), 1), Network::new(place(2), 2));
        let pairs: Vec<_> = (0..NODES).map(|a| (a, a + 1)).collect();
        assert!(pairs.iter().all(|(a, b)| one.delay(*a, *b) == one.delay(*b, *a)), "{}", one.topology);
        assert!(pairs.iter().all(|(a, b)| one.delay(*a, *b) == one.direct(*a, *b)), "{}", one.topology);
        assert!(pairs.iter().any(|(a, b)| one.delay(*a, *b) != other.delay(*a, *b)), "{}", one.topology);
        assert_eq!(one.delay(3, 3), Duration::from_micros(1), "{}", one.topology);
    }
    // The routers themselves differ, not only who sits where.
    assert_ne!(transit_stub(1), transit_stub(2));
    assert_eq!(transit_stub(1), transit_stub(1));
}

#[test]
fn mean_delays_are_those_of_the_place() {
    // The mean distance of random points in a unit square is 0.5214; on a sphere it is a quarter of the way round.
    let plane = mean(&Network::new(Topology::Plane { side: millis(100) }, 1));
    assert!((49.0..55.0).contains(&plane), "{plane}");
    let sphere = mean(&Network::new(Topology::Sphere { half: millis(100) }, 1));
    assert!((48.5..51.5).contains(&sphere), "{sphere}");
    let flat = Network::new(Topology::Flat { min: millis(2), max: millis(10) }, 1);
    assert_eq!(flat.direct(1, 2), millis(6));
    // Two LANs, two gateways and about 4 stub links are 46 ms; the rest is 50 ms for each of three or four links.
    for seed in 1..6 {
        let internet = mean(&Network::new(transit_stub(seed), seed));
        assert!((180.0..280.0).contains(&internet), "{internet}");
    }
}

#[test]
fn points_are_spread_over_the_whole_sphere() {
    let network = Network::new(Topology::Sphere { half: millis(100) }, 1);
    let delays: Vec<_> = (1..4_000).map(|node| network.direct(0, node)).collect();
    assert!(delays.iter().all(|delay| *delay <= millis(100)));
    // The cap within a third of the way to the antipode has a quarter of the area, and so has its opposite.
    let near = delays.iter().filter(|delay| **delay * 3 < millis(100)).count();
    let far = delays.iter().filter(|delay| **delay * 3 > millis(200)).count();
    assert!((900..1_100).contains(&near) && (900..1_100).contains(&far), "{near} {far}");
    for (a, b, c) in (0..3_000).map(|node| (node, node + 1, node + 2)) {
        let detour = network.direct(a, b) + network.direct(b, c) + Duration::from_nanos(10);
        assert!(network.direct(a, c) <= detour);
    }
}

#[test]
fn a_matrix_is_read_with_its_directions() {
    let matrix = three_hosts();
    assert_eq!(matrix.hosts(), 3);
    let mut network = Network::new(Topology::Matrix(matrix), 1);
    let delays =
        [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)].map(|(a, b)| network.delay(a, b).as_micros());
    assert_eq!(delays, [10_500, 11_000, 80_000, 80_000, 75_000, 1]);
    assert_eq!(network.direct(0, 1), network.delay(0, 1));
}

#[test]
fn more_nodes_than_hosts_share_them() {
    let matrix = three_hosts();
    let hosts = |seed| -> Vec<_> { (0..300).map(|node| matrix.host(seed, node)).collect() };
    assert_eq!(hosts(1)[..3], [0, 1, 2]);
    assert!((0..3).all(|host| hosts(1).iter().filter(|at| **at == host).count() > 70));
    assert_ne!(hosts(1), hosts(2));
    let network = Network::new(Topology::Matrix(matrix.clone()), 1);
    for node in 3..300 {
        let expected = [1_000, 11_000, 80_000][matrix.host(1, node) as usize];
        assert_eq!(network.direct(node, 0).as_micros(), expected);
    }
}

#[test]
fn a_malformed_matrix_is_refused_with_its_line() {
    let refused = |text: &str| {
        let FileError { path, line, problem } = Matrix::parse(text).unwrap_err();
        assert_eq!(path, None);
        (line, problem)
    };
    let check = |text: &str, line: usize, problem: &str| {
        assert_eq!(refused(text), (Some(line), problem.to_owned()), "{text:?}");
    };
    let number = "expected a delay in milliseconds";
    check("# x\n0 1\n\n1 0 2\n", 4, "has 3 numbers; expected 2, as in the first row");
    check("0 1 2\n1 0\n2 1 0", 2, "has 2 numbers; expected 3, as in the first row");
    check("0 1\n1 fast\n", 2, &format!("\"fast\" is not a number; {number}"));
    check("0,1\n1,,0\n", 2, &format!("\"\" is not a number; {number}"));
    check("0 -1\n1 0\n", 1, &format!("-1 is negative; {number}"));
    check("0 1\nNaN 0\n", 2, &format!("NaN is not finite; {number}"));
    check("0 inf\n1 0\n", 1, &format!("inf is not finite; {number}"));
    check("0 1e9\n1 0\n", 1, &format!("1e9 is more than an hour; {number}"));
    check("\n7\n", 2, "has 1 number; expected a row of at least 2, one per host");
    check("0 1\n1 0\n#\n1 0\n", 4, "is one row too many; expected 2 rows, as the first row has 2 numbers");
    check("0 1 2\n1 0 2\n#\n", 2, "is the last of 2 rows; expected 3, as the first row has 3 numbers");
    check(&"1 ".repeat(20_001), 1, "has more than 20000 numbers, the most taken");
    let empty = "has no rows; expected as many rows of delays as there are hosts".to_owned();
    assert_eq!(refused(""), (None, empty.clone()));
    assert_eq!(refused("# only a comment\n\n"), (None, empty));
}

/// A file that is removed when the test ends.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Scratch {
        let path = std::env::temp_dir().join(format!("kringle-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_matrix_file_is_read_or_refused_with_its_name() {
    let good = Scratch::new("good.txt", b"0 5\r\n6 0\r\n");
    let matrix = Matrix::read(&good.0).unwrap();
    assert_eq!((matrix.hosts(), matrix.path()), (2, Some(good.0.as_path())));
    let spec = format!("matrix:{}", good.0.display());
    let topology = Topology::parse(&spec, 1).unwrap();
    assert_eq!(topology, Topology::Matrix(matrix));
    assert_eq!(topology.to_string(), spec);

    let ragged = Scratch::new("ragged.txt", b"0 5\n6\n");
    let error = Matrix::read(&ragged.0).unwrap_err();
    let expected = format!("{}:2: has 1 numbers; expected 2, as in the first row", ragged.0.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(Topology::parse(&format!("matrix:{}", ragged.0.display()), 1), Err(expected));

    let binary = Scratch::new("binary.txt", b"0 5\n\xff\xfe 0\n");
    let error = Matrix::read(&binary.0).unwrap_err();
    assert_eq!((error.line, error.problem.as_str()), (Some(2), "is not UTF-8; expected a text file"));

    let endless = Scratch::new("endless.txt", &vec![b'1'; (1 << 20) + 1]);
    let error = Matrix::read(&endless.0).unwrap_err();
    assert_eq!(error.line, Some(1));
    assert_eq!(error.problem, "is longer than 1048576 bytes; expected a text file");

    let empty = Scratch::new("empty.txt", b"");
    let error = Matrix::read(&empty.0).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("empty.txt: has no rows; expected as many rows of delays as there are hosts")
    );

    let error = Matrix::read("/nowhere/at all").unwrap_err();
    assert_eq!(error.line, None);
    assert!(error.to_string().starts_with("/nowhere/at all: can not be opened: "), "{error}");
}

#[test]
fn topologies_are_read_and_written_as_on_the_command_line() {
    let check = |spec: &str, canonical: &str, expected: Topology| {
        let topology = Topology::parse(spec, 1).unwrap();
        assert_eq!(topology, expected, "{spec}");
        assert_eq!(topology.to_string(), canonical);
        assert_eq!(Topology::parse(canonical, 1).unwrap(), expected, "{canonical}");
    };
    check("flat", "flat:1ms-10ms", Topology::Flat { min: millis(1), max: millis(10) });
    check("flat:0ms-1s", "flat:0ms-1000ms", Topology::Flat { min: millis(0), max: millis(1_000) });
    check("plane", "plane:50ms", Topology::Plane { side: millis(50) });
    check("plane:1.5ms", "plane:1500us", Topology::Plane { side: Duration::from_micros(1_500) });
    check("sphere", "sphere:100ms", Topology::Sphere { half: millis(100) });
    check("sphere:60s", "sphere:60000ms", Topology::Sphere { half: millis(60_000) });
    let internet = TransitStub::new(TransitStubConfig::default(), 1).unwrap();
    check("transit-stub", "transit-stub", Topology::TransitStub(internet));

    let small = TransitStubConfig { stub_domains: 1, ..TransitStubConfig::default() };
    let small = Topology::TransitStub(TransitStub::new(small, 1).unwrap());
    assert_eq!(small.to_string(), "transit-stub with 550 routers");
    assert_eq!(Topology::Matrix(three_hosts()).to_string(), "matrix with 3 hosts");
}

#[test]
fn a_wrong_topology_is_told_what_was_expected() {
    let alternatives = "expected flat[:MIN-MAX], plane[:SIDE], sphere[:HALF], transit-stub or matrix:FILE, \
    for example plane:50ms";
    let example = "expected a delay such as 500us, 1.5ms or 1s";
    let check = |spec: &str, problem: &str| {
        assert_eq!(Topology::parse(spec, 1), Err(problem.to_owned()), "{spec}");
    };
    check("torus", &format!("\"torus\" is not a topology; {alternatives}"));
    check("", &format!("\"\" is not a topology; {alternatives}"));
    check("matrix", &format!("matrix needs a file; {alternatives}"));
    check("matrix:", &format!("matrix needs a file; {alternatives}"));
    check("transit-stub:9", &format!("transit-stub takes nothing after it; {alternatives}"));
    check("flat:1ms", "flat:1ms has one bound; expected two, as in flat:1ms-10ms");
    check("flat:9ms-1ms", "flat:9ms-1ms ends before it starts; expected the shorter delay first");
    check("plane:0ms", "0ms is no distance; expected at least 1us");
    check("plane:50", &format!("\"50\" has no unit; {example}"));
    check("plane:5h", &format!("\"5h\" has an unknown unit; {example}"));
    check("plane:fastms", &format!("\"fastms\" has an unknown unit; {example}"));
    check("sphere:1.2.3s", &format!("\"1.2.3s\" is not a number; {example}"));
    check("sphere:-1s", &format!("\"-1s\" is not between 0 and 60s; {example}"));
    check("sphere:61s", &format!("\"61s\" is not between 0 and 60s; {example}"));
}
