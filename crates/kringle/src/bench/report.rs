//! What was measured.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::histogram::Histogram;
use crate::show::took;

/// What came of one phase of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) puts: Histogram,
    pub(crate) gets: Histogram,
    /// How often each went wrong, by code.
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Tally {
    /// Returns how many operations were done.
    pub(crate) fn done(&self) -> u64 {
        self.puts.count() + self.gets.count()
    }

    /// Returns how many operations went wrong.
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// What was done, in words.
    pub(crate) what: String,
    /// The same for programs.
    pub(crate) plan: Value,
    pub(crate) seed: u64,
    pub(crate) tally: Tally,
    pub(crate) spent: Duration,
    /// What this process itself took of the machine.
    pub(crate) cpu: Option<Duration>,
    /// Writing the keys first, if that was needed.
    pub(crate) load: Option<(Tally, Duration)>,
    /// Whether it ran to its end.
    pub(crate) complete: bool,
}

const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

impl Report {
    /// Writes it for people.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("bench   {}   seed {}\n", self.what, self.seed);
        if let Some((load, spent)) = &self.load {
            out += &format!(
                "load    {} keys written in {:.1} s   {}/s\n",
                grouped(load.done()),
                spent.as_secs_f64(),
                grouped(rate(load.done(), *spent))
            );
        }
        out += &format!(
            "total   {} operations in {:.1} s   {}/s   {} errors\n",
            grouped(self.tally.done()),
            self.spent.as_secs_f64(),
            grouped(rate(self.tally.done(), self.spent)),
            grouped(self.tally.failed())
        );
        for (name, histogram) in [("put", &self.tally.puts), ("get", &self.tally.gets)] {
            if histogram.count() > 0 {
                out += &self.line(name, histogram);
            }
        }
        if self.tally.failed() > 0 {
            let list = self.tally.errors.iter().map(|(code, count)| format!("{code} {}", grouped(*count)));
            out += &format!("errors  {}\n", list.collect::<Vec<_>>().join("   "));
        }
        if let Some(cpu) = self.cpu_per_operation() {
            out += &format!("client  {cpu:.1} us of CPU per operation\n");
        }
        if !self.complete {
            out += "not complete: these are the figures until then\n";
        }
        out
    }

    fn line(&self, name: &str, histogram: &Histogram) -> String {
        let quantiles =
            SHARES.iter().map(|(name, share)| format!("{name} {}", took(histogram.quantile(*share))));
        format!(
            "{name:6}  {}/s   {}   max {}\n",
            grouped(rate(histogram.count(), self.spent)),
            quantiles.collect::<Vec<_>>().join("   "),
            took(histogram.max())
        )
    }

    fn cpu_per_operation(&self) -> Option<f64> {
        let all = self.tally.done() + self.tally.failed();
        self.cpu.filter(|_| all > 0).map(|cpu| cpu.as_secs_f64() * 1e6 / all as f64)
    }

    /// Writes it for programs.
    pub(crate) fn json(&self) -> Value {
        let phase = |tally: &Tally, spent: Duration| {
            json!({
                "operations": tally.done(),
                "seconds": spent.as_secs_f64(),
                "per_second": rate(tally.done(), spent),
                "errors": tally.errors,
                "put": latency(&tally.puts),
                "get": latency(&tally.gets),
            })
        };
        json!({
            "schema": "kringle.bench/1",
            "plan": self.plan,
            "seed": self.seed,
            "complete": self.complete,
            "load": self.load.as_ref().map(|(tally, spent)| phase(tally, *spent)),
            "run": phase(&self.tally, self.spent),
            "cpu_us_per_operation": self.cpu_per_operation(),
        })
    }
}

fn latency(histogram: &Histogram) -> Value {
    if histogram.count() == 0 {
        return Value::Null;
    }
    json!({
        "count": histogram.count(),
        "p50_us": histogram.quantile(0.5),
        "p90_us": histogram.quantile(0.9),
        "p99_us": histogram.quantile(0.99),
        "p999_us": histogram.quantile(0.999),
        "max_us": histogram.max(),
    })
}

fn rate(count: u64, spent: Duration) -> u64 {
    (count as f64 / spent.as_secs_f64().max(1e-6)).round() as u64
}

/// Writes a number with commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut tally = Tally::default();
        (0..2000).for_each(|_| tally.puts.record(1000));
        tally.errors.insert("KR0503".into(), 3);
        Report {
            what: "writes".into(),
            plan: json!({ "size": 100 }),
            seed: 7,
            tally,
            spent: Duration::from_secs(2),
            cpu: Some(Duration::from_micros(20_030)),
            load: None,
            complete: false,
        }
    }

    #[test]
    fn a_report_is_read_by_people() {
        let text = "\
bench   writes   seed 7
total   2,000 operations in 2.0 s   1,000/s   3 errors
put     1,000/s   p50 1.00 ms   p90 1.00 ms   p99 1.00 ms   p99.9 1.00 ms   max 1.00 ms
errors  KR0503 3
client  10.0 us of CPU per operation
not complete: these are the figures until then
";
        assert_eq!(report().text(), text);
    }

    #[test]
    fn a_report_is_read_by_programs() {
        let json = report().json();
        assert_eq!((&json["run"]["put"]["p99_us"], &json["run"]["get"]), (&json!(1000), &Value::Null));
        assert_eq!((&json["run"]["errors"]["KR0503"], &json["complete"]), (&json!(3), &json!(false)));
    }

    #[test]
    fn large_numbers_have_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
