//! Topologies as people write them on a command line.

use std::fmt;
use std::time::Duration;

use super::{Matrix, Topology, TransitStub, TransitStubConfig};

const ALTERNATIVES: &str = "expected flat[:MIN-MAX], plane[:SIDE], sphere[:HALF], transit-stub or matrix:FILE, \
    for example plane:50ms";

/// The longest delay taken: more is a slip of the pen.
const SPAN_MAX: Duration = Duration::from_secs(60);

impl Topology {
    /// Reads a topology as written on a command line: `flat`, `flat:1ms-10ms`, `plane`, `plane:50ms`, `sphere`,
    /// `sphere:100ms`, `transit-stub` or `matrix:FILE`. The routers of a transit-stub internet are drawn from the seed.
    ///
    /// The error says what is wrong and what was expected.
    pub fn parse(spec: &str, seed: u64) -> Result<Topology, String> {
        let (name, rest) = match spec.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (spec, None),
        };
        match (name, rest) {
            ("flat", rest) => flat(rest.unwrap_or("1ms-10ms")),
            ("plane", rest) => Ok(Topology::Plane { side: length(rest.unwrap_or("50ms"))? }),
            ("sphere", rest) => Ok(Topology::Sphere { half: length(rest.unwrap_or("100ms"))? }),
            ("transit-stub", None) => {
                TransitStub::new(TransitStubConfig::default(), seed).map(Topology::TransitStub)
            }
            ("transit-stub", Some(_)) => Err(format!("transit-stub takes nothing after it; {ALTERNATIVES}")),
            ("matrix", Some(path)) if !path.is_empty() => {
                Matrix::read(path).map(Topology::Matrix).map_err(|error| error.to_string())
            }
            ("matrix", _) => Err(format!("matrix needs a file; {ALTERNATIVES}")),
            _ => Err(format!("{spec:?} is not a topology; {ALTERNATIVES}")),
        }
    }
}

impl fmt::Display for Topology {
    /// The text that [`Topology::parse`] reads, as far as there is one: an internet other than the default and a matrix
    /// that was not read from a file only say how large they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topology::Flat { min, max } => write!(f, "flat:{}-{}", Span(*min), Span(*max)),
            Topology::Plane { side } => write!(f, "plane:{}", Span(*side)),
            Topology::Sphere { half } => write!(f, "sphere:{}", Span(*half)),
            Topology::TransitStub(internet) if *internet.config() == TransitStubConfig::default() => {
                f.write_str("transit-stub")
            }
            Topology::TransitStub(internet) => {
                write!(f, "transit-stub with {} routers", internet.routers())
            }
            Topology::Matrix(matrix) => match matrix.path() {
                Some(path) => write!(f, "matrix:{}", path.display()),
                None => write!(f, "matrix with {} hosts", matrix.hosts()),
            },
        }
    }
}

/// A span as [`span`] reads it.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        if micros.is_multiple_of(1_000) { write!(f, "{}ms", micros / 1_000) } else { write!(f, "{micros}us") }
    }
}

fn flat(bounds: &str) -> Result<Topology, String> {
    let Some((min, max)) = bounds.split_once('-') else {
        return Err(format!("flat:{bounds} has one bound; expected two, as in flat:1ms-10ms"));
    };
    let (min, max) = (span(min)?, span(max)?);
    if min > max {
        return Err(format!("flat:{bounds} ends before it starts; expected the shorter delay first"));
    }
    Ok(Topology::Flat { min, max })
}

fn length(text: &str) -> Result<Duration, String> {
    match span(text)? {
        Duration::ZERO => Err(format!("{text} is no distance; expected at least 1us")),
        length => Ok(length),
    }
}

fn span(text: &str) -> Result<Duration, String> {
    let wrong = |why: &str| format!("{text:?} {why}; expected a delay such as 500us, 1.5ms or 1s");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "" => return Err(wrong("has no unit")),
        _ => return Err(wrong("has an unknown unit")),
    };
    let micros = digits.parse::<f64>().map_err(|_| wrong("is not a number"))? * unit;
    if micros < 0.0 || micros > SPAN_MAX.as_micros() as f64 {
        return Err(wrong("is not between 0 and 60s"));
    }
    Ok(Duration::from_micros(micros.round() as u64))
}
