//! One run of a scenario, with what it cost.

use std::collections::BTreeMap;
use std::time::Instant;

use kringle_sim::lab::{Halt, Scenario, Watch};
use kringle_sim::report::Report;

use super::{code, flags, memory};

/// Begins the remark of a run that was cut short; a replay cannot repeat that.
const CUT: &str = "interrupted";

/// Runs a scenario and completes its report: where it came from, how it ended, what it cost. The memory is that of the
/// process since [`memory::forget_peak`].
///
/// # Errors
/// If the parameters are impossible.
pub(super) fn execute(
    scenario: &Scenario,
    given: &BTreeMap<String, String>,
    seed: u64,
    watch: &mut dyn Watch,
) -> Result<(Report, Option<Halt>), String> {
    let began = Instant::now();
    let (mut report, halt) = scenario.run(given, seed, watch)?;
    let seconds = began.elapsed().as_secs_f64();
    report.command = flags::command_line("run", scenario, Some(seed), &report.parameters);
    report.code = code();
    match &halt {
        Some(Halt::Broken(why)) => report.remarks.push(format!("broken: {why}")),
        Some(Halt::Interrupted) => report.remarks.push(format!("{CUT}: the run did not come to its end")),
        Some(Halt::Impossible(_)) | None => {}
    }
    report.machine.seconds = seconds;
    report.machine.events_per_second = events(&report) as f64 / seconds.max(1e-9);
    report.machine.peak_memory = memory::peak();
    Ok((report, halt))
}

/// Returns the events of all rings.
pub(super) fn events(report: &Report) -> u64 {
    report.worlds.iter().map(|ring| ring.events).sum()
}

/// Says whether a report was cut short by somebody, not by what was found.
pub(super) fn was_cut(report: &Report) -> bool {
    !report.complete && report.remarks.iter().any(|remark| remark.starts_with(CUT))
}
