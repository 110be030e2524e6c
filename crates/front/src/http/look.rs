//! Looking at nodes: this one, another one, all of them.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use kringle_core::id::NodeId;
use kringle_runtime::Handle;
use kringle_runtime::report::{Entry, Peer, Summary, Survey, Tables};
use serde::{Deserialize, Serialize};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout};

use super::answer::{Answer, document};
use super::input::{Params, Span, Within, ask, cut, deadline, segment};
use super::router::Shared;
use crate::errors::{Kind, Problem};

/// How many nodes a survey asks if the request does not say.
pub const SURVEY: usize = 1024;
/// How many nodes a survey asks at most.
pub const SURVEY_MAX: usize = 16_384;
/// How many ids an ambiguous one is answered with.
const CANDIDATES_MAX: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Around {
    limit: Option<usize>,
    local: Option<bool>,
    deadline: Option<Span>,
}

impl Around {
    fn limit(&self) -> Result<usize, Problem> {
        match self.limit.unwrap_or(SURVEY) {
            limit @ 1..=SURVEY_MAX => Ok(limit),
            _ => Err(Problem::bad(format!("limit must be 1 to {SURVEY_MAX}"))),
        }
    }
}

/// Tells about this node, and about the ring unless it should stay local.
pub(super) async fn status(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(around): Params<Around>,
) -> Answer {
    #[derive(Serialize)]
    struct Status {
        #[serde(rename = "self")]
        this: Summary,
        survey: Option<Survey>,
    }
    let (limit, deadline) = (around.limit()?, deadline(around.deadline)?);
    let this = ask(deadline, node.summary()).await?;
    let survey = match around.local {
        Some(true) => None,
        _ => Some(survey(&shared, &node, limit, deadline).await?),
    };
    document("kringle.status/1", Status { this, survey })
}

/// Tells about all nodes of the ring, in ring order.
pub(super) async fn ring(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(around): Params<Around>,
) -> Answer {
    #[derive(Serialize)]
    struct Ring {
        survey: Survey,
    }
    let survey = survey(&shared, &node, around.limit()?, deadline(around.deadline)?).await?;
    document("kringle.ring/1", Ring { survey })
}

/// Says which properties of a Chord ring hold.
pub(super) async fn check(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(around): Params<Around>,
) -> Answer {
    let (limit, wait) = (around.limit()?, deadline(around.deadline)?);
    let (_turn, left) = turn(&shared, wait).await?;
    let check = ask(left, node.check_ring(limit, left)).await?;
    document("kringle.ring-check/1", check)
}

/// Lists the nodes of the ring.
pub(super) async fn nodes(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(around): Params<Around>,
) -> Answer {
    #[derive(Serialize)]
    struct Node {
        id: String,
        name: Option<String>,
    }
    #[derive(Serialize)]
    struct Nodes {
        nodes: Vec<Node>,
        silent: Vec<String>,
        cut: bool,
    }
    let Survey { nodes, silent, cut, .. } =
        survey(&shared, &node, around.limit()?, deadline(around.deadline)?).await?;
    let nodes = nodes.into_iter().map(|node| Node { id: node.id, name: node.name }).collect();
    document("kringle.nodes/1", Nodes { nodes, silent, cut })
}

/// Tells about everybody this node knows.
pub(super) async fn own_peers(
    Extension(node): Extension<Handle>,
    Params(Within { deadline: wish }): Params<Within>,
) -> Answer {
    let peers = ask(deadline(wish)?, node.peers()).await?;
    peers_document(node.id(), peers)
}

/// Tells about one node.
pub(super) async fn node(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(Within { deadline: wish }): Params<Within>,
    uri: Uri,
) -> Answer {
    #[derive(Serialize)]
    struct One {
        node: Summary,
    }
    let deadline = deadline(wish)?;
    let id = resolve(&shared, &node, &uri, deadline).await?;
    document("kringle.node/1", One { node: ask(deadline, node.summary_of(id, deadline)).await? })
}

/// Tells about everybody one node knows.
pub(super) async fn peers(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(Within { deadline: wish }): Params<Within>,
    uri: Uri,
) -> Answer {
    let deadline = deadline(wish)?;
    let id = resolve(&shared, &node, &uri, deadline).await?;
    peers_document(id, ask(deadline, node.peers_of(id, deadline)).await?)
}

/// Tells about the tables of one node.
pub(super) async fn table(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(Within { deadline: wish }): Params<Within>,
    uri: Uri,
) -> Answer {
    #[derive(Serialize)]
    struct Table {
        tables: Tables,
    }
    let tables = tables(&shared, &node, wish, &uri).await?;
    document("kringle.tables/1", Table { tables })
}

/// Tells about the leaf set of one node.
pub(super) async fn leaf_set(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(Within { deadline: wish }): Params<Within>,
    uri: Uri,
) -> Answer {
    #[derive(Serialize)]
    struct LeafSet {
        id: String,
        left: Vec<Entry>,
        right: Vec<Entry>,
    }
    let Tables { id, left, right, .. } = tables(&shared, &node, wish, &uri).await?;
    document("kringle.leafset/1", LeafSet { id, left, right })
}

/// Tells about the neighbourhood set of one node.
pub(super) async fn neighbours(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(Within { deadline: wish }): Params<Within>,
    uri: Uri,
) -> Answer {
    #[derive(Serialize)]
    struct Neighbours {
        id: String,
        neighbours: Vec<Entry>,
    }
    let Tables { id, neighbours, .. } = tables(&shared, &node, wish, &uri).await?;
    document("kringle.neighbours/1", Neighbours { id, neighbours })
}

fn peers_document(id: NodeId, peers: Vec<Peer>) -> Answer {
    #[derive(Serialize)]
    struct Peers {
        id: String,
        peers: Vec<Peer>,
    }
    document("kringle.peers/1", Peers { id: id.to_string(), peers })
}

async fn tables(shared: &Shared, node: &Handle, wish: Option<Span>, uri: &Uri) -> Result<Tables, Problem> {
    let deadline = deadline(wish)?;
    let id = resolve(shared, node, uri, deadline).await?;
    ask(deadline, node.tables_of(id, deadline)).await
}

/// Asks around the ring. A few surveys run at a time; others wait for their turn, within their deadline.
async fn survey(shared: &Shared, node: &Handle, limit: usize, wait: Duration) -> Result<Survey, Problem> {
    let (_turn, left) = turn(shared, wait).await?;
    ask(left, node.survey(limit, left)).await
}

/// Waits for a turn to ask around the ring, and says how much time is left.
async fn turn(shared: &Shared, wait: Duration) -> Result<(SemaphorePermit<'_>, Duration), Problem> {
    let end = Instant::now() + wait;
    let busy = || Problem::new(Kind::Overloaded, "too many surveys of the ring are under way");
    let turn = timeout(wait, shared.surveys.acquire()).await.map_err(|_| busy())?;
    Ok((turn.map_err(|_| busy())?, end.saturating_duration_since(Instant::now())))
}

/// Finds the node that the third segment of the path names: `self`, an id, the start of one, or a name.
pub(super) async fn resolve(
    shared: &Shared,
    node: &Handle,
    uri: &Uri,
    deadline: Duration,
) -> Result<NodeId, Problem> {
    let Ok(text) = String::from_utf8(segment(uri, 2)) else {
        return Err(Problem::bad("a node is named by its id, the start of its id, or its name"));
    };
    if text == "self" {
        return Ok(node.id());
    }
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let own = ask(deadline, node.summary()).await?;
    if own.name.as_deref() == Some(&text) {
        return Ok(node.id());
    }
    let peers = ask(deadline, node.peers()).await?;
    let mut ids: Vec<String> = peers.into_iter().map(|peer| peer.id).chain([own.id]).collect();
    if let Some(id) = pick(&text, &ids) {
        return Ok(id);
    }
    let survey = survey(shared, node, SURVEY, deadline).await?;
    let named = survey.nodes.iter().filter(|node| node.name.as_deref() == Some(&text));
    let named: Vec<String> = named.map(|node| node.id.clone()).collect();
    ids.extend(survey.nodes.iter().map(|node| node.id.clone()).chain(survey.silent));
    ids.retain(|id| starts_with(id, &text));
    choose(&text, if named.is_empty() { ids } else { named })
}

/// Returns the only id that begins with this text.
fn pick(text: &str, ids: &[String]) -> Option<NodeId> {
    let mut fitting = ids.iter().filter(|id| starts_with(id, text));
    let first = fitting.next()?;
    fitting.next().is_none().then(|| first.parse().ok())?
}

fn starts_with(id: &str, text: &str) -> bool {
    !text.is_empty() && id.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
}

fn choose(text: &str, mut ids: Vec<String>) -> Result<NodeId, Problem> {
    ids.sort();
    ids.dedup();
    match ids.as_slice() {
        [id] => id.parse().map_err(|_| Problem::new(Kind::NotFound, "there is no such node")),
        [] => Err(Problem::new(Kind::NotFound, format!("no node is called {:?}", cut(text)))),
        _ => {
            let detail = format!("{} nodes fit {:?}; write more of the id", ids.len(), cut(text));
            ids.truncate(CANDIDATES_MAX);
            Err(Problem::bad(detail).with("candidates", ids))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(starts: &[&str]) -> Vec<String> {
        starts.iter().map(|start| format!("{start:0<32}")).collect()
    }

    #[test]
    fn the_start_of_an_id_is_enough_if_one_node_fits() {
        let ids = ids(&["ab12", "ab34", "cd"]);
        assert_eq!(pick("c", &ids).unwrap().to_string(), ids[2]);
        assert_eq!(pick("AB1", &ids).unwrap().to_string(), ids[0]);
        for text in ["ab", "", "ef", "cdx", "\u{e9}"] {
            assert_eq!(pick(text, &ids), None, "{text}");
        }
    }

    #[test]
    fn an_ambiguous_start_names_the_candidates() {
        let problem = choose("ab", ids(&["ab34", "ab12", "ab12"])).unwrap_err();
        assert_eq!(problem.code(), "KR0400");
        assert_eq!(problem.extras["candidates"], serde_json::json!(ids(&["ab12", "ab34"])));
        assert_eq!(choose("x", Vec::new()).unwrap_err().code(), "KR0404");
    }
}
