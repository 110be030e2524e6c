//! Which path does what.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OnceCell, Semaphore, watch};

use super::answer::{Answer, finish};
use super::guard::Guard;
use super::store::input::Limits;
use super::store::{batch, expiry, keys, set, value};
use super::{Options, admin, events, look, messages};
use crate::errors::{Kind, Problem};
use crate::target::Target;

/// How many surveys of the ring run at a time.
const SURVEYS: usize = 4;
/// How many batches run at a time. Each holds its operations in memory, and the answers of a window of them.
const BATCHES: usize = 8;

/// What all handlers share.
pub(super) type Shared = Arc<Common>;

pub(super) struct Common {
    pub(super) options: Options,
    pub(super) stop: watch::Receiver<()>,
    pub(super) surveys: Semaphore,
    pub(super) batches: Semaphore,
    /// What the node takes, once it was asked.
    pub(super) limits: OnceCell<Limits>,
}

/// Turns requests into answers.
#[derive(Clone)]
pub(super) struct Desk {
    target: Target,
    guard: Arc<Guard>,
    router: TowerToHyperService<Router>,
}

impl Desk {
    pub(super) fn new(target: Target, guard: Guard, options: Options, stop: watch::Receiver<()>) -> Desk {
        let (surveys, batches) = (Semaphore::new(SURVEYS), Semaphore::new(BATCHES));
        let shared = Arc::new(Common { options, stop, surveys, batches, limits: OnceCell::new() });
        let router = TowerToHyperService::new(router().with_state(shared));
        Desk { target, guard: Arc::new(guard), router }
    }

    /// Answers one request. The node is asked for once, so the whole answer is of one node.
    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response
    where
        B: hyper::body::Body<Data = axum::body::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (node, path) = (self.target.get(), request.uri().path().to_owned());
        let id = node.id();
        let response = match self.guard.check(&request) {
            Err(problem) => problem.into_response(),
            Ok(()) => {
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(self.target.data(node.clone()));
                request.extensions_mut().insert(node);
                let answer: Result<Response, Infallible> = self.router.call(request).await;
                answer.unwrap_or_else(|never| match never {})
            }
        };
        finish(response, &path, id)
    }
}

fn router() -> Router<Shared> {
    Router::new()
        .route("/", get(index))
        .route("/livez", get(admin::live))
        .route("/readyz", get(admin::ready))
        .route("/metrics", get(admin::metrics))
        .route("/v1/status", get(look::status))
        .route("/v1/ring", get(look::ring))
        .route("/v1/ring/check", get(look::check))
        .route("/v1/peers", get(look::own_peers))
        .route("/v1/nodes", get(look::nodes))
        .route("/v1/nodes/{id}", get(look::node))
        .route("/v1/nodes/{id}/table", get(look::table))
        .route("/v1/nodes/{id}/leafset", get(look::leaf_set))
        .route("/v1/nodes/{id}/neighbours", get(look::neighbours))
        .route("/v1/nodes/{id}/peers", get(look::peers))
        .route("/v1/nodes/{id}/send", post(messages::send))
        .route("/v1/lookup", get(messages::lookup))
        .route("/v1/lookup/", get(messages::lookup))
        .route("/v1/lookup/{key}", get(messages::lookup))
        .route("/v1/route", post(messages::route))
        .route("/v1/route/", post(messages::route))
        .route("/v1/route/{key}", post(messages::route))
        .merge(store())
        .route("/v1/cluster/join", post(admin::join))
        .route("/v1/cluster/copies", get(admin::copies).post(admin::set_copies))
        .route("/v1/cluster/retire", post(admin::retire))
        .route("/v1/cluster/recover", post(admin::recover))
        .route("/v1/node/leave", post(admin::leave))
        .route("/v1/node/stop", post(admin::stop))
        .route("/v1/events", get(events::follow))
        .route("/v1/tokens", get(admin::tokens).post(admin::new_token))
        .route("/v1/tokens/{id}", delete(admin::revoke_token))
        .route("/v1/scrub", get(admin::scrub).post(admin::start_scrub))
        .route("/v1/config", get(admin::config))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
}

/// The paths of the store. An empty key has paths too, so that it is told to be empty.
fn store() -> Router<Shared> {
    let value = || get(value::get).put(value::put).delete(value::delete);
    let set = || get(set::list).post(set::add);
    let one = || delete(set::remove);
    let expiry = || get(expiry::show).put(expiry::set).delete(expiry::clear);
    let increment = || post(expiry::increment);
    let both = |router: Router<Shared>, rest: &str, method: &dyn Fn() -> MethodRouter<Shared>| {
        router.route(&format!("/v1/kv/{{key}}{rest}"), method()).route(&format!("/v1/kv/{rest}"), method())
    };
    let router = Router::new()
        .route("/v1/kv", value())
        .route("/v1/batch", post(batch::run))
        .route("/v1/keys", get(keys::list))
        .route("/v1/place", get(keys::place))
        .route("/v1/place/", get(keys::place))
        .route("/v1/place/{key}", get(keys::place));
    let router = both(router, "", &value);
    let router = both(router, "/values", &set);
    let router = both(router, "/values/{digest}", &one);
    let router = both(router, "/ttl", &expiry);
    both(router, "/increment", &increment)
}

async fn no_such_path() -> Problem {
    Problem::new(Kind::NotFound, "there is no such path; GET / lists them")
}

async fn no_such_method() -> Problem {
    Problem::new(Kind::Method, "this path does not answer to this method")
}

async fn index() -> Answer {
    Ok(INDEX.into_response())
}

const INDEX: &str = "\
This is a Kringle node. Everything below /v1 is JSON; problems are application/problem+json (RFC 9457).

GET    /v1/status               this node and its ring       ?local=true ?limit=1024 ?deadline=2s
GET    /v1/ring                 the nodes in ring order      ?limit= ?deadline=
GET    /v1/ring/check           Chord: which properties of a ring hold ?limit= ?deadline=
GET    /v1/peers                whom this node knows
GET    /v1/nodes                ids and names                ?limit= ?deadline=
GET    /v1/nodes/{id}           one node: id, start of an id, name, or self
GET    /v1/nodes/{id}/table     its tables; also /leafset, /neighbours, /peers
POST   /v1/nodes/{id}/send      the body, to its application ?purpose=16 ?deadline=2s
GET    /v1/lookup/{key}         who answers for a key        ?trace=true ?iterative=true ?replicas=3 ?deadline=2s; or /v1/lookup?id=
POST   /v1/route/{key}          the body, to its application ?purpose=16 ?deadline=2s; or /v1/route?id=
PUT    /v1/kv/{key}             store the body               ?ttl=10m ?w=quorum ?timeout=2s; If-Match, If-None-Match: *
GET    /v1/kv/{key}             read it                      ?r=quorum ?timeout=2s; If-None-Match
DELETE /v1/kv/{key}             remove it                    ?w= ?timeout=; If-Match
POST   /v1/kv/{key}/increment   count with it                ?by=1 ?w= ?timeout=
GET    /v1/kv/{key}/ttl         how long it stays; PUT ?ttl=10m sets that, DELETE lets it stay
POST   /v1/kv/{key}/values      add the body to a set        ?ttl= ?w= ?timeout=; GET lists the set
DELETE /v1/kv/{key}/values/{digest}  remove one value of a set
POST   /v1/batch                many of these, a line each   ?timeout=2s
GET    /v1/keys                 list keys                    ?match=user:* ?limit=100 ?cursor= ?timeout=
GET    /v1/place/{key}          where its copies are
GET    /v1/events               what happens, as server-sent events  ?limit=
POST   /v1/cluster/join         {\"seeds\":[\"host:port\"]}; answers when the node has joined or was refused  ?deadline=2s
GET    /v1/cluster/copies       how many copies of a record the cluster keeps; POST {\"copies\":3} changes that
POST   /v1/cluster/retire       {\"id\":\"...\"}: a node that will not come back
POST   /v1/cluster/recover      {\"confirm\":false}: rebuild slots that have no quorum; without confirm only say what would be done
POST   /v1/node/leave           say goodbye and end
POST   /v1/node/stop            end and come back later
GET    /v1/tokens               join tokens; POST {\"lifetime\":\"1h\"} makes one, DELETE /v1/tokens/{id} revokes it
POST   /v1/scrub                read everything on this node's disk, to find damage  ?rate=8388608; GET shows how far it is
GET    /v1/config               the settings
GET    /livez /readyz /metrics  for whoever watches
";
