//! The one table of what can go wrong, for every way a client can ask.
//!
//! A row has a code that never changes its meaning; HTTP answers, exit codes and `kringle explain` are read from it. A
//! [`Problem`] is one row and what happened this time.

use kringle_core::store::op::{Happened, Trouble};
use kringle_core::store::version::Version;
use kringle_runtime::RequestError;
use serde::Serialize;
use serde_json::{Map, Value};

/// Where the type of a problem is described, without its code.
pub const TYPE_BASE: &str = "https://kringle.example/problems/";

/// What went wrong. Each has one [`Row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The request is malformed.
    BadRequest,
    /// The client did not say who it is.
    Unauthenticated,
    /// The client may not do this.
    Denied,
    /// There is no such thing.
    NotFound,
    /// The path exists, but not for this method.
    Method,
    /// The client was too slow to say what it wants.
    Slow,
    /// The request does not fit what is there.
    Conflict,
    /// A condition of the request does not hold.
    ConditionFailed,
    /// The request is larger than the limit.
    TooLarge,
    /// The request was meant for another cluster or host.
    Misdirected,
    /// Two stores were founded apart.
    FoundedApart,
    /// The node has too much to do.
    Overloaded,
    /// The node made a mistake.
    Internal,
    /// This node can not do that.
    Unsupported,
    /// A message found no way to its destination.
    NoRoute,
    /// Too few replicas took part.
    TooFewReplicas,
    /// Nothing came back in time.
    Timeout,
    /// There is no space left.
    NoSpace,
    /// The node is not part of a ring.
    NotJoined,
    /// The node is ending.
    Leaving,
    /// A clock is wrong.
    ClockOff,
    /// What is stored can not be trusted.
    Damaged,
    /// The node has yet to get what it is to hold.
    NotReady,
    /// The port has too many connections.
    Full,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What went wrong.
    #[serde(skip)]
    pub kind: Kind,
    /// The code, which never changes its meaning.
    pub code: &'static str,
    /// A few words.
    pub title: &'static str,
    /// The status of HTTP.
    pub http: u16,
    /// The exit code of the command line.
    pub exit: u8,
    /// What it means.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// Returns the whole table, by code.
pub fn catalogue() -> &'static [Row] {
    CATALOGUE
}

/// Finds a row by its code, written `KR0404`, `kr0404`, `0404` or `404`.
pub fn find(code: &str) -> Option<&'static Row> {
    let digits = code.get(..2).filter(|start| start.eq_ignore_ascii_case("kr")).map_or(code, |_| &code[2..]);
    let fits = (3..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    CATALOGUE
        .iter()
        .find(|row| fits && row.code[2..].trim_start_matches('0') == digits.trim_start_matches('0'))
}

impl Kind {
    /// Returns the row of this kind.
    pub fn row(self) -> &'static Row {
        CATALOGUE.iter().find(|row| row.kind == self).expect("a test checks that every kind has a row")
    }
}

/// Something that went wrong, as it is told to a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// What kind of problem it is.
    pub kind: Kind,
    /// What happened this time.
    pub detail: String,
    /// The path of the request, if it had one.
    pub instance: Option<String>,
    /// After how many seconds trying again makes sense, if it does.
    pub retry_after: Option<u32>,
    /// More about it, for programs.
    pub extras: Map<String, Value>,
}

impl Problem {
    /// Makes a problem of this kind.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        let retry_after = match kind {
            Kind::Overloaded | Kind::TooFewReplicas | Kind::NotJoined | Kind::NotReady | Kind::NoRoute => {
                Some(1)
            }
            Kind::Full | Kind::Leaving | Kind::ClockOff | Kind::Damaged => Some(5),
            _ => None,
        };
        Problem { kind, detail: detail.into(), instance: None, retry_after, extras: Map::new() }
    }

    /// Says that the request is malformed.
    pub fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(Kind::BadRequest, detail)
    }

    /// Adds something for programs. The fields every problem has can not be replaced.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        if !COMMON.contains(&name) {
            self.extras.insert(name.into(), value.into());
        }
        self
    }

    /// Returns the code.
    pub fn code(&self) -> &'static str {
        self.kind.row().code
    }

    /// Returns the few words.
    pub fn title(&self) -> &'static str {
        self.kind.row().title
    }

    /// Returns the status of HTTP.
    pub fn status(&self) -> u16 {
        self.kind.row().http
    }

    /// Returns the exit code of the command line.
    pub fn exit(&self) -> u8 {
        self.kind.row().exit
    }

    /// Returns the problem as RFC 9457 writes it.
    pub fn document(&self) -> impl Serialize + '_ {
        let row = self.kind.row();
        Document {
            kind: format!("{TYPE_BASE}{}", row.code),
            title: row.title,
            status: row.http,
            detail: &self.detail,
            instance: self.instance.as_deref(),
            code: row.code,
            extras: &self.extras,
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.detail, self.code())
    }
}

impl std::error::Error for Problem {}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Problem {
        let kind = match &error {
            RequestError::Timeout => Kind::Timeout,
            RequestError::NotJoined => Kind::NotJoined,
            RequestError::AlreadyJoined => Kind::Conflict,
            RequestError::NoSeeds => Kind::BadRequest,
            RequestError::Refused(_) | RequestError::Stopped => Kind::Denied,
            RequestError::WrongCluster(_) => Kind::Misdirected,
            RequestError::FoundedApart(_) => Kind::FoundedApart,
            RequestError::Busy => Kind::Overloaded,
            RequestError::TooLarge { .. } => Kind::TooLarge,
            RequestError::TooManyHops | RequestError::NoRoute => Kind::NoRoute,
            RequestError::NotFound | RequestError::Unhandled => Kind::NotFound,
            RequestError::StillThere => Kind::Conflict,
            RequestError::Ended | RequestError::Gone => Kind::Leaving,
            RequestError::NoStore | RequestError::WrongOverlay => Kind::Unsupported,
            RequestError::Store(trouble) => kind_of(trouble),
        };
        let outcome = if error.is_outcome_unknown() { "unknown" } else { "none" };
        let problem = Problem::new(kind, error.to_string()).with("outcome", outcome);
        match error {
            RequestError::TooLarge { limit } => problem.with("limit", limit),
            RequestError::Store(trouble) => with_trouble(problem, trouble),
            _ => problem,
        }
    }
}

/// Returns which row tells of a trouble of the store.
fn kind_of(trouble: &Trouble) -> Kind {
    match trouble {
        Trouble::TooFewReplicas { .. } => Kind::TooFewReplicas,
        Trouble::Timeout { .. } => Kind::Timeout,
        Trouble::ConditionFailed(_) => Kind::ConditionFailed,
        Trouble::WrongKind => Kind::Conflict,
        Trouble::TooLarge { .. } => Kind::TooLarge,
        Trouble::OutOfRange | Trouble::BadRequest => Kind::BadRequest,
        Trouble::NoSpace { .. } => Kind::NoSpace,
        Trouble::ClockOff => Kind::ClockOff,
        Trouble::Busy => Kind::Overloaded,
        Trouble::Damaged => Kind::Damaged,
    }
}

/// Adds what programs want to know of a trouble of the store.
fn with_trouble(problem: Problem, trouble: Trouble) -> Problem {
    match trouble {
        Trouble::TooFewReplicas { acked, wanted, happened } => {
            problem.with("acked", acked).with("wanted", wanted).with("outcome", outcome(happened))
        }
        Trouble::Timeout { happened } | Trouble::NoSpace { happened } => {
            problem.with("outcome", outcome(happened))
        }
        Trouble::ConditionFailed(current) => {
            let current = (current != Version::ZERO).then(|| current.to_string());
            problem.with("current", current)
        }
        Trouble::TooLarge { limit } => problem.with("limit", limit),
        _ => problem,
    }
}

/// Returns the word for whether a write that failed happened.
pub fn outcome(happened: Happened) -> &'static str {
    match happened {
        Happened::No => "none",
        Happened::Some => "some",
        Happened::Unknown => "unknown",
    }
}

/// The fields every problem has.
const COMMON: [&str; 6] = ["type", "title", "status", "detail", "instance", "code"];

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    code: &'static str,
    #[serde(flatten)]
    extras: &'a Map<String, Value>,
}

const fn row(
    kind: Kind,
    (code, http, exit): (&'static str, u16, u8),
    title: &'static str,
    meaning: &'static str,
    remedy: &'static str,
) -> Row {
    Row { kind, code, title, http, exit, meaning, remedy }
}

#[rustfmt::skip]
const CATALOGUE: &[Row] = &[
    row(Kind::BadRequest, ("KR0400", 400, 2), "Malformed request",
        "Something in the request can not be read: a path, a parameter, a body, or an id that fits several nodes.",
        "Read the detail; it names the part that is wrong. Nothing was done."),
    row(Kind::Unauthenticated, ("KR0401", 401, 7), "Not authenticated",
        "The node wants to know who asks, and the request does not say so.",
        "Give a token or password. Nothing was done."),
    row(Kind::Denied, ("KR0403", 403, 7), "Not allowed",
        "The request is understood and refused: a web page of another site sent it, a permission is missing, the ring refused a join, or an application stopped a message.",
        "Read the detail for who refused and why. Asking again the same way will not help."),
    row(Kind::NotFound, ("KR0404", 404, 3), "Not found",
        "There is no such path, key, node or token, or no application for a message.",
        "Check the spelling; `kringle keys` lists the keys, `kringle ring` the nodes, and GET / the paths."),
    row(Kind::Method, ("KR0405", 405, 2), "Method not allowed",
        "The path exists, but does not answer to this method.",
        "Use one of the methods named in the header `Allow`."),
    row(Kind::Slow, ("KR0408", 408, 5), "Request came too slowly",
        "The body of the request did not arrive in time. Nothing was done.",
        "Send it again in one go. Bodies must come at 1 KiB per second or faster."),
    row(Kind::Conflict, ("KR0409", 409, 1), "Does not fit what is there",
        "The request is fine, but not in this state: a node that is in a ring is told to join, a node without a secret is asked for tokens, a single value is used as a set.",
        "Look at what is there (`kringle status`; for a key `kringle get --all KEY`), and change that first."),
    row(Kind::ConditionFailed, ("KR0412", 412, 6), "Condition failed",
        "What the request names as a condition is not so: the key is at another version, or has a value, or has none. Nothing was changed.",
        "Read the key again, which tells its version, and decide again."),
    row(Kind::TooLarge, ("KR0413", 413, 8), "Too large",
        "A key, message or value is larger than the limit. Nothing was done.",
        "Send less. The limit is in the problem, and in `kringle config show`."),
    row(Kind::Misdirected, ("KR0421", 421, 4), "Wrong host or cluster",
        "The request names another host or another cluster than this node's, or a node was given another value of a setting that all nodes of the cluster share. Host names that are not expected are refused, so that a web page cannot reach a node through a name of its own.",
        "Use the node's address, or allow the name with `--http-host NAME`. A node that joins needs the cluster's name and secret; leave the setting that the detail names out, and it takes the cluster's value."),
    row(Kind::FoundedApart, ("KR0422", 422, 4), "Stores founded apart",
        "The node that joins and the ring have stores that were founded separately, under two lineages. A store that has records, or is shared with other nodes, is never merged with another: writes would be lost. Nothing was changed.",
        "To move its data: start the node without --join and run `kringle export FILE`; start it with --join and --discard; run `kringle import FILE`."),
    row(Kind::Overloaded, ("KR0429", 429, 5), "Too much to do",
        "Too many requests are open at this node. This one was not begun.",
        "Try again after the time in `Retry-After`, with fewer requests at once."),
    row(Kind::Internal, ("KR0500", 500, 1), "Mistake in the node",
        "The node could not make an answer. That is a fault of Kringle.",
        "Report it, with the detail and the log around it."),
    row(Kind::Unsupported, ("KR0501", 501, 2), "Not supported",
        "This node, or the overlay it runs, can not do that.",
        "Look at `kringle version` and the manual for what it can do."),
    row(Kind::NoRoute, ("KR0502", 502, 4), "No way to the destination",
        "The message found no next hop that answers, or took too many hops. It was not delivered.",
        "Try again; the ring repairs itself. If it stays so, look at `kringle ring` and `kringle status`."),
    row(Kind::TooFewReplicas, ("KR0503", 503, 5), "Too few replicas acknowledged",
        "Fewer nodes than wanted took part. `outcome` says whether a write may survive.",
        "Read the value again before writing it again. Look at `kringle status` for nodes that are missing."),
    row(Kind::Timeout, ("KR0504", 504, 5), "No answer in time",
        "Nothing came back before the deadline. With `outcome` unknown, what was asked for may have happened all the same.",
        "Ask what the state is before asking again, or give a longer deadline."),
    row(Kind::NoSpace, ("KR0507", 507, 8), "No space left",
        "The node has no room for the value.",
        "Free some space, or add nodes."),
    row(Kind::NotJoined, ("KR0520", 503, 4), "Not part of a ring",
        "The node is still joining, or is cut off from its ring. Nothing was sent.",
        "Wait until GET /readyz answers 200. If that does not happen, look at `kringle status` and `kringle peers`."),
    row(Kind::Leaving, ("KR0521", 503, 4), "The node is ending",
        "The node has stopped or left its ring before the request was done. A message may have been delivered.",
        "Ask another node."),
    row(Kind::Full, ("KR0522", 503, 4), "Too many connections",
        "The node has as many client connections as it takes.",
        "Close some, or try again later."),
    row(Kind::ClockOff, ("KR0523", 503, 4), "A clock is wrong",
        "The clock of the node that should have done this is too far from those of the others. Nothing was written.",
        "Set the clock of that node, best with NTP. Others can be asked meanwhile."),
    row(Kind::Damaged, ("KR0524", 503, 4), "The copies are damaged",
        "Every copy that answered fails its checksum, so nothing is returned rather than something wrong.",
        "Try again when more nodes are up: a copy elsewhere repairs the damaged ones. If all are damaged, write the value again, and look at the disks."),
    row(Kind::NotReady, ("KR0525", 503, 4), "Not ready",
        "The node has yet to get the records of slots it is to hold. It passes requests on to the nodes that have them.",
        "Wait until GET /readyz answers 200. `kringle status` shows how many slots are still to come."),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_and_every_kind_is_there_once_and_in_order() {
        let codes: Vec<&str> = catalogue().iter().map(|row| row.code).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        let kinds: BTreeSet<Kind> = catalogue().iter().map(|row| row.kind).collect();
        assert_eq!(kinds.len(), codes.len());
        // `Full` is the last kind, so all kinds have a row if as many are there.
        assert_eq!(kinds.len(), Kind::Full as usize + 1);
        for row in catalogue() {
            assert!(row.code.len() == 6 && row.code.starts_with("KR0"), "{}", row.code);
            assert!(!row.title.ends_with('.') && row.meaning.ends_with('.') && row.remedy.ends_with('.'));
        }
    }

    #[test]
    fn the_status_is_that_of_the_code_where_http_has_one() {
        for row in catalogue() {
            let number: u16 = row.code[2..].parse().unwrap();
            assert_eq!(row.http, if number < 520 { number } else { 503 }, "{}", row.code);
        }
    }

    #[test]
    fn exit_codes_follow_the_table_of_the_command_line() {
        for row in catalogue() {
            let expected = match row.http {
                404 => 3,
                _ if row.code == "KR0503" => 5,
                502 | 503 | 421 | 422 => 4,
                408 | 429 | 504 => 5,
                412 => 6,
                401 | 403 => 7,
                413 | 507 => 8,
                400 | 405 | 501 => 2,
                _ => 1,
            };
            assert_eq!(row.exit, expected, "{}", row.code);
        }
    }

    #[test]
    fn a_code_is_found_however_it_is_written() {
        for text in ["KR0404", "kr0404", "0404", "404"] {
            assert_eq!(find(text).map(|row| row.kind), Some(Kind::NotFound), "{text}");
        }
        for text in ["", "KR", "4", "KR4040", "KR00404", "KR0999", "é404", "K", "-404"] {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_node_says_keeps_whether_anything_happened() {
        for (error, code, outcome) in [
            (RequestError::Timeout, "KR0504", "unknown"),
            (RequestError::NotJoined, "KR0520", "none"),
            (RequestError::Busy, "KR0429", "none"),
            (RequestError::TooLarge { limit: 9 }, "KR0413", "none"),
            (RequestError::NotFound, "KR0404", "none"),
            (RequestError::Unhandled, "KR0404", "none"),
            (RequestError::NoRoute, "KR0502", "none"),
            (RequestError::TooManyHops, "KR0502", "none"),
            (RequestError::Stopped, "KR0403", "none"),
            (RequestError::WrongCluster("base".into()), "KR0421", "none"),
            (RequestError::Refused("token".into()), "KR0403", "none"),
            (RequestError::FoundedApart("two".into()), "KR0422", "none"),
            (RequestError::Ended, "KR0521", "unknown"),
            (RequestError::Gone, "KR0521", "unknown"),
        ] {
            let problem = Problem::from(error);
            assert_eq!((problem.code(), &problem.extras["outcome"]), (code, &Value::from(outcome)));
        }
    }

    #[test]
    fn every_trouble_of_the_store_has_its_code_and_says_what_happened() {
        let few = |happened| Trouble::TooFewReplicas { acked: 1, wanted: 2, happened };
        for (trouble, code, outcome) in [
            (few(Happened::No), "KR0503", "none"),
            (few(Happened::Some), "KR0503", "some"),
            (few(Happened::Unknown), "KR0503", "unknown"),
            (Trouble::Timeout { happened: Happened::Unknown }, "KR0504", "unknown"),
            (Trouble::Timeout { happened: Happened::No }, "KR0504", "none"),
            (Trouble::ConditionFailed(Version(7)), "KR0412", "none"),
            (Trouble::WrongKind, "KR0409", "none"),
            (Trouble::TooLarge { limit: 9 }, "KR0413", "none"),
            (Trouble::OutOfRange, "KR0400", "none"),
            (Trouble::BadRequest, "KR0400", "none"),
            (Trouble::NoSpace { happened: Happened::No }, "KR0507", "none"),
            (Trouble::NoSpace { happened: Happened::Some }, "KR0507", "some"),
            (Trouble::ClockOff, "KR0523", "none"),
            (Trouble::Busy, "KR0429", "none"),
            (Trouble::Damaged, "KR0524", "none"),
        ] {
            let problem = Problem::from(RequestError::Store(trouble));
            assert_eq!(
                (problem.code(), &problem.extras["outcome"]),
                (code, &Value::from(outcome)),
                "{trouble:?}"
            );
        }
        let extra = |trouble, name: &str| Problem::from(RequestError::Store(trouble)).extras[name].clone();
        assert_eq!(extra(few(Happened::No), "acked"), 1);
        assert_eq!(extra(few(Happened::No), "wanted"), 2);
        assert_eq!(extra(Trouble::TooLarge { limit: 9 }, "limit"), 9);
        assert_eq!(extra(Trouble::ConditionFailed(Version(7)), "current"), "0000000000000007");
        assert_eq!(extra(Trouble::ConditionFailed(Version::ZERO), "current"), Value::Null);
    }

    #[test]
    fn a_problem_is_written_as_the_rfc_wants_it() {
        let problem = Problem::from(RequestError::TooLarge { limit: 9 }).with("status", 200);
        let problem = Problem { instance: Some("/v1/x".into()), ..problem };
        let text = String::from_utf8(crate::text::json(&problem.document()).unwrap()).unwrap();
        assert_eq!(
            text,
            "{\"type\":\"https://kringle.example/problems/KR0413\",\"title\":\"Too large\",\"status\":413,\
             \"detail\":\"the message is larger than 9 bytes\",\"instance\":\"/v1/x\",\"code\":\"KR0413\",\
             \"limit\":9,\"outcome\":\"none\"}"
        );
    }
}
