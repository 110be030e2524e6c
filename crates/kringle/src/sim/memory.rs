//! How much memory a run will want, how much there is, and how much it took.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kringle_core::config::Settings;
use kringle_core::id::Base;
use kringle_sim::lab::params::{self, Param, count};

use crate::failure::Failure;

/// A node's place in the world, with everything in it but its tables.
const SLOT: f64 = 1100.0;

/// One member of a leaf set.
const LEAF: f64 = 24.0;

/// One node in a routing-table cell or in the neighbourhood set.
const ENTRY: f64 = 28.0;

/// Messages and timers under way, for each node.
const UNDER_WAY: f64 = 1200.0;

/// What the allocator loses.
const ALLOCATOR: f64 = 1.12;

/// Everything that does not grow with the ring.
const FIXED: f64 = 64.0 * 1024.0 * 1024.0;

/// Bits of an id.
const BITS: u32 = 128;

/// Returns about how many bytes a run will take. `parameters` are all of the scenario's; those it does not have are as
/// in the lab's settings.
pub(crate) fn estimate(parameters: &BTreeMap<String, String>) -> u64 {
    let value = |param: &Param, otherwise: u64| {
        parameters.get(param.name).and_then(|text| count(text)).unwrap_or(otherwise) as f64
    };
    let lab = Settings::lab();
    let nodes = value(params::NODES, 0);
    let bits = value(params::BASE, u64::from(Base::HEX.bits())) as u32;
    let entries = occupied_cells(nodes, bits.clamp(1, 8)) * (1.0 + value(params::SPARES, lab.spares.into()));
    let leaves = value(params::LEAF_SET, lab.leaf_set.into());
    let neighbours = value(params::NEIGHBOURHOOD, lab.neighbourhood.into());
    let node = SLOT + LEAF * leaves + ENTRY * (entries + neighbours) + UNDER_WAY;
    (nodes * node * ALLOCATOR + FIXED) as u64
}

/// Returns how many cells of a routing table some node fits, in a ring of random ids.
fn occupied_cells(nodes: f64, bits: u32) -> f64 {
    let columns = f64::from((1_u32 << bits) - 1);
    let rows = 0..BITS / bits;
    // A cell of row r takes ids that begin with r + 1 given digits.
    rows.map(|row| columns * -(-nodes / 2_f64.powi((bits * (row + 1)) as i32)).exp_m1()).sum()
}

/// Refuses a run that does not fit. `free` is nothing where the system does not tell.
pub(crate) fn check(needed: u64, free: Option<u64>, fewer: &str) -> Result<(), Failure> {
    match free {
        Some(free) if needed > free => Err(Failure::usage(
            format!("this needs about {} and {} are free", bytes(needed), bytes(free)),
            format!("Use {fewer}, or --force."),
        )),
        _ => Ok(()),
    }
}

/// Returns how much memory can be had: of the machine, or what is left of the control group's limit.
pub(crate) fn available() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemAvailable:"));
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| {
        let own = text.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/').to_owned();
        group_limit(Path::new("/sys/fs/cgroup"), &own)
    });
    machine.into_iter().chain(group).min()
}

/// Returns what the strictest limit among a control group and those around it leaves.
fn group_limit(root: &Path, own: &str) -> Option<u64> {
    let read = |group: &PathBuf, file: &str| fs::read_to_string(group.join(file)).ok();
    let groups = Path::new(own).ancestors().map(|path| root.join(path));
    let left = groups.filter_map(|group| {
        let most: u64 = read(&group, "memory.max")?.trim().parse().ok()?;
        let held: u64 = read(&group, "memory.current")?.trim().parse().ok()?;
        // Files that were read once are dropped when somebody needs the room.
        let files = read(&group, "memory.stat").and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok())
        });
        Some(most.saturating_sub(held.saturating_sub(files.unwrap_or(0))))
    });
    left.min()
}

/// Returns a field of a `/proc` file that is written in kB.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns what the process holds now, or 0 if the system does not tell.
pub(crate) fn held() -> u64 {
    own("VmRSS:")
}

/// Returns the most the process has held, or 0 if the system does not tell.
pub(crate) fn peak() -> u64 {
    own("VmHWM:")
}

/// Lets [`peak`] start again from here, where the system can do that.
pub(crate) fn forget_peak() {
    // Where it cannot, the peak is that of the whole process: still an upper bound.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn own(name: &str) -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|text| field(&text, name)).unwrap_or(0)
}

/// Writes a number of bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| count >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", count as f64 / (1_u64 << shift) as f64),
        None => format!("{count} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_million_nodes_take_some_gigabytes_and_growth_is_a_bit_more_than_linear() {
        let lab = |nodes: &str| estimate(&with(&[("nodes", nodes), ("leaf-set", "16"), ("spares", "0")]));
        let million = lab("1e6");
        assert!((3 << 30..8 << 30).contains(&million), "{}", bytes(million));
        assert!(lab("2e6") as f64 > 1.95 * million as f64);
        assert_eq!(lab("0"), 64 << 20);
        assert!(estimate(&with(&[("nodes", "1e6"), ("leaf-set", "32")])) > million);
        assert!(estimate(&with(&[("nodes", "1e6"), ("spares", "8")])) > 2 * million);
    }

    #[test]
    fn a_table_has_about_as_many_cells_as_the_papers_say() {
        // 2^b - 1 in each of three full rows, most of the fourth, a little of the fifth.
        let cells = occupied_cells(100_000.0, 4);
        assert!((55.0..60.0).contains(&cells), "{cells}");
        assert!(occupied_cells(1e6, 1) > 19.0);
        assert!(occupied_cells(1e6, 8) < 3.0 * 255.0);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        let gib = |count: f64| (count * (1_u64 << 30) as f64) as u64;
        let said = check(gib(17.2), Some(gib(15.0)), "fewer --nodes").unwrap_err().to_string();
        assert!(said.contains("this needs about 17.2 GiB and 15.0 GiB are free"), "{said}");
        assert!(said.contains("fewer --nodes, or --force"), "{said}");
        assert!(check(gib(15.0), Some(gib(15.0)), "").is_ok());
        assert!(check(u64::MAX, None, "").is_ok());
    }

    #[test]
    fn fields_are_read_as_the_kernel_writes_them() {
        let text = "MemTotal:       16384 kB\nMemAvailable:    1024 kB\n";
        assert_eq!(field(text, "MemAvailable:"), Some(1 << 20));
        assert_eq!(field(text, "VmHWM:"), None);
        assert_eq!(field("VmHWM: many kB", "VmHWM:"), None);
        assert_eq!([bytes(5), bytes(1536), bytes(3 << 20)], ["5 B", "1.5 KiB", "3.0 MiB"]);
    }

    #[test]
    fn the_strictest_limit_around_us_counts() {
        let root = std::env::temp_dir().join(format!("kringle-groups-{}", std::process::id()));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let put = |group: &Path, most: &str, held: &str, stat: &str| {
            fs::write(group.join("memory.max"), most).unwrap();
            fs::write(group.join("memory.current"), held).unwrap();
            fs::write(group.join("memory.stat"), stat).unwrap();
        };
        put(&inner, "max\n", "10\n", "");
        assert_eq!(group_limit(&root, "a/b"), None);
        put(&root.join("a"), "1000\n", "600\n", "anon 5\ninactive_file 100\n");
        assert_eq!(group_limit(&root, "a/b"), Some(500));
        put(&inner, "300\n", "400\n", "");
        assert_eq!(group_limit(&root, "a/b"), Some(0));
        fs::remove_dir_all(root).unwrap();
    }
}
