//! Pictures fit for a paper, as SVG.
//!
//! Drawn by hand: the roles decide about dashes, markers and fillings, which plotting libraries do not let go
//! together in one legend, and the same plot must always give the same bytes.

mod bars;
mod canvas;
mod lines;
mod scale;

use self::bars::Bars;
pub(super) use self::canvas::escape;
use self::canvas::{Canvas, Stroke, width, wrap};
use self::lines::Lines;
use self::scale::{Scale, Tick};
use super::{Plot, Role, Series, Shape};

impl Plot {
    /// Returns the picture. What can not be placed is left out: what is not a number, and zero or less on a
    /// logarithmic axis.
    pub fn to_svg(&self) -> String {
        match self.shape {
            Shape::Lines => draw(self, &Lines::new(self)),
            Shape::Bars => draw(self, &Bars::new(self)),
        }
    }
}

/// Where the data is drawn, in pixels, and how its numbers are placed there.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
}

impl Area {
    fn x(&self, value: f64) -> f64 {
        self.left + self.x.part(value) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.part(value) * (self.bottom - self.top)
    }
}

/// What differs between the shapes.
trait Draw {
    /// How the numbers are placed, or nothing if there is none that can be.
    fn scales(&self) -> Option<(Scale, Scale)>;

    /// What is written under the x axis, which is so long.
    fn x_ticks(&self, x: &Scale, length: f64) -> Vec<Tick>;

    /// The data.
    fn data(&self, canvas: &mut Canvas, area: &Area);

    /// A sample of a series for the legend, around this middle.
    fn sample(&self, canvas: &mut Canvas, style: Style, x: f64, y: f64);
}

/// How a series looks: by its role, and by its place among those of the same role, so that the first of ours and
/// the first of the paper go together.
#[derive(Clone, Copy)]
struct Style {
    role: Role,
    place: usize,
}

impl Style {
    /// A style for each series.
    fn of(series: &[Series]) -> Vec<Style> {
        let place = |at: usize| series[..at].iter().filter(|before| before.role == series[at].role).count();
        (0..series.len()).map(|at| Style { role: series[at].role, place: place(at) }).collect()
    }

    fn dark(self) -> &'static str {
        // A limit belongs to nobody, unless there are several to be told apart.
        if self.role == Role::Limit && self.place == 0 { INK } else { COLOURS[self.place % COLOURS.len()].0 }
    }

    fn light(self) -> &'static str {
        COLOURS[self.place % COLOURS.len()].1
    }
}

const WIDTH: f64 = 640.0;
/// The height of the area of the data; titles and legends come on top.
const HEIGHT: f64 = 290.0;
const MARGIN: f64 = 14.0;
const INK: &str = "#222222";
const GRID: &str = "#e2e2e2";
/// Dark and light tones that differ in print without colours and for the colour-blind.
const COLOURS: [(&str, &str); 5] = [
    ("#1b4f8f", "#c3d7ee"),
    ("#b3470f", "#f6d2ba"),
    ("#1d7a50", "#c2e6d3"),
    ("#6a3d9a", "#dccdec"),
    ("#555555", "#dddddd"),
];
const TITLE: f64 = 15.0;
const TEXT: f64 = 13.0;
const SMALL: f64 = 12.0;
/// The size of the numbers over bars, which may stand above the area.
const LABEL: f64 = 9.5;
/// The room a sample takes in the legend, with a gap to its name.
const SAMPLE: f64 = 38.0;

fn draw(plot: &Plot, shape: &impl Draw) -> String {
    let mut canvas = Canvas::default();
    let scales = shape.scales();
    let y_ticks = scales.as_ref().map_or(Vec::new(), |(_, y)| y.ticks(HEIGHT, |_| 2.4 * SMALL));
    let widest = y_ticks.iter().map(|tick| width(&tick.label, SMALL)).fold(0.0, f64::max);
    let y_label = wrap(&plot.y.label, HEIGHT, TEXT);
    let left = MARGIN + y_label.len() as f64 * TEXT * 1.2 + 10.0 + widest + 8.0;
    let right = WIDTH - MARGIN - 18.0;

    let mut top = MARGIN;
    for line in wrap(&plot.title, WIDTH - 2.0 * MARGIN, TITLE * 1.12) {
        top += TITLE * 1.2;
        canvas.bold(WIDTH / 2.0, top - 0.25 * TITLE, TITLE, &line);
    }
    let top = legend(&mut canvas, plot, shape, left, right, top + 8.0) + LABEL + 6.0;
    let bottom = top + HEIGHT;

    let middle = (left + right) / 2.0;
    let x_label = wrap(&plot.x.label, right - left, TEXT);
    for (at, line) in x_label.iter().enumerate() {
        canvas.text(middle, bottom + 24.0 + (at + 1) as f64 * TEXT * 1.2, TEXT, "middle", line);
    }
    for (at, line) in y_label.iter().enumerate() {
        canvas.upward(MARGIN + (at + 1) as f64 * TEXT * 1.2 - 3.0, (top + bottom) / 2.0, TEXT, line);
    }
    let frame = Stroke { colour: INK, width: 1.0, dashes: "" };
    match scales {
        None => canvas.text(middle, (top + bottom) / 2.0, TEXT, "middle", "no data"),
        Some((x, y)) => {
            let x_ticks = shape.x_ticks(&x, right - left);
            let area = Area { left, right, top, bottom, x, y };
            y_axis(&mut canvas, &area, &y_ticks, frame);
            shape.data(&mut canvas, &area);
            x_axis(&mut canvas, &area, &x_ticks, frame);
        }
    }
    // Over the data, so that bars stand on the line.
    canvas.line((left, bottom), (right, bottom), frame);
    canvas.line((left, top), (left, bottom), frame);
    let height = bottom + 24.0 + x_label.len() as f64 * TEXT * 1.2 + MARGIN;
    canvas.finish(&plot.title, WIDTH, height)
}

/// Draws the names of the series above the data, where they hide nothing. Returns where it ends.
fn legend(canvas: &mut Canvas, plot: &Plot, shape: &impl Draw, left: f64, right: f64, top: f64) -> f64 {
    let line = TEXT * 1.45;
    let (mut x, mut y) = (left, top);
    let mut lines = 1;
    for (series, style) in plot.series.iter().zip(Style::of(&plot.series)) {
        let names = wrap(&series.name, right - left - SAMPLE, TEXT);
        let room = SAMPLE + names.iter().map(|name| width(name, TEXT)).fold(0.0, f64::max);
        if x > left && x + room > right {
            (x, y) = (left, y + line * lines as f64);
            lines = 1;
        }
        shape.sample(canvas, style, x + 15.0, y + 0.5 * line);
        for (at, name) in names.iter().enumerate() {
            canvas.text(x + SAMPLE, y + (at as f64 + 0.5) * line + 0.36 * TEXT, TEXT, "start", name);
        }
        lines = lines.max(names.len());
        x += room + 24.0;
    }
    if plot.series.is_empty() { top } else { y + line * lines as f64 }
}

fn y_axis(canvas: &mut Canvas, area: &Area, ticks: &[Tick], frame: Stroke) {
    for tick in ticks {
        let y = area.y(tick.value);
        canvas.line((area.left, y), (area.right, y), Stroke { colour: GRID, width: 1.0, dashes: "" });
        canvas.line((area.left - 5.0, y), (area.left, y), frame);
        canvas.text(area.left - 8.0, y + 0.36 * SMALL, SMALL, "end", &tick.label);
    }
}

fn x_axis(canvas: &mut Canvas, area: &Area, ticks: &[Tick], frame: Stroke) {
    for tick in ticks {
        let x = area.x(tick.value);
        canvas.line((x, area.bottom), (x, area.bottom + 5.0), frame);
        canvas.text(x, area.bottom + 8.0 + SMALL, SMALL, "middle", &tick.label);
    }
    for value in area.x.between_ticks() {
        let x = area.x(value);
        canvas.line((x, area.bottom), (x, area.bottom + 3.0), Stroke { width: 0.7, ..frame });
    }
}
