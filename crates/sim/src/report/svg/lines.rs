//! Points joined by lines: ours solid with filled markers, the paper's dashed with hollow ones, limits dotted.

use super::super::{Plot, Role};
use super::canvas::{Canvas, Spot, Stroke};
use super::scale::{Ends, Scale, Tick, across};
use super::{Area, Draw, Style};

pub(super) struct Lines<'a> {
    plot: &'a Plot,
    /// Each series as the runs of points without a gap between them.
    runs: Vec<Vec<Vec<Spot>>>,
}

/// More points than this are a curve, on which markers would only be a thicker line.
const MARKERS_MAX: usize = 40;

impl<'a> Lines<'a> {
    pub(super) fn new(plot: &'a Plot) -> Lines<'a> {
        let placed = |(x, y): &Spot| Scale::has_place(*x, plot.x.log) && Scale::has_place(*y, plot.y.log);
        let runs = |points: &Vec<Spot>| {
            points.split(|point| !placed(point)).filter(|run| !run.is_empty()).map(<[Spot]>::to_vec).collect()
        };
        Lines { plot, runs: plot.series.iter().map(|series| runs(&series.points)).collect() }
    }
}

impl Draw for Lines<'_> {
    fn scales(&self) -> Option<(Scale, Scale)> {
        let points = self.runs.iter().flatten().flatten();
        let x = Scale::new(points.clone().map(|point| point.0), self.plot.x.log, Ends::Loose)?;
        Some((x, Scale::new(points.map(|point| point.1), self.plot.y.log, Ends::Ticks)?))
    }

    fn x_ticks(&self, x: &Scale, length: f64) -> Vec<Tick> {
        x.ticks(length, across)
    }

    fn data(&self, canvas: &mut Canvas, area: &Area) {
        let styles = Style::of(&self.plot.series);
        // Ours on top: a filled marker inside a hollow one shows both.
        for role in [Role::Limit, Role::Paper, Role::Ours] {
            for (runs, style) in self.runs.iter().zip(&styles).filter(|(_, style)| style.role == role) {
                let spots = |run: &Vec<Spot>| run.iter().map(|(x, y)| (area.x(*x), area.y(*y))).collect();
                let runs: Vec<Vec<Spot>> = runs.iter().map(spots).collect();
                for run in &runs {
                    match run[..] {
                        // Without markers a lone point of a limit would not be seen at all.
                        [(x, y)] if role == Role::Limit => {
                            let (from, to) = ((x - 16.0).max(area.left), (x + 16.0).min(area.right));
                            canvas.line((from, y), (to, y), stroke(*style));
                        }
                        [_] => {}
                        _ => canvas.polyline(run, stroke(*style)),
                    }
                }
                let points: usize = runs.iter().map(Vec::len).sum();
                let seen = |run: &Vec<Spot>| points <= MARKERS_MAX || run.len() == 1;
                for spot in runs.iter().filter(|run| seen(run)).flatten() {
                    marker(canvas, *style, *spot);
                }
            }
        }
    }

    fn sample(&self, canvas: &mut Canvas, style: Style, x: f64, y: f64) {
        canvas.line((x - 15.0, y), (x + 15.0, y), stroke(style));
        marker(canvas, style, (x, y));
    }
}

fn stroke(style: Style) -> Stroke {
    let (width, dashes) = match style.role {
        Role::Ours => (2.0, ""),
        Role::Paper => (1.5, "7 4"),
        Role::Limit => (1.2, "1.5 3"),
    };
    Stroke { colour: style.dark(), width, dashes }
}

/// Draws a point. Its shape tells series apart where colours do not.
fn marker(canvas: &mut Canvas, style: Style, (x, y): Spot) {
    let colour = style.dark();
    let (size, fill) = match style.role {
        Role::Ours => (3.4, colour),
        Role::Paper => (5.0, "#ffffff"),
        Role::Limit => return,
    };
    let stroke = Stroke { colour, width: 1.3, dashes: "" };
    let at = |dx: f64, dy: f64| (x + dx * size, y + dy * size);
    match style.place % 4 {
        0 => canvas.circle((x, y), size, fill, stroke),
        1 => canvas.polygon(&[at(-0.9, -0.9), at(0.9, -0.9), at(0.9, 0.9), at(-0.9, 0.9)], fill, stroke),
        2 => canvas.polygon(&[at(0.0, -1.2), at(1.1, 0.8), at(-1.1, 0.8)], fill, stroke),
        _ => canvas.polygon(&[at(0.0, -1.3), at(1.2, 0.0), at(0.0, 1.3), at(-1.2, 0.0)], fill, stroke),
    }
}
