//! The few elements of SVG that plots are made of.

use std::fmt::Write as _;

use super::INK;

/// A picture under way.
#[derive(Default)]
pub(super) struct Canvas {
    elements: String,
}

/// How a line is drawn.
#[derive(Clone, Copy)]
pub(super) struct Stroke {
    pub(super) colour: &'static str,
    pub(super) width: f64,
    /// Lengths of dashes and gaps; empty for none.
    pub(super) dashes: &'static str,
}

/// A point, in pixels from the left and from the top.
pub(super) type Spot = (f64, f64);

impl Canvas {
    pub(super) fn line(&mut self, from: Spot, to: Spot, stroke: Stroke) {
        let (x1, y1, x2, y2) = (number(from.0), number(from.1), number(to.0), number(to.1));
        self.element(&format!(r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"{}/>"#, attributes(stroke)));
    }

    pub(super) fn polyline(&mut self, spots: &[Spot], stroke: Stroke) {
        let places = places(spots);
        let drawn = attributes(stroke);
        self.element(&format!(r#"<polyline points="{places}" fill="none" stroke-linejoin="round"{drawn}/>"#));
    }

    pub(super) fn polygon(&mut self, spots: &[Spot], fill: &str, stroke: Stroke) {
        self.element(&format!(
            r#"<polygon points="{}" fill="{fill}"{}/>"#,
            places(spots),
            attributes(stroke)
        ));
    }

    pub(super) fn circle(&mut self, (x, y): Spot, radius: f64, fill: &str, stroke: Stroke) {
        let (x, y, radius) = (number(x), number(y), number(radius));
        self.element(&format!(
            r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}"{}/>"#,
            attributes(stroke)
        ));
    }

    pub(super) fn rect(&mut self, (x, y): Spot, width: f64, height: f64, fill: &str, stroke: Stroke) {
        let (x, y, width, height) = (number(x), number(y), number(width), number(height));
        let drawn = attributes(stroke);
        self.element(&format!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"{drawn}/>"#
        ));
    }

    /// Writes text at its baseline; `anchor` says which part of it is at `x`.
    pub(super) fn text(&mut self, x: f64, y: f64, size: f64, anchor: &str, text: &str) {
        self.letters(x, y, size, &format!(r#" text-anchor="{anchor}""#), text);
    }

    /// Writes a title around a middle.
    pub(super) fn bold(&mut self, x: f64, y: f64, size: f64, text: &str) {
        self.letters(x, y, size, r#" text-anchor="middle" font-weight="bold""#, text);
    }

    /// Writes text from bottom to top around a middle.
    pub(super) fn upward(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let turn = format!(r#" text-anchor="middle" transform="rotate(-90 {} {})""#, number(x), number(y));
        self.letters(x, y, size, &turn, text);
    }

    /// Returns the whole document. It has no ids, so that many of them can be in one page.
    pub(super) fn finish(self, title: &str, width: f64, height: f64) -> String {
        let (width, height, title) = (number(width), number(height), escape(title));
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{title}" font-family="Helvetica, Arial, 'Liberation Sans', sans-serif">
<title>{title}</title>
<rect x="0" y="0" width="{width}" height="{height}" fill="#ffffff"/>
{}</svg>
"##,
            self.elements
        )
    }

    fn letters(&mut self, x: f64, y: f64, size: f64, how: &str, text: &str) {
        let (x, y, size, text) = (number(x), number(y), number(size), escape(text));
        self.element(&format!(r#"<text x="{x}" y="{y}" font-size="{size}" fill="{INK}"{how}>{text}</text>"#));
    }

    fn element(&mut self, element: &str) {
        self.elements += element;
        self.elements.push('\n');
    }
}

/// Makes a text mean itself in XML and in HTML, in elements and in attributes.
pub(in crate::report) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // XML has no way to write these at all.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() && !control.is_whitespace() => escaped.push('\u{fffd}'),
            '\u{b}' | '\u{c}' => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Guesses how wide a text is at most, in Helvetica or in what is there instead of it.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let letter = |letter: char| match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | 'I' | 'f' | 't' | '/' => 0.35,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.97,
        letter if letter.is_uppercase() => 0.73,
        letter if letter.is_ascii() => 0.62,
        '⁰'..='⁹' | '¹' | '²' | '³' | '⁻' | '·' => 0.4,
        // Letters of other scripts may be as wide as they are high; too much room is the lesser evil.
        _ => 0.9,
    };
    text.chars().map(letter).sum::<f64>() * size
}

/// Breaks a text into lines no wider than this, where its words allow it.
pub(super) fn wrap(text: &str, most: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(word, size) + 0.35 * size <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A place in pixels; a hundredth of one is enough, and hides in which order sums were made.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn places(spots: &[Spot]) -> String {
    let mut places = String::new();
    for (x, y) in spots {
        let gap = if places.is_empty() { "" } else { " " };
        let _ = write!(places, "{gap}{},{}", number(*x), number(*y));
    }
    places
}

fn attributes(stroke: Stroke) -> String {
    let Stroke { colour, width, dashes } = stroke;
    let dashes = if dashes.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dashes}""#) };
    format!(r#" stroke="{colour}" stroke-width="{}"{dashes}"#, number(width))
}
