//! The errors of every interface by code: what the process ends with, and what to do.

use clap::Args;
use serde_json::json;

use crate::failure::Failure;
use crate::output::Json;

/// One kind of error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The code.
    pub(crate) code: &'static str,
    /// The status of HTTP it comes with.
    pub(crate) status: u16,
    /// What the process ends with.
    pub(crate) exit: u8,
    /// What it says in a few words.
    pub(crate) title: &'static str,
    /// What has happened, and whether anything changed.
    pub(crate) meaning: &'static str,
    /// What to do about it.
    pub(crate) remedy: &'static str,
}

const fn kind(
    code: &'static str,
    status: u16,
    exit: u8,
    title: &'static str,
    meaning: &'static str,
    remedy: &'static str,
) -> Kind {
    Kind { code, status, exit, title, meaning, remedy }
}

/// Every kind there is, by code.
const ALL: &[Kind] = &[
    kind(
        "KR0400",
        400,
        2,
        "the request is malformed",
        "Something in the request can not be read: a key, an id, a number, a body. Nothing was done.",
        "Look at what is named and write it as 'kringle COMMAND --help' shows.",
    ),
    kind(
        "KR0401",
        401,
        7,
        "not authenticated",
        "The node wants to know who asks before it does this. Nothing was done.",
        "Ask from the machine the node runs on, or with credentials it knows.",
    ),
    kind(
        "KR0403",
        403,
        7,
        "not allowed",
        "The node knows who asks and does not allow it. Nothing was done.",
        "Ask from the machine the node runs on, or let its operator do it.",
    ),
    kind(
        "KR0404",
        404,
        3,
        "not found",
        "There is no such node, token or path. Nothing was done.",
        "'kringle ring' lists the nodes, 'kringle token list' the tokens.",
    ),
    kind(
        "KR0409",
        409,
        1,
        "it is in another state",
        "What was asked for does not fit the state the node is in: it is part of a ring already, for instance.",
        "'kringle status' shows the state.",
    ),
    kind(
        "KR0413",
        413,
        8,
        "too large",
        "The message is larger than a node carries. Nothing was sent.",
        "Send less at once, or send where to find the rest.",
    ),
    kind(
        "KR0421",
        421,
        4,
        "another cluster",
        "The node belongs to a cluster of another name or another secret. Nothing was done.",
        "Compare --cluster and the secret of both.",
    ),
    kind(
        "KR0429",
        429,
        5,
        "too busy",
        "The node has as many requests open as it takes. Nothing was done.",
        "Try again in a moment, or ask another node with --node.",
    ),
    kind(
        "KR0501",
        501,
        2,
        "this version can not do that",
        "The node does not know the request. Nothing was done.",
        "Compare 'kringle version' with the version that 'kringle status' shows.",
    ),
    kind(
        "KR0503",
        503,
        5,
        "too few nodes took part",
        "Not enough nodes answered. What was asked for may have happened in part.",
        "'kringle status' shows who is down.",
    ),
    kind(
        "KR0504",
        504,
        5,
        "no answer in time",
        "Nothing came back before the deadline. A message may have been delivered all the same.",
        "Allow more time with --timeout; 'kringle status' shows whether the ring is whole.",
    ),
    kind(
        "KR0520",
        503,
        4,
        "not part of a ring",
        "The node is still joining, or it lost everybody. Nothing was done.",
        "Wait until 'kringle status' says up, or tell it whom to join: kringle join HOST:PORT",
    ),
    kind(
        "KR0521",
        503,
        4,
        "the node is leaving",
        "The node says goodbye to its ring and takes nothing more. Nothing was done.",
        "Ask another node with --node.",
    ),
];

/// Finds a kind by its code.
pub(crate) fn find(code: &str) -> Option<&'static Kind> {
    ALL.iter().find(|kind| kind.code.eq_ignore_ascii_case(code))
}

/// Returns what to end with when all that is known is a status of HTTP.
pub(crate) fn exit_of_status(status: u16) -> u8 {
    ALL.iter().find(|kind| kind.status == status).map_or(1, |kind| kind.exit)
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, for instance KR0504; without one, all of them
    code: Option<String>,
}

/// Explains one code, or lists all.
pub(crate) fn explain(args: &ExplainArgs, json: Option<Json>) -> Result<String, Failure> {
    let Some(code) = &args.code else {
        let list = ALL.iter().map(|kind| format!("{}  {}\n", kind.code, kind.title)).collect();
        let errors: Vec<_> = ALL.iter().map(value).collect();
        let value = json!({ "schema": "kringle.errors/1", "errors": errors });
        return Ok(json.map_or(list, |json| json.write(&value, "/errors")));
    };
    let kind = find(code).ok_or_else(|| {
        let remedy = "'kringle explain' lists them all.";
        Failure::coded(3, format!("there is no error {code:?}"), remedy)
    })?;
    let text = format!(
        "{}  {}\n\n{}\n{}\n\nHTTP status {}, exit code {}.\n",
        kind.code, kind.title, kind.meaning, kind.remedy, kind.status, kind.exit
    );
    let mut value = value(kind);
    value["schema"] = "kringle.error/1".into();
    Ok(json.map_or(text, |json| json.write(&value, "")))
}

fn value(kind: &Kind) -> serde_json::Value {
    json!({
        "code": kind.code,
        "status": kind.status,
        "exit": kind.exit,
        "title": kind.title,
        "meaning": kind.meaning,
        "remedy": kind.remedy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_as_people_write_them() {
        assert_eq!(find("kr0504").map(|kind| kind.exit), Some(5));
        assert_eq!(find("KR9999"), None);
        assert!(ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
    }

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
        assert!(text.starts_with("KR0404  not found\n"), "{text}");
    }
}
