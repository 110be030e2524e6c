//! Reports as JSON: one document each, keys in the order of the fields, so that two of them can be compared as text.

use serde::{Deserialize, Deserializer};

use super::{Report, SCHEMA};

impl Report {
    /// Returns the report as JSON, for people too: indented, with a newline at the end.
    ///
    /// JSON has no word for what is not a number; that becomes `null` and is read back as such.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("its maps have plain keys, and a string takes all");
        text.push('\n');
        text
    }

    /// Reads a report.
    ///
    /// # Errors
    /// In words, with line and column, if the text is not JSON, of another schema, or not what the schema says.
    pub fn from_json(text: &str) -> Result<Report, String> {
        // The schema comes first: a document of a later version would only fail with a puzzle about its fields.
        let head: Head = serde_json::from_str(text).map_err(|error| format!("not a report: {error}"))?;
        if head.schema != SCHEMA {
            return Err(format!("{} is not known; this build reads {SCHEMA}", head.schema));
        }
        serde_json::from_str(text).map_err(|error| format!("not a report of {SCHEMA}: {error}"))
    }
}

/// As much of a document as every version has.
#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// A number, or the `null` that one without a value was written as.
#[derive(Deserialize)]
struct Number(Option<f64>);

impl Number {
    fn value(self) -> f64 {
        self.0.unwrap_or(f64::NAN)
    }
}

pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Number::deserialize(from).map(Number::value)
}

pub(super) fn points<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(f64, f64)>, D::Error> {
    let points = Vec::<(Number, Number)>::deserialize(from)?;
    Ok(points.into_iter().map(|(x, y)| (x.value(), y.value())).collect())
}
