//! Whether two runs came to the same: what a replay is judged by.

use std::fmt::{Debug, Display};

use super::{Axis, Figure, Histogram, Plot, Report, Ring, Series, Table, Want};

impl Report {
    /// Compares with another report in everything but machine, command and code.
    ///
    /// # Errors
    /// The first difference in words; `self` is "here" and `other` is "there".
    pub fn same_outcome(&self, other: &Report) -> Result<(), String> {
        // Taken apart in full, so that a field added later can not be forgotten here.
        let Report {
            schema,
            scenario,
            title,
            anchor,
            command: _,
            code: _,
            seed,
            parameters,
            complete,
            figures,
            counts,
            tables,
            plots,
            worlds,
            remarks,
            machine: _,
        } = self;
        equal("schema", schema, &other.schema)?;
        equal("scenario", scenario, &other.scenario)?;
        equal("title", title, &other.title)?;
        equal("anchor", anchor, &other.anchor)?;
        equal("seed", seed, &other.seed)?;
        for name in parameters.keys().chain(other.parameters.keys()) {
            let value =
                |report: &Report| report.parameters.get(name).cloned().unwrap_or("nothing".to_owned());
            equal(&format!("parameter '{name}'"), &value(self), &value(other))?;
        }
        let end = |complete| if complete { "complete" } else { "interrupted" };
        equal("run", &end(*complete), &end(other.complete))?;
        // Rings first: figures follow from what happened in them.
        each("ring", worlds, &other.worlds, |ring| &ring.name, same_ring)?;
        each("figure", figures, &other.figures, |figure| &figure.name, same_figure)?;
        each("counts", counts, &other.counts, |counts| &counts.name, same_counts)?;
        each("table", tables, &other.tables, |table| &table.title, same_table)?;
        each("plot", plots, &other.plots, |plot| &plot.name, same_plot)?;
        each("remark", remarks, &other.remarks, |remark| remark, |_, _, _| Ok(()))
    }
}

/// Says whether two numbers are the same in a document.
///
/// All that is not a number is written alike.
fn close(here: f64, there: f64) -> bool {
    here == there || (!here.is_finite() && !there.is_finite())
}

fn equal<T: PartialEq + Display>(what: &str, here: &T, there: &T) -> Result<(), String> {
    if here == there { Ok(()) } else { Err(format!("{what}: {here} here, {there} there")) }
}

fn equal_number(what: &str, here: f64, there: f64) -> Result<(), String> {
    let told = |number: f64| if number.is_finite() { number.to_string() } else { "none".to_owned() };
    if close(here, there) {
        Ok(())
    } else {
        Err(format!("{what}: {} here, {} there", told(here), told(there)))
    }
}

/// For what is too long to be told.
fn unchanged<T: PartialEq + Debug>(what: impl Display, here: &T, there: &T) -> Result<(), String> {
    if here == there { Ok(()) } else { Err(format!("{what} differs")) }
}

/// Compares lists of named things, which must come in the same order.
fn each<T>(
    kind: &str,
    here: &[T],
    there: &[T],
    name: impl Fn(&T) -> &str,
    same: impl Fn(&str, &T, &T) -> Result<(), String>,
) -> Result<(), String> {
    for (one, other) in here.iter().zip(there) {
        if name(one) != name(other) {
            return Err(format!("{kind} '{}' here, '{}' there", name(one), name(other)));
        }
        same(&format!("{kind} '{}'", name(one)), one, other)?;
    }
    match (here.get(there.len()), there.get(here.len())) {
        (Some(extra), _) => Err(format!("{kind} '{}' is only here", name(extra))),
        (_, Some(extra)) => Err(format!("{kind} '{}' is only there", name(extra))),
        (None, None) => Ok(()),
    }
}

fn same_ring(what: &str, here: &Ring, there: &Ring) -> Result<(), String> {
    let Ring { name: _, nodes, node_type, node_size, events, simulated_seconds, trace, messages } = here;
    equal(&format!("nodes of {what}"), nodes, &there.nodes)?;
    unchanged(format!("trace of {what}"), trace, &there.trace)?;
    equal(&format!("events of {what}"), events, &there.events)?;
    equal_number(&format!("simulated seconds of {what}"), *simulated_seconds, there.simulated_seconds)?;
    for kind in messages.keys().chain(there.messages.keys()) {
        let count = |ring: &Ring| ring.messages.get(kind).copied().unwrap_or_default();
        equal(&format!("messages '{kind}' of {what}"), &count(here), &count(there))?;
    }
    // A kind that one list leaves out and the other counts as none is a difference in the document only.
    equal(&format!("kinds of messages of {what}"), &messages.len(), &there.messages.len())?;
    equal(&format!("node type of {what}"), node_type, &there.node_type)?;
    equal(&format!("node size of {what}"), node_size, &there.node_size)
}

fn same_figure(what: &str, here: &Figure, there: &Figure) -> Result<(), String> {
    let Figure { name: _, ours, digits, unit, paper, limit, want } = here;
    equal_number(what, *ours, there.ours)?;
    equal(&format!("digits of {what}"), digits, &there.digits)?;
    equal(&format!("unit of {what}"), unit, &there.unit)?;
    // What is not there compares as what is not a number.
    let known = |number: Option<f64>| number.unwrap_or(f64::NAN);
    equal_number(&format!("paper's {what}"), known(*paper), known(there.paper))?;
    equal_number(&format!("limit of {what}"), known(*limit), known(there.limit))?;
    if same_want(*want, there.want) { Ok(()) } else { Err(format!("what is wanted of {what} differs")) }
}

fn same_want(here: Option<Want>, there: Option<Want>) -> bool {
    match (here, there) {
        (None, None) => true,
        (Some(Want::AtMost(here)), Some(Want::AtMost(there))) => close(here, there),
        (Some(Want::AtLeast(here)), Some(Want::AtLeast(there))) => close(here, there),
        (Some(Want::Between(least, most)), Some(Want::Between(other_least, other_most))) => {
            close(least, other_least) && close(most, other_most)
        }
        _ => false,
    }
}

fn same_counts(what: &str, here: &Histogram, there: &Histogram) -> Result<(), String> {
    let Histogram { name: _, counts } = here;
    for value in counts.keys().chain(there.counts.keys()) {
        let count = |histogram: &Histogram| histogram.counts.get(value).copied().unwrap_or_default();
        equal(&format!("{what} of {value}"), &count(here), &count(there))?;
    }
    Ok(())
}

fn same_table(what: &str, here: &Table, there: &Table) -> Result<(), String> {
    let Table { title: _, columns, rows } = here;
    unchanged(format!("head of {what}"), columns, &there.columns)?;
    equal(&format!("rows of {what}"), &rows.len(), &there.rows.len())?;
    for (at, (row, other)) in rows.iter().zip(&there.rows).enumerate() {
        unchanged(format!("row {} of {what}", at + 1), row, other)?;
    }
    Ok(())
}

fn same_plot(what: &str, here: &Plot, there: &Plot) -> Result<(), String> {
    let Plot { name: _, title, shape, x, y, series } = here;
    equal(&format!("title of {what}"), title, &there.title)?;
    unchanged(format!("shape of {what}"), shape, &there.shape)?;
    for (axis, here, there) in [("x", x, &there.x), ("y", y, &there.y)] {
        let Axis { label, log } = here;
        equal(&format!("{axis} axis of {what}"), label, &there.label)?;
        unchanged(format!("scale of the {axis} axis of {what}"), log, &there.log)?;
    }
    let same = |of: &str, here: &Series, there: &Series| same_series(&format!("{of} of {what}"), here, there);
    each("series", series, &there.series, |series| &series.name, same)
}

fn same_series(what: &str, here: &Series, there: &Series) -> Result<(), String> {
    let Series { name: _, role, points } = here;
    unchanged(format!("role of {what}"), role, &there.role)?;
    equal(&format!("points of {what}"), &points.len(), &there.points.len())?;
    for (at, (here, there)) in points.iter().zip(&there.points).enumerate() {
        equal_number(&format!("x of point {} of {what}", at + 1), here.0, there.0)?;
        equal_number(&format!("y of point {} of {what}", at + 1), here.1, there.1)?;
    }
    Ok(())
}
