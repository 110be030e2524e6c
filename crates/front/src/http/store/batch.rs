//! Many operations in one request: a line of JSON for each, and a line of JSON for what came of it, in the same order.
//!
//! All lines are read before anything is done, so a mistake in one of them means that nothing was. Then operations run
//! at the same time, a window of them; those of one key run one after the other, as they stand.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes as Chunk};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use futures_util::{StreamExt, stream};
use kringle_core::store::op::{Action, Answer as Done, Ask, Change, Condition, Found};
use kringle_runtime::key;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::input::{self, Limits, Wish, level, limits, named, sized};
use super::output::{Counts, Member, Shown, changed, missing, text_of, unfitting};
use crate::errors::{Kind, Problem};
use crate::http::answer::Answer;
use crate::http::input::{Params, Span, body, cut, deadline};
use crate::http::router::Shared;
use crate::store::Data;
use crate::text::{self, Bytes};

/// Bytes a batch may have.
pub const BATCH_MAX: usize = 8 << 20;
/// Operations a batch may have.
pub const LINES_MAX: usize = 10_000;
/// Operations that run at the same time.
const WINDOW: usize = 64;
/// How long the whole body of a batch may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);

/// Parameters of a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Patience {
    /// For each operation, not for all of them.
    #[serde(alias = "deadline")]
    timeout: Option<Span>,
}

/// Does what the lines of the body ask for.
pub(in crate::http) async fn run(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Patience>,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    let deadline = deadline(params.timeout)?;
    let busy = || Problem::new(Kind::Overloaded, "too many batches are under way").with("outcome", "none");
    let turns = Arc::clone(&shared);
    let turn = async move { turns.batches.acquire().await.map(tokio::sync::SemaphorePermit::forget) };
    timeout(deadline, turn).await.map_err(|_| busy())?.map_err(|_| busy())?;
    let turn = Turn(Arc::clone(&shared));
    // A few clients that send a byte now and then would hold every turn.
    let text = timeout(ARRIVAL, body(&headers, from, BATCH_MAX, &shared.options)).await;
    let slow = || Problem::new(Kind::Slow, "the batch came too slowly; nothing was done");
    let lines = read(&text.map_err(|_| slow())??, limits)?;
    let answers = answers(data, lines, deadline);
    // The turn ends with the last answer, or with the client.
    let chunks = answers.map(move |line| {
        let _ = &turn;
        Ok::<Chunk, Infallible>(Chunk::from(line))
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(chunks)).into_response())
}

/// Gives a turn back when it is dropped.
struct Turn(Shared);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.batches.add_permits(1);
    }
}

/// Runs operations, those of one key in their order, and yields what came of each.
fn answers(
    data: Data,
    asks: Vec<Ask>,
    deadline: Duration,
) -> impl futures_util::Stream<Item = Vec<u8>> + Send {
    // For each key, the end of its last operation so far.
    let mut ends: HashMap<Vec<u8>, oneshot::Receiver<()>> = HashMap::new();
    let operations = asks.into_iter().map(move |ask| {
        let (done, end) = oneshot::channel::<()>();
        let before = ends.insert(ask.name.bytes.clone(), end);
        let data = data.clone();
        async move {
            if let Some(before) = before {
                // It fails when the other one ends, and that is what is waited for.
                let _ = before.await;
            }
            let line = line(&data, ask, deadline).await;
            drop(done);
            line
        }
    });
    stream::iter(operations).buffered(WINDOW)
}

async fn line(data: &Data, ask: Ask, deadline: Duration) -> Vec<u8> {
    let (name, kind) = (ask.name.clone(), Removing::of(&ask.action));
    let expires = matches!(ask.action, Action::Change { change: Change::Expire(_), .. });
    let done = input::ask(data, ask, deadline).await.map_err(|problem| match expires {
        true => super::expiry::absent(problem, &name),
        false => problem,
    });
    let written = done.and_then(|done| outcome(&done, kind)).and_then(|outcome| match outcome {
        Some(outcome) => Ok(outcome),
        None => Err(missing(&name)),
    });
    let mut line = match written {
        Ok(outcome) => text::json(&outcome),
        Err(problem) => text::json(&problem.document()),
    }
    .unwrap_or_default();
    line.push(b'\n');
    line
}

/// What came of an operation that was done.
#[derive(Serialize)]
struct Outcome {
    status: u16,
    #[serde(flatten)]
    what: What,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What {
    Value(Shown),
    Values {
        values: Vec<Member>,
    },
    Removed {
        existed: bool,
    },
    Changed {
        version: Option<String>,
        created: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        number: Option<i64>,
    },
}

/// What an operation removes, which decides how its answer says whether there was something.
#[derive(Clone, Copy)]
enum Removing {
    Nothing,
    Key,
    Member,
}

impl Removing {
    fn of(action: &Action) -> Removing {
        match action {
            Action::Change { change: Change::Delete, .. } => Removing::Key,
            Action::Remove { .. } => Removing::Member,
            _ => Removing::Nothing,
        }
    }
}

/// Makes a line of an answer; `None` if there is nothing under the key.
fn outcome(done: &Done, removing: Removing) -> Result<Option<Outcome>, Problem> {
    let counts = Counts::of(done);
    let (status, what) = match &done.found {
        Found::Value(None) => return Ok(None),
        Found::Value(Some(value)) => (200, What::Value(Shown::of(value))),
        Found::Members(values) if values.is_empty() => return Ok(None),
        Found::Members(values) => (200, What::Values { values: values.iter().map(Member::of).collect() }),
        Found::Changed { .. } => {
            let changed = changed(done)?;
            let version = text_of(changed.version);
            let what = match removing {
                Removing::Key => What::Removed { existed: !changed.created },
                Removing::Member => What::Removed { existed: changed.created },
                Removing::Nothing => {
                    What::Changed { version, created: changed.created, number: changed.number }
                }
            };
            (200, what)
        }
        _ => return Err(unfitting()),
    };
    Ok(Some(Outcome { status, what, counts }))
}

/// Reads all lines. Empty ones are skipped.
fn read(text: &[u8], limits: Limits) -> Result<Vec<Ask>, Problem> {
    let mut asks = Vec::new();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        if asks.len() == LINES_MAX {
            let detail = format!("a batch may have {LINES_MAX} operations; nothing was done");
            return Err(Problem::new(Kind::TooLarge, detail)
                .with("limit", LINES_MAX)
                .with("outcome", "none"));
        }
        asks.push(operation(line, limits).map_err(|problem| {
            let detail = format!("line {}: {}; nothing was done", at + 1, problem.detail);
            Problem { detail, ..problem }.with("line", at + 1).with("outcome", "none")
        })?);
    }
    Ok(asks)
}

/// One line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    op: Op,
    key: Bytes,
    value: Option<Bytes>,
    ttl: Option<Span>,
    by: Option<i64>,
    digest: Option<String>,
    if_version: Option<String>,
    #[serde(default)]
    if_absent: bool,
    level: Option<Wish>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Put,
    Get,
    Delete,
    Increment,
    Expire,
    Persist,
    Add,
    Remove,
    Values,
}

impl Op {
    /// Returns which parts a line of this kind may have besides its key and level.
    fn parts(self) -> &'static [&'static str] {
        match self {
            Op::Put => &["value", "ttl", "if_version", "if_absent"],
            Op::Delete | Op::Persist => &["if_version", "if_absent"],
            Op::Increment => &["by", "if_version", "if_absent"],
            Op::Expire => &["ttl", "if_version", "if_absent"],
            Op::Add => &["value", "ttl"],
            Op::Remove => &["value", "digest"],
            Op::Get | Op::Values => &[],
        }
    }
}

fn operation(line: &[u8], limits: Limits) -> Result<Ask, Problem> {
    let line: Line = serde_json::from_slice(line).map_err(|error| {
        // It is always line 1 of its own text, so the place it names says nothing.
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        Problem::bad(format!("it can not be read: {}", cut(text)))
    })?;
    let given = [
        ("value", line.value.is_some()),
        ("ttl", line.ttl.is_some()),
        ("by", line.by.is_some()),
        ("digest", line.digest.is_some()),
        ("if_version", line.if_version.is_some()),
        ("if_absent", line.if_absent),
    ];
    if let Some((part, _)) = given.iter().find(|(part, given)| *given && !line.op.parts().contains(part)) {
        return Err(Problem::bad(format!("{} has no {part}", op_name(line.op))));
    }
    let bytes = |bytes: Bytes| bytes.into_bytes().ok_or_else(|| Problem::bad("base64 has a mistake"));
    let value = |value: Option<Bytes>| {
        let value = value.ok_or_else(|| Problem::bad(format!("{} needs a value", op_name(line.op))))?;
        sized(bytes(value)?, limits)
    };
    let condition = match (line.if_version, line.if_absent) {
        (None, false) => Condition::Always,
        (None, true) => Condition::Absent,
        (Some(version), false) => Condition::Version(input::version(&version)?),
        (Some(_), true) => return Err(Problem::bad("if_version and if_absent exclude each other")),
    };
    let ttl = input::ttl(line.ttl)?;
    let change = |change| Action::Change { change, condition };
    let action = match line.op {
        Op::Get => Action::Get,
        Op::Values => Action::Members,
        Op::Put => change(Change::Put { value: value(line.value)?, ttl }),
        Op::Delete => change(Change::Delete),
        Op::Increment => change(Change::Increment(line.by.unwrap_or(1))),
        Op::Expire if ttl.is_none() => {
            return Err(Problem::bad("expire needs a ttl; persist lets a value stay"));
        }
        Op::Expire => change(Change::Expire(ttl)),
        Op::Persist => change(Change::Expire(None)),
        Op::Add => {
            let value = value(line.value)?;
            Action::Add { digest: key::digest_of(&value), value, ttl }
        }
        Op::Remove => match (line.value, line.digest) {
            (Some(value), None) => Action::Remove { digest: key::digest_of(bytes(value)?) },
            (None, Some(digest)) => Action::Remove { digest: input::digest(digest.as_bytes())? },
            _ => return Err(Problem::bad("remove needs a value or its digest")),
        },
    };
    Ok(Ask { name: named(bytes(line.key)?, limits)?, action, level: level(line.level) })
}

fn op_name(op: Op) -> String {
    serde_json::to_value(op)
        .ok()
        .and_then(|value| Value::as_str(&value).map(String::from))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kringle_core::store::op::{Digest, Level};
    use kringle_core::store::version::Version;

    use super::*;

    const LIMITS: Limits = Limits { key: 1024, value: 100, slots: 4096 };

    fn one(line: &str) -> Result<Ask, Problem> {
        operation(line.as_bytes(), LIMITS)
    }

    #[test]
    fn every_operation_is_read() {
        let hour = Some(Duration::from_secs(3600));
        let always = Condition::Always;
        for (line, action) in [
            (r#"{"op":"get","key":"k"}"#, Action::Get),
            (r#"{"op":"values","key":"k"}"#, Action::Members),
            (
                r#"{"op":"put","key":"k","value":"","ttl":"1h"}"#,
                Action::Change { change: Change::Put { value: vec![], ttl: hour }, condition: always },
            ),
            (
                r#"{"op":"put","key":"k","value":{"base64":"/w=="},"if_absent":true}"#,
                Action::Change {
                    change: Change::Put { value: vec![0xff], ttl: None },
                    condition: Condition::Absent,
                },
            ),
            (
                r#"{"op":"delete","key":"k","if_version":"0000000000000007"}"#,
                Action::Change { change: Change::Delete, condition: Condition::Version(Version(7)) },
            ),
            (
                r#"{"op":"increment","key":"k","by":-3}"#,
                Action::Change { change: Change::Increment(-3), condition: always },
            ),
            (
                r#"{"op":"expire","key":"k","ttl":"1h"}"#,
                Action::Change { change: Change::Expire(hour), condition: always },
            ),
            (
                r#"{"op":"persist","key":"k"}"#,
                Action::Change { change: Change::Expire(None), condition: always },
            ),
            (
                r#"{"op":"add","key":"k","value":"a","ttl":"1h"}"#,
                Action::Add { digest: key::digest_of("a"), value: b"a".to_vec(), ttl: hour },
            ),
            (r#"{"op":"remove","key":"k","value":"a"}"#, Action::Remove { digest: key::digest_of("a") }),
            (
                r#"{"op":"remove","key":"k","digest":"00000000000000000000000000000001"}"#,
                Action::Remove { digest: Digest(1_u128.to_be_bytes()) },
            ),
        ] {
            assert_eq!(
                one(line),
                Ok(Ask { name: key::name_of("k"), action, level: Level::Quorum }),
                "{line}"
            );
        }
        assert_eq!(one(r#"{"op":"get","key":{"base64":"/w=="},"level":"one"}"#).unwrap().level, Level::One);
    }

    #[test]
    fn lines_that_make_no_sense_are_refused_by_their_number() {
        for line in [
            "x",
            "[]",
            "{}",
            r#"{"op":"fly","key":"k"}"#,
            r#"{"op":"get"}"#,
            r#"{"op":"get","key":""}"#,
            r#"{"op":"get","key":7}"#,
            r#"{"op":"get","key":{"base64":"*"}}"#,
            r#"{"op":"get","key":{"base32":"x"}}"#,
            r#"{"op":"get","key":"k","value":"v"}"#,
            r#"{"op":"get","key":"k","colour":"v"}"#,
            r#"{"op":"put","key":"k"}"#,
            r#"{"op":"put","key":"k","value":"v","ttl":"0s"}"#,
            r#"{"op":"put","key":"k","value":"v","ttl":"10 parsecs"}"#,
            r#"{"op":"put","key":"k","value":"v","if_absent":true,"if_version":"0000000000000007"}"#,
            r#"{"op":"put","key":"k","value":"v","if_version":"seven"}"#,
            r#"{"op":"put","key":"k","value":"v","level":"two"}"#,
            r#"{"op":"increment","key":"k","by":1e30}"#,
            r#"{"op":"expire","key":"k"}"#,
            r#"{"op":"add","key":"k","value":"v","if_absent":true}"#,
            r#"{"op":"remove","key":"k"}"#,
            r#"{"op":"remove","key":"k","digest":"x"}"#,
        ] {
            let batch = format!("\n{{\"op\":\"get\",\"key\":\"fine\"}}\n{line}\n");
            let problem = read(batch.as_bytes(), LIMITS).unwrap_err();
            assert_eq!((problem.code(), &problem.extras["line"]), ("KR0400", &3.into()), "{line}");
            assert!(problem.detail.starts_with("line 3: ") && problem.detail.ends_with("nothing was done"));
        }
        let large = format!(r#"{{"op":"put","key":"k","value":"{}"}}"#, "x".repeat(101));
        assert_eq!(one(&large).unwrap_err().code(), "KR0413");
        let many = "{\"op\":\"get\",\"key\":\"k\"}\n".repeat(LINES_MAX);
        assert_eq!(read(many.as_bytes(), LIMITS).map(|asks| asks.len()), Ok(LINES_MAX));
        let more = many + "{\"op\":\"get\",\"key\":\"k\"}";
        assert_eq!(read(more.as_bytes(), LIMITS).unwrap_err().code(), "KR0413");
    }
}
