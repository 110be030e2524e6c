//! Running a node: joining, ending, tokens, settings, health.

use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use kringle_runtime::readiness::Lack;
use kringle_runtime::report::{TokenReport, What};
use kringle_runtime::{Handle, Seed};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use super::answer::{Answer, accepted, document};
use super::input::{DEADLINE, Params, Span, Within, ask, cut, deadline, json, segment};
use super::router::Shared;
use crate::errors::{Kind, Problem};

/// How many seeds one request may name.
const SEEDS_MAX: usize = 64;
/// What an answer gets to leave before its node ends.
const PARTING: Duration = Duration::from_millis(100);
/// How long nodes have to report what they hold.
const RECOVERY: Duration = Duration::from_secs(10);
/// How long a token lasts if the request does not say.
const TOKEN_LIFETIME: Duration = Duration::from_secs(3600);
/// How long a token may last.
const TOKEN_LIFETIME_MAX: Duration = Duration::from_secs(30 * 86_400);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Join {
    seeds: Vec<String>,
}

/// Tells the node to join a ring, and waits for the outcome. If there is none in time, the node goes on trying.
pub(super) async fn join(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(Within { deadline: wish }): Params<Within>,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    #[derive(Serialize)]
    struct Joined {
        node: String,
        cluster: String,
    }
    let deadline = deadline(wish)?;
    let Join { seeds } = json(&headers, from, &shared.options).await?;
    if seeds.is_empty() || seeds.len() > SEEDS_MAX {
        return Err(Problem::bad(format!("seeds must name 1 to {SEEDS_MAX} nodes")));
    }
    let seeds: Result<Vec<Seed>, Problem> = seeds
        .iter()
        .map(|seed| seed.parse().map_err(|_| Problem::bad(format!("{:?} is not HOST:PORT", cut(seed)))))
        .collect();
    let mut events = node.events();
    let mut reason = String::from("no seed has answered yet");
    let outcome = timeout(deadline, async {
        let mut joining = pin!(node.join(seeds?));
        loop {
            tokio::select! {
                joined = &mut joining => return joined.map_err(Problem::from),
                Some(event) = events.next() => if let What::Refused { reason: told, .. } = &event.what {
                    reason.clone_from(told);
                },
            }
        }
    });
    match outcome.await {
        Ok(joined) => joined?,
        Err(_) => {
            let detail = format!("the node has not joined yet, and goes on trying: {reason}");
            return Err(Problem::new(Kind::Timeout, detail).with("outcome", "unknown"));
        }
    }
    let (id, cluster) = (node.id().to_string(), node.info().cluster.clone());
    document("kringle.joined/1", Joined { node: id, cluster })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Copies {
    copies: u8,
}

/// Tells how many copies of a record the cluster keeps.
pub(super) async fn copies(Extension(node): Extension<Handle>) -> Answer {
    #[derive(Serialize)]
    struct Kept {
        copies: u8,
    }
    document("kringle.copies/1", Kept { copies: ask(DEADLINE, node.copies()).await? })
}

/// Changes how many copies of a record the cluster keeps.
pub(super) async fn set_copies(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    let Copies { copies: count } = json(&headers, from, &shared.options).await?;
    if count == 0 {
        return Err(Problem::bad("copies must be 1 to 15"));
    }
    let changed = ask(DEADLINE, node.set_copies(count)).await?;
    changed.map_err(|rule| Problem::bad(format!("{count} copies are too many for this cluster: {rule}")))?;
    copies(Extension(node)).await
}

/// Tells the node to say goodbye and end.
pub(super) async fn leave(Extension(node): Extension<Handle>) -> Answer {
    tokio::spawn(async move {
        sleep(PARTING).await;
        if let Err(error) = node.leave().await {
            tracing::warn!(%error, "a client told this node to leave, and it did not");
        }
    });
    accepted("leave")
}

/// Tells the node to end without a goodbye.
pub(super) async fn stop(Extension(node): Extension<Handle>) -> Answer {
    tokio::spawn(async move {
        sleep(PARTING).await;
        node.stop().await;
    });
    accepted("stop")
}

/// Lists the join tokens this node has made.
pub(super) async fn tokens(
    Extension(node): Extension<Handle>,
    Params(Within { deadline: wish }): Params<Within>,
) -> Answer {
    #[derive(Serialize)]
    struct Tokens {
        tokens: Vec<TokenReport>,
    }
    let tokens = ask(deadline(wish)?, node.list_tokens()).await?;
    document("kringle.tokens/1", Tokens { tokens })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewToken {
    lifetime: Option<Span>,
}

/// Makes a join token.
pub(super) async fn new_token(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    #[derive(Serialize)]
    struct Token {
        token: String,
        expires: u64,
    }
    let NewToken { lifetime } = json(&headers, from, &shared.options).await?;
    let lifetime = lifetime.map_or(TOKEN_LIFETIME, |Span(lifetime)| lifetime);
    if lifetime < Duration::from_secs(1) || lifetime > TOKEN_LIFETIME_MAX {
        return Err(Problem::bad("lifetime must be 1s to 30d"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let token = ask(DEADLINE, node.issue_token(lifetime)).await?;
    let token = token.map_err(|reason| Problem::new(Kind::Conflict, reason))?;
    let document = document("kringle.token/1", Token { token, expires: (now + lifetime).as_secs() })?;
    Ok((StatusCode::CREATED, document).into_response())
}

/// Revokes a join token.
pub(super) async fn revoke_token(Extension(node): Extension<Handle>, uri: Uri) -> Answer {
    let none = || Problem::new(Kind::NotFound, "this node has made no such token");
    let id = String::from_utf8(segment(&uri, 2)).map_err(|_| none())?;
    match ask(DEADLINE, node.revoke_token(id)).await? {
        Ok(true) => Ok(StatusCode::NO_CONTENT.into_response()),
        Ok(false) => Err(none()),
        Err(reason) => Err(Problem::new(Kind::Conflict, reason)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    rate: Option<u64>,
}

/// Begins to read everything on the disk.
pub(super) async fn start_scrub(
    Extension(node): Extension<Handle>,
    Params(Rate { rate }): Params<Rate>,
) -> Answer {
    if rate == Some(0) {
        return Err(Problem::bad("rate must be at least 1 byte per second"));
    }
    let told = ask(DEADLINE, node.scrub(rate)).await?;
    let scrub = told.map_err(|reason| Problem::new(Kind::Conflict, reason))?.ok_or_else(no_disk)?;
    Ok((StatusCode::ACCEPTED, document("kringle.scrub/1", scrub)?).into_response())
}

/// Tells how far that has come, or what the last one found.
pub(super) async fn scrub(Extension(node): Extension<Handle>) -> Answer {
    let scrub = ask(DEADLINE, node.scrub_report()).await?.ok_or_else(no_disk)?;
    document("kringle.scrub/1", scrub)
}

fn no_disk() -> Problem {
    Problem::new(Kind::Unsupported, "this node stores nothing on a disk; start it with --data")
}

/// Tells the settings this node was started with.
pub(super) async fn config(State(shared): State<Shared>) -> Answer {
    let config = match shared.options.config.clone() {
        Value::Object(mut fields) => {
            fields.remove("schema");
            fields
        }
        Value::Null => Map::new(),
        other => Map::from_iter([("config".to_string(), other)]),
    };
    document("kringle.config/1", config)
}

/// Says that the process answers.
pub(super) async fn live() -> Answer {
    Ok("ok\n".into_response())
}

/// Says whether the node can do its part, and if not, why: every cause is its own.
pub(super) async fn ready(Extension(node): Extension<Handle>) -> Answer {
    let causes = ask(DEADLINE, node.causes()).await?;
    let Some(first) = causes.first() else { return Ok("ready\n".into_response()) };
    let kind = match first.lack {
        Lack::Ring => Kind::NotJoined,
        Lack::Disk => Kind::NoSpace,
        Lack::Clock => Kind::ClockOff,
        Lack::Slots => Kind::NotReady,
        Lack::Quorum => Kind::TooFewReplicas,
    };
    let status = ask(DEADLINE, node.summary()).await?.status;
    let detail: Vec<&str> = causes.iter().map(|cause| cause.text.as_str()).collect();
    let list = serde_json::to_value(&causes).unwrap_or(Value::Null);
    Err(Problem::new(kind, detail.join("; ")).with("node_status", status).with("causes", list))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Retire {
    id: String,
}

/// Retires a node that will not come back.
pub(super) async fn retire(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    let Retire { id } = json(&headers, from, &shared.options).await?;
    let wrong = || Problem::bad(format!("{:?} is not the id of a node: 32 hex digits", cut(&id)));
    ask(DEADLINE, node.retire(id.parse().map_err(|_| wrong())?)).await?;
    #[derive(Serialize)]
    struct Retired {
        retired: String,
    }
    document("kringle.retired/1", Retired { retired: id })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recover {
    #[serde(default)]
    confirm: bool,
}

/// Says what a recovery would do, or does it.
pub(super) async fn recover(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    #[derive(Serialize)]
    struct Plan {
        confirmed: bool,
        slots: u32,
        healthy: u32,
        rebuilt: u32,
        records: u64,
        empty: u32,
        missing: Vec<String>,
        nodes: Vec<String>,
        silent: Vec<String>,
    }
    let Recover { confirm } = json(&headers, from, &shared.options).await?;
    let plan = ask(RECOVERY, node.recover(confirm)).await?;
    let texts = |ids: &[kringle_core::id::NodeId]| ids.iter().map(ToString::to_string).collect();
    let plan = Plan {
        confirmed: plan.confirmed,
        slots: plan.slots,
        healthy: plan.healthy,
        rebuilt: plan.rebuilt,
        records: plan.records,
        empty: plan.empty,
        missing: texts(&plan.missing),
        nodes: texts(&plan.nodes),
        silent: texts(&plan.silent),
    };
    document("kringle.recovery/1", plan)
}

/// Returns the counters.
pub(super) async fn metrics(Extension(node): Extension<Handle>) -> Answer {
    let text = ask(DEADLINE, node.metrics()).await?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}
