//! Pictures: well-formed, complete, and drawn whatever the numbers are.

use super::*;

fn axis(label: &str, log: bool) -> Axis {
    Axis { label: label.to_owned(), log }
}

fn series(name: &str, role: Role, points: &[(f64, f64)]) -> Series {
    Series { name: name.to_owned(), role, points: points.to_vec() }
}

fn plot(shape: Shape, x_log: bool, y_log: bool, series: Vec<Series>) -> Plot {
    let (x, y) = (axis("nodes <N>", x_log), axis("hops & \"more\"", y_log));
    Plot { name: "test".to_owned(), title: "A <title>".to_owned(), shape, x, y, series }
}

/// Panics unless every tag is closed, every attribute quoted once, and no number is missing from its place.
fn check_well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(
            !text.contains('>') && !text.replace("&amp;", "").replace("&lt;", "").contains("& "),
            "{text}"
        );
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest == "\n", "{open:?} {rest}");
    assert!(!svg.contains("NaN") && !svg.contains("\"inf") && !svg.contains("\"-inf"), "{svg}");
}

#[test]
fn nothing_that_is_not_a_picture_breaks_one() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let inputs: [&[(f64, f64)]; 18] = [
        &[],
        &[(1.0, 1.0)],
        &[(0.0, 0.0)],
        &[(-3.0, -2.0)],
        &[(5.0, 2.0), (5.0, 2.0), (5.0, 2.0)],
        &[(1.0, 7.0), (2.0, 7.0), (3.0, 7.0)],
        &[(nan, 1.0), (1.0, nan), (inf, 1.0), (1.0, -inf)],
        &[(1.0, 2.0), (2.0, nan), (3.0, 4.0), (4.0, inf), (nan, nan), (5.0, 1.0)],
        &[(0.0, 1.0), (-1.0, 1.0), (10.0, 0.0), (10.0, -5.0)],
        &[(0.0, 1.0), (1_000.0, -1.0), (1_000.0, 3.0), (100_000.0, 4.0)],
        &[(f64::MIN, f64::MAX), (f64::MAX, f64::MIN), (1.0, 1.0)],
        &[(f64::MIN_POSITIVE, f64::MIN_POSITIVE), (5e-324, 5e-324)],
        &[(1e99, 1e99), (-1e99, -1e99), (1e-99, 1e-99)],
        &[(1e15, 1e15 + 1.0), (1e15 + 1.0, 1e15)],
        &[(1.0, 1.0), (1.0 + f64::EPSILON, 1.0 + f64::EPSILON)],
        &[(1.3, 1.4), (1.5, 1.6)],
        &[(1e-7, 1e-9), (2e-7, 2e-9)],
        &[(1e12, 1e13), (3e12, 5e19)],
    ];
    for points in inputs {
        for shape in [Shape::Lines, Shape::Bars] {
            for (x_log, y_log) in [(false, false), (true, false), (false, true), (true, true)] {
                for roles in [&[Role::Ours][..], &[Role::Limit], &[Role::Ours, Role::Paper, Role::Limit]] {
                    let all = roles.iter().map(|role| series("a & <b>", *role, points)).collect();
                    let plot = plot(shape, x_log, y_log, all);
                    let svg = plot.to_svg();
                    check_well_formed(&svg);
                    for label in [
                        "nodes &lt;N&gt;",
                        "hops &amp; &quot;more&quot;",
                        "A &lt;title&gt;",
                        "a &amp; &lt;b&gt;",
                    ] {
                        assert!(svg.contains(&format!(">{label}</text>")), "{label} is not in {svg}");
                    }
                    assert_eq!(svg, plot.to_svg());
                }
            }
        }
    }
    check_well_formed(&plot(Shape::Bars, false, false, Vec::new()).to_svg());
    let unlabelled =
        Plot { title: String::new(), x: axis("", false), ..plot(Shape::Lines, false, false, Vec::new()) };
    check_well_formed(&unlabelled.to_svg());
}

#[test]
fn control_characters_stay_out_of_xml() {
    let svg = Plot { title: "a\u{0}b\u{1b}c\u{c}d".to_owned(), ..sample().plots.remove(0) }.to_svg();
    assert!(!svg.contains(|letter: char| letter.is_control() && letter != '\n'));
}

#[test]
fn decades_are_written_out() {
    let points = [(1_000.0, 2.5), (10_000.0, 3.3), (100_000.0, 4.0)];
    let svg = plot(Shape::Lines, true, false, vec![series("ours", Role::Ours, &points)]).to_svg();
    for label in ["1,000", "10,000", "100,000"] {
        assert!(svg.contains(&format!(">{label}</text>")), "{svg}");
    }
    assert!(!svg.contains(">2,000</text>"));
}

#[test]
fn roles_look_different() {
    let points = [(1.0, 2.0), (2.0, 3.0)];
    let all = [Role::Ours, Role::Paper, Role::Limit].map(|role| series("s", role, &points));
    let svg = plot(Shape::Lines, false, false, all.to_vec()).to_svg();
    let lines: Vec<&str> = svg.lines().filter(|line| line.starts_with("<polyline")).collect();
    assert!(lines[0].contains("stroke-dasharray=\"1.5 3\"") && lines[1].contains("stroke-dasharray=\"7 4\""));
    assert!(!lines[2].contains("dasharray"));
    // Three for each of ours and of the paper: two points and the legend.
    let markers =
        |fill: &str| svg.lines().filter(|line| line.starts_with("<circle") && line.contains(fill)).count();
    assert_eq!((markers("fill=\"#1b4f8f\""), markers("fill=\"#ffffff\"")), (3, 3));
}

#[test]
fn bars_stand_in_proportion() {
    let points = [(1.0, 10.0), (2.0, 20.0), (3.0, f64::NAN)];
    let svg = plot(Shape::Bars, false, false, vec![series("s", Role::Ours, &points)]).to_svg();
    let height = |line: &str| -> f64 {
        let value = line.split("height=\"").nth(1).unwrap().split('"').next().unwrap();
        value.parse().unwrap()
    };
    let bars: Vec<f64> = svg.lines().filter(|line| line.starts_with("<rect")).skip(2).map(height).collect();
    assert_eq!(bars.len(), 2, "one for each number that can be drawn");
    // The outline is as wide as a pixel and inside.
    assert!((2.0 * (bars[0] + 1.0) - (bars[1] + 1.0)).abs() < 0.05, "{bars:?}");
}
