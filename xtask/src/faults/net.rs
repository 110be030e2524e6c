//! Hosts in network namespaces, joined by a bridge, and the packets that are dropped between them.
//!
//! Packets are dropped where they arrive, by nftables in the receiver's namespace: the sender's kernel hears nothing and
//! retransmits, as on a real network that loses packets. A link that is down or a route that is missing would be an
//! error at the sender instead.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::tools::has_program;

/// Begins the names of all that is made here; the process id follows.
const PREFIX: &str = "krf";
/// The first host's address ends with this.
const FIRST: usize = 10;
/// Hosts that fit behind a bridge.
const HOSTS_MAX: usize = 200;

/// A bridge and the hosts behind it. All of it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Net {
    name: String,
    subnet: String,
    hosts: usize,
    /// Which hosts each host hears nothing from.
    deaf: Vec<Vec<usize>>,
}

impl Net {
    /// Makes a bridge; this process is reachable there as `.1`.
    pub(super) fn new() -> Result<Net, String> {
        let pid = std::process::id();
        let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
        let number = free_subnet(&routes, pid).ok_or("all subnets 10.213.x.0/24 are in use")?;
        let net = Net {
            name: format!("{PREFIX}{pid}"),
            subnet: format!("10.213.{number}"),
            hosts: 0,
            deaf: Vec::new(),
        };
        let bridge = net.bridge();
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add {}/24 dev {bridge}", net.gateway()))?;
        ip(&format!("link set {bridge} up"))?;
        Ok(net)
    }

    /// Adds a host and returns its number.
    pub(super) fn add_host(&mut self) -> Result<usize, String> {
        let host = self.hosts;
        if host == HOSTS_MAX {
            return Err(format!("a bridge has room for {HOSTS_MAX} hosts"));
        }
        let (space, wire, bridge) = (self.space(host), self.wire(host), self.bridge());
        ip(&format!("netns add {space}"))?;
        self.hosts += 1;
        self.deaf.push(Vec::new());
        ip(&format!("link add {wire} type veth peer name eth0 netns {space}"))?;
        ip(&format!("link set {wire} master {bridge} up"))?;
        ip(&format!("-n {space} link set lo up"))?;
        ip(&format!("-n {space} addr add {}/24 dev eth0", self.address(host)))?;
        ip(&format!("-n {space} link set eth0 up"))?;
        self.filter(
            host,
            "table ip faults {\n set deaf { type ipv4_addr; }\n chain input {\n \
             type filter hook input priority 0;\n ip saddr @deaf drop\n }\n }\n",
        )?;
        Ok(host)
    }

    /// Returns the address of a host.
    pub(super) fn address(&self, host: usize) -> String {
        format!("{}.{}", self.subnet, FIRST + host)
    }

    /// Returns the address of this process, as hosts see it.
    pub(super) fn gateway(&self) -> String {
        format!("{}.1", self.subnet)
    }

    /// Returns the command that runs a program on a host.
    pub(super) fn command(&self, host: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(host)]);
        command
    }

    /// Drops what host `to` receives from host `from`, or stops doing so.
    pub(super) fn set_cut(&mut self, from: usize, to: usize, cut: bool) -> Result<(), String> {
        let mut deaf = self.deaf[to].clone();
        deaf.retain(|host| *host != from);
        if cut {
            deaf.push(from);
        }
        self.set_deaf(to, deaf)
    }

    /// Drops packets both ways between hosts of different parts. A host in no part hears everyone.
    pub(super) fn partition(&mut self, parts: &[Vec<usize>]) -> Result<(), String> {
        for (at, part) in parts.iter().enumerate() {
            let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
            let others: Vec<usize> = others.flat_map(|(_, part)| part).copied().collect();
            part.iter().try_for_each(|host| self.set_deaf(*host, others.clone()))?;
        }
        Ok(())
    }

    /// Lets all packets through again.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        (0..self.hosts).try_for_each(|host| self.set_deaf(host, Vec::new()))
    }

    /// Drops this share of the packets a host receives, at random.
    pub(super) fn set_loss(&self, host: usize, percent: u32) -> Result<(), String> {
        let rule = match percent {
            0 => String::new(),
            _ => format!("add rule ip faults input numgen random mod 100 < {percent} drop\n"),
        };
        self.filter(
            host,
            &format!("flush chain ip faults input\nadd rule ip faults input ip saddr @deaf drop\n{rule}"),
        )
    }

    /// Returns the bytes a host has received and sent.
    pub(super) fn traffic(&self, host: usize) -> Result<(u64, u64), String> {
        let read = |name: &str| {
            let path = format!("/sys/class/net/{}/statistics/{name}", self.wire(host));
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            text.trim().parse::<u64>().map_err(|error| format!("{path}: {error}"))
        };
        // What this end of the cable sends, the host receives.
        Ok((read("tx_bytes")?, read("rx_bytes")?))
    }

    fn set_deaf(&mut self, host: usize, deaf: Vec<usize>) -> Result<(), String> {
        if deaf == self.deaf[host] {
            return Ok(());
        }
        let mut rules = "flush set ip faults deaf\n".to_owned();
        if !deaf.is_empty() {
            let addresses: Vec<String> = deaf.iter().map(|host| self.address(*host)).collect();
            rules.push_str(&format!("add element ip faults deaf {{ {} }}\n", addresses.join(", ")));
        }
        self.filter(host, &rules)?;
        self.deaf[host] = deaf;
        Ok(())
    }

    /// Gives rules to a host's packet filter, all or none.
    fn filter(&self, host: usize, rules: &str) -> Result<(), String> {
        let mut command = self.command(host);
        command.args(["nft", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("ip: {error}"))?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(rules.as_bytes()).map_err(|error| format!("nft: {error}"))?;
        }
        let output = child.wait_with_output().map_err(|error| format!("nft: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("nft: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    fn bridge(&self) -> String {
        format!("{}b", self.name)
    }

    fn space(&self, host: usize) -> String {
        format!("{}n{host}", self.name)
    }

    fn wire(&self, host: usize) -> String {
        format!("{}v{host}", self.name)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for host in 0..self.hosts {
            remove_space(&self.space(host));
            // The kernel removes a namespace later, and the cable with it; the next row wants the name.
            let _ = ip(&format!("link del {}", self.wire(host)));
        }
        let _ = ip(&format!("link del {}", self.bridge()));
    }
}

/// Removes what runs that were killed have left: only names of ours, and only of processes that are gone.
pub(super) fn remove_leftovers() {
    remove(|owner| {
        let command = std::fs::read_to_string(format!("/proc/{owner}/comm")).unwrap_or_default();
        owner == std::process::id() || command.trim() != "xtask"
    });
}

/// Returns which subnet 10.213.x.0/24 has no route yet. Two runs at a time in one subnet would read each other's nodes.
fn free_subnet(routes: &str, first: u32) -> Option<u32> {
    // Addresses are written with the last byte first.
    let is_used = |number: &u32| routes.contains(&format!("\t00{number:02X}D50A\t"));
    (first..first + 256).map(|number| number % 256).find(|number| !is_used(number))
}

/// Removes what a run has made.
pub(super) fn remove_all_of(run: u32) {
    remove(|owner| owner == run);
}

fn remove(wanted: impl Fn(u32) -> bool) {
    let names = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| owner(name).is_some_and(&wanted)).collect::<Vec<_>>()
    };
    names("/run/netns").iter().for_each(|name| remove_space(name));
    for link in names("/sys/class/net") {
        let _ = ip(&format!("link del {link}"));
    }
}

/// Returns the process that made something of this name, if it is a name of ours.
fn owner(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(PREFIX)?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[end..].starts_with(['n', 'v', 'b']).then(|| rest[..end].parse().ok())?
}

/// Ends what still runs in a namespace and removes it.
fn remove_space(space: &str) {
    let pids = Command::new("ip").args(["netns", "pids", space]).output();
    let pids = pids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for pid in pids.split_whitespace() {
        let _ = run(&format!("kill -9 {pid}"));
    }
    let _ = ip(&format!("netns del {space}"));
}

/// Says whether everything needed is there: the privilege, the tools, the kernel's parts.
pub(super) fn try_out() -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        return Err("network namespaces need Linux".into());
    }
    for (tool, package) in [("ip", "iproute2"), ("nft", "nftables"), ("prlimit", "util-linux")] {
        if !has_program(tool) {
            return Err(format!("{tool} is missing; on Debian: apt-get install {package}"));
        }
    }
    let mut net = Net::new().map_err(|why| format!("no network of our own (are you root?): {why}"))?;
    net.add_host().map_err(|why| format!("no host of our own: {why}"))?;
    Ok(())
}

fn ip(line: &str) -> Result<(), String> {
    run(&format!("ip {line}"))
}

/// Runs a command without spaces in its arguments, in silence; what it says is the error.
pub(super) fn run(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap_or_default()).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{line}` did not start: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`{line}`: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_in_use_is_not_taken_again() {
        let routes = "krf1b\t0031D50A\t00000000\t0001\nkrf2b\t00FFD50A\t00000000\t0001\n";
        assert_eq!(free_subnet(routes, 19761), Some(0x32), "19761 is 0x31 modulo 256");
        assert_eq!(free_subnet(routes, 255), Some(0));
        assert_eq!(free_subnet(routes, 3), Some(3));
    }

    #[test]
    fn names_of_ours_tell_who_made_them() {
        assert_eq!(owner("krf123n4"), Some(123));
        assert_eq!(owner("krf77b"), Some(77));
        for name in ["krf", "krf12", "krfx1n1", "eth0", "krf12x1", "docker0"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
