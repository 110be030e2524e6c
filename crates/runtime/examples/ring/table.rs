//! How benchmarks print their figures.

use serde_json::json;

/// Prints figures as they come.
pub(crate) struct Table {
    pub(crate) json: bool,
}

impl Table {
    /// Says what is measured, and where.
    pub(crate) fn begin(&self, bench: &str, seed: u64) {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let line: Vec<String> = std::env::args().skip(1).collect();
        let about = json!({
            "command": format!("cargo xtask bench {bench} {}", line.join(" ")),
            "version": env!("CARGO_PKG_VERSION"),
            "kernel": read("/proc/sys/kernel/osrelease"),
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "load": read("/proc/loadavg"),
            "seed": seed,
            "optimised": !cfg!(debug_assertions),
        });
        println!("{about}");
        if !self.json {
            println!("{:64} {:>10} {:12} {:>14} {:>9}", "what", "value", "unit", "asked", "goal");
        }
    }

    pub(crate) fn row(&self, name: &str, value: f64, unit: &str, asked: &str, goal: &str) {
        if self.json {
            println!(
                "{}",
                json!({ "name": name, "value": value, "unit": unit, "asked": asked, "goal": goal })
            );
        } else {
            let value = match value.abs() {
                0.0 => "0".into(),
                small if small < 10.0 => format!("{value:.2}"),
                middle if middle < 1000.0 => format!("{value:.1}"),
                _ => format!("{value:.0}"),
            };
            println!("{name:64} {value:>10} {unit:12} {asked:>14} {goal:>9}");
        }
    }

    /// A figure nothing is asked of.
    pub(crate) fn note(&self, name: &str, value: f64, unit: &str) {
        self.row(name, value, unit, "", "");
    }
}
