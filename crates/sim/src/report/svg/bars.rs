//! Groups of bars: ours dark, the paper's light, limits only an outline.

use super::super::{Plot, Role};
use super::canvas::{Canvas, Stroke, width};
use super::scale::{Ends, Scale, Tick, across, alike, short};
use super::{Area, Draw, INK, LABEL, Style};

pub(super) struct Bars<'a> {
    plot: &'a Plot,
    /// The x of each group, ascending.
    groups: Vec<f64>,
}

/// The part of a group's room that its bars take.
const FILLED: f64 = 0.86;

impl<'a> Bars<'a> {
    pub(super) fn new(plot: &'a Plot) -> Bars<'a> {
        let placed = |(x, y): &&(f64, f64)| x.is_finite() && Scale::has_place(*y, plot.y.log);
        let points = plot.series.iter().flat_map(|series| &series.points).filter(placed);
        let mut groups: Vec<f64> = points.map(|point| point.0).collect();
        groups.sort_by(f64::total_cmp);
        groups.dedup();
        Bars { plot, groups }
    }

    /// The bars of a series: group and height. An x that comes twice has its last height.
    fn bars(&self, series: usize) -> Vec<(usize, f64)> {
        let points = &self.plot.series[series].points;
        let height = |x: &f64| points.iter().rev().find(|point| point.0 == *x).map(|point| point.1);
        let bars = self.groups.iter().enumerate().filter_map(|(group, x)| Some((group, height(x)?)));
        bars.filter(|(_, y)| Scale::has_place(*y, self.plot.y.log)).collect()
    }

    /// The heights of all bars, series by series.
    fn all(&self) -> Vec<f64> {
        (0..self.plot.series.len()).flat_map(|series| self.bars(series)).map(|(_, y)| y).collect()
    }
}

impl Draw for Bars<'_> {
    fn scales(&self) -> Option<(Scale, Scale)> {
        let y = Scale::new(self.all().into_iter(), self.plot.y.log, Ends::Zero)?;
        Some((Scale::groups(self.groups.len()), y))
    }

    fn x_ticks(&self, _x: &Scale, length: f64) -> Vec<Tick> {
        let labels: Vec<String> = self.groups.iter().map(|x| short(*x)).collect();
        let widest = labels.iter().map(|label| across(label)).fold(1.0, f64::max);
        let least = widest * labels.len() as f64 / length;
        // Every second, fifth or tenth, as people count.
        let mut steps = (0..6).flat_map(|power| [1, 2, 5].map(|factor| factor * 10usize.pow(power)));
        let every = steps.find(|step| *step as f64 >= least).unwrap_or(labels.len());
        let ticks = labels.into_iter().enumerate().step_by(every);
        ticks.map(|(group, label)| Tick { value: group as f64, label }).collect()
    }

    fn data(&self, canvas: &mut Canvas, area: &Area) {
        let count = self.plot.series.len().max(1) as f64;
        let room = (area.right - area.left) / self.groups.len().max(1) as f64;
        let each = FILLED * room / count;
        let floor = area.y(area.y.floor());
        if (area.top + 1.0..area.bottom - 1.0).contains(&floor) {
            let line = Stroke { colour: INK, width: 0.7, dashes: "" };
            canvas.line((area.left, floor), (area.right, floor), line);
        }
        let mut labels = alike(&self.all()).into_iter();
        // All of them or none: a bar without a number among others with one looks like a mistake.
        let widest = labels.clone().map(|label| width(&label, 1.0)).fold(0.0, f64::max);
        let size = [LABEL, 0.9 * LABEL, 0.75 * LABEL].into_iter().find(|size| widest * size <= each);
        for (series, style) in Style::of(&self.plot.series).into_iter().enumerate() {
            for ((group, y), label) in self.bars(series).into_iter().zip(&mut labels) {
                let left = area.x(group as f64) - FILLED * room / 2.0 + series as f64 * each;
                let (top, bottom) = (area.y(y).min(floor), area.y(y).max(floor));
                // Between neighbours a little white, as long as there is room for it.
                let gap = (0.08 * each).min(1.5);
                bar(canvas, style, (left + gap, top), each - 2.0 * gap, bottom - top);
                if let Some(size) = size {
                    let line = if y < area.y.floor() { bottom + size } else { top - 3.0 };
                    canvas.text(left + each / 2.0, line, size, "middle", &label);
                }
            }
        }
    }

    fn sample(&self, canvas: &mut Canvas, style: Style, x: f64, y: f64) {
        bar(canvas, style, (x - 3.0, y - 6.0), 14.0, 12.0);
    }
}

fn bar(canvas: &mut Canvas, style: Style, at: (f64, f64), width: f64, height: f64) {
    let colour = style.dark();
    let (fill, dashes) = match style.role {
        Role::Ours => (colour, ""),
        Role::Paper => (style.light(), ""),
        Role::Limit => ("#ffffff", "1.5 2"),
    };
    // The outline is inside, so that the height is that of the number; many thin bars have no room for one.
    let line = if width > 4.0 { 1.0 } else { 0.0 };
    let (width, height) = ((width - line).max(0.1), (height - line).max(0.0));
    canvas.rect(
        (at.0 + line / 2.0, at.1 + line / 2.0),
        width,
        height,
        fill,
        Stroke { colour, width: line, dashes },
    );
}
