//! The errors of every interface by code: what the process ends with, and what to do.

use clap::Args;
use kringle_front::catalogue;
use kringle_front::errors::{self, Row};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Json;

/// Finds a row by its code, as people write it.
pub(crate) fn find(code: &str) -> Option<&'static Row> {
    errors::find(code)
}

/// Returns what to end with when all that is known is a status of HTTP.
pub(crate) fn exit_of_status(status: u16) -> u8 {
    catalogue().iter().find(|row| row.http == status).map_or(1, |row| row.exit)
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, for instance KR0504; without one, all of them
    code: Option<String>,
}

/// Explains one code, or lists all.
pub(crate) fn explain(args: &ExplainArgs, json: Option<Json>) -> Result<String, Failure> {
    let Some(code) = &args.code else {
        let list = catalogue().iter().map(|row| format!("{}  {}\n", row.code, row.title)).collect();
        let value = json!({ "schema": "kringle.errors/1", "errors": catalogue() });
        return Ok(json.map_or(list, |json| json.write(&value, "/errors")));
    };
    let row = find(code).ok_or_else(|| {
        let remedy = "'kringle explain' lists them all.";
        Failure::coded(3, format!("there is no error {code:?}"), remedy)
    })?;
    let text = format!(
        "{}  {}\n\n{}\n{}\n\nHTTP status {}, exit code {}.\n",
        row.code, row.title, row.meaning, row.remedy, row.http, row.exit
    );
    let value = json!({ "schema": "kringle.error/1", "error": row });
    Ok(json.map_or(text, |json| json.write(&value, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_status_still_has_an_exit_code() {
        for (status, exit) in [(400, 2), (403, 7), (404, 3), (413, 8), (504, 5), (500, 1), (418, 1)] {
            assert_eq!(exit_of_status(status), exit, "{status}");
        }
    }

    #[test]
    fn an_unknown_code_is_not_found() {
        let failure = explain(&ExplainArgs { code: Some("KR1".into()) }, None).unwrap_err();
        assert_eq!(failure.code(), 3);
        let text = explain(&ExplainArgs { code: Some("KR0404".into()) }, None).unwrap();
        assert!(text.starts_with("KR0404  Not found\n"), "{text}");
    }
}
