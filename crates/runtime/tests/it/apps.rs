//! Applications: deliveries, hooks on the way, direct messages, changes, events.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use kringle_core::id::{Key, NodeId};
use kringle_runtime::app::{SERVING_MAX, WAITING_MAX};
use kringle_runtime::key::key_of;
use kringle_runtime::report::What;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{Answer, App, AppError, Handle, Message, RequestError};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::support::{LONG, Place, builder, nearest, run, until};

/// Writes down everything, and does as it is told by the bytes.
#[derive(Default)]
struct Recorder {
    seen: Mutex<Vec<String>>,
}

impl Recorder {
    fn record(&self, what: String) {
        self.seen.lock().unwrap().push(what);
    }

    fn has(&self, what: &str) -> bool {
        self.seen.lock().unwrap().iter().any(|seen| seen.starts_with(what))
    }
}

impl App for Recorder {
    fn deliver(&self, _: Key, message: Message) -> Option<Vec<u8>> {
        self.record(format!("deliver {}", String::from_utf8_lossy(&message.bytes)));
        match message.bytes.as_slice() {
            b"quiet" => None,
            b"huge" => Some(vec![0; 100_000]),
            b"panic" => panic!("as told"),
            bytes => Some([b"re: ", bytes].concat()),
        }
    }

    fn forward(&self, _: Key, message: &mut Message, next: &mut NodeId) -> bool {
        self.record("forward".into());
        match message.bytes.as_slice() {
            b"change me" => message.bytes = b"changed".to_vec(),
            b"lead astray" => *next = NodeId::new(7),
            _ => {}
        }
        message.bytes != b"stop me"
    }

    fn leaf_set_changed(&self, joined: &[NodeId], left: &[NodeId]) {
        self.record(format!("leaves +{} -{}", joined.len(), left.len()));
    }

    fn node_joined(&self, _: NodeId) {
        self.record("joined".into());
    }

    fn node_left(&self, _: NodeId) {
        self.record("left".into());
    }

    fn heartbeat(&self, _: NodeId) {
        self.record("heartbeat".into());
    }

    fn error(&self, error: AppError) {
        self.record(format!("error {error}"));
    }
}

struct Pair {
    nodes: Vec<Handle>,
    apps: Vec<Arc<Recorder>>,
}

impl Pair {
    async fn new(place: Place) -> Pair {
        let mut pair = Pair { nodes: Vec::new(), apps: Vec::new() };
        for _ in 0..2 {
            let app = Arc::new(Recorder::default());
            let node = builder(&place, pair.nodes.first()).app(16, app.clone()).start_here().await.unwrap();
            timeout(LONG, node.ready()).await.unwrap().unwrap();
            pair.nodes.push(node);
            pair.apps.push(app);
        }
        pair
    }

    /// A key the second node answers for.
    fn far_key(&self) -> Key {
        let far = |at: &usize| nearest(&self.nodes, &format!("k{at}")) == self.nodes[1].id();
        key_of(format!("k{}", (0..).find(far).unwrap()))
    }

    async fn route(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, RequestError> {
        let sent = self.nodes[0].route(self.far_key(), 16, bytes.to_vec(), LONG).await;
        sent.map(|delivered| delivered.answer)
    }
}

async fn routes_and_hooks(place: Place) {
    let pair = Pair::new(place).await;
    assert_eq!(pair.route(b"hello").await, Ok(Some(b"re: hello".to_vec())));
    assert_eq!(pair.route(b"quiet").await, Ok(None));
    assert_eq!(pair.route(b"change me").await, Ok(Some(b"re: changed".to_vec())));
    assert_eq!(pair.route(b"stop me").await, Err(RequestError::Stopped));
    // An unknown hop is reported, and the message goes where it would have gone.
    assert_eq!(pair.route(b"lead astray").await, Ok(Some(b"re: lead astray".to_vec())));
    assert!(pair.apps[0].has("error the next hop"));
    // An answer that is too large is left out, and the application is told.
    assert_eq!(pair.route(b"huge").await, Ok(None));
    assert!(pair.apps[1].has("error what the application made"));
    // One that panics loses this call, and the node goes on.
    assert_eq!(pair.route(b"panic").await, Ok(None));
    assert_eq!(pair.route(b"hello").await, Ok(Some(b"re: hello".to_vec())));
    assert!(pair.nodes[1].look(|_| panic!("as told")).await.is_err());
    assert!(pair.nodes[1].summary().await.is_ok());
    // Larger than a frame for small talk: over the connection for large ones.
    let large = vec![b'x'; 60_000];
    let answer = pair.route(&large).await.unwrap().unwrap();
    assert_eq!(answer.len(), 60_004);
    assert!(matches!(pair.route(&vec![0; 70_000]).await, Err(RequestError::TooLarge { limit: 65_536 })));
    assert!(pair.apps[0].has("forward") && pair.apps[0].has("leaves +1") && pair.apps[0].has("joined"));
    assert!(pair.apps[0].has("heartbeat"), "the joiner has pinged it");
}

#[test]
fn routed_messages_meet_their_applications_in_memory() {
    run(routes_and_hooks(Place::Memory(Hub::new())));
}

#[test]
fn routed_messages_meet_their_applications_over_sockets() {
    run(routes_and_hooks(Place::Sockets));
}

#[test]
fn direct_messages_go_to_one_node_or_nowhere() {
    run(async {
        let pair = Pair::new(Place::Memory(Hub::new())).await;
        let [first, second] = [&pair.nodes[0], &pair.nodes[1]];
        let sent = first.send(second.id(), 16, b"you".to_vec(), LONG).await.unwrap();
        assert_eq!((sent.root, sent.answer), (second.id(), Some(b"re: you".to_vec())));
        let to_self = first.send(first.id(), 16, b"me".to_vec(), LONG).await.unwrap();
        assert_eq!(to_self.root, first.id());
        let nobody = second.id().plus(1);
        assert_eq!(first.send(nobody, 16, Vec::new(), LONG).await, Err(RequestError::NotFound));
    });
}

#[test]
fn peers_of_other_regions_count_as_farther_away() {
    run(async {
        let hub = Place::Memory(Hub::new());
        // So large a factor that it shows whatever the round trip was.
        let in_region = |region: &str, seed: Option<&Handle>| builder(&hub, seed).region(region, 1 << 31);
        let first = in_region("north", None).start_here().await.unwrap();
        let near = in_region("north", Some(&first)).start_here().await.unwrap();
        let far = in_region("south", Some(&first)).start_here().await.unwrap();
        let distance = |to: &Handle| {
            let (first, to) = (first.clone(), to.id().to_string());
            async move {
                let peers = first.peers().await.unwrap();
                peers.into_iter().find(|peer| peer.id == to).and_then(|peer| peer.rtt_us)
            }
        };
        until("both are measured", || async {
            distance(&near).await.is_some() && distance(&far).await.is_some()
        })
        .await;
        assert!(distance(&near).await < Some(10_000_000));
        assert_eq!(distance(&far).await, Some(u32::MAX - 1));
        assert_eq!(far.summary().await.unwrap().region.as_deref(), Some("south"));
    });
}

#[test]
fn a_goodbye_is_noticed_and_a_stop_is_too() {
    run(async {
        for politely in [true, false] {
            let pair = Pair::new(Place::Sockets).await;
            let mut events = pair.nodes[0].events();
            match politely {
                true => pair.nodes[1].leave().await.unwrap(),
                false => drop(pair.nodes[1].stop().await),
            }
            let gone = pair.nodes[1].id().to_string();
            let told = async {
                while let Some(event) = events.next().await {
                    if matches!(&event.what, What::PeerDown { peer } if *peer == gone) {
                        return;
                    }
                }
            };
            timeout(LONG, told).await.expect("the other one notices");
            until("the application hears of it", || async { pair.apps[0].has("left") }).await;
        }
    });
}

#[test]
fn a_request_that_nobody_waits_for_any_more_is_dropped() {
    run(async {
        let pair = Pair::new(Place::Memory(Hub::new())).await;
        let lookup = pair.nodes[0].lookup(pair.far_key(), LONG);
        {
            let mut lookup = std::pin::pin!(lookup);
            let started = std::future::poll_fn(|cx| Poll::Ready(lookup.as_mut().poll(cx).is_pending()));
            assert!(started.await);
        }
        assert_eq!(pair.route(b"still here").await, Ok(Some(b"re: still here".to_vec())));
    });
}

/// Answers when it is told to.
struct Slow {
    begun: Mutex<Vec<String>>,
    errors: AtomicUsize,
    go: Arc<Semaphore>,
}

impl App for Slow {
    fn respond(&self, _: Key, message: Message) -> Answer {
        let text = String::from_utf8(message.bytes).unwrap();
        self.begun.lock().unwrap().push(text.clone());
        let go = self.go.clone();
        match text.as_str() {
            "now" => Answer::Now(b"at once".to_vec()),
            "panic" => Answer::later(async { panic!("as told") }),
            _ => Answer::later(async move {
                go.acquire().await.ok()?.forget();
                Some(text.into_bytes())
            }),
        }
    }

    fn error(&self, error: AppError) {
        assert_eq!(error, AppError::Busy);
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn answers_may_take_time_and_are_bounded() {
    run(async {
        let app = Arc::new(Slow {
            begun: Mutex::default(),
            errors: AtomicUsize::new(0),
            go: Arc::new(Semaphore::new(0)),
        });
        let node = builder(&Place::Memory(Hub::new()), None).app(16, app.clone()).start_here().await.unwrap();
        timeout(LONG, node.ready()).await.unwrap().unwrap();
        let ask = |text: String| {
            let node = node.clone();
            tokio::task::spawn_local(async move { node.send(node.id(), 16, text.into_bytes(), LONG).await })
        };
        // One that takes time holds up nothing else.
        let first = ask("first".into());
        until("it has begun", async || app.begun.lock().unwrap().len() == 1).await;
        assert_eq!(
            node.send(node.id(), 16, b"now".to_vec(), LONG).await.unwrap().answer,
            Some(b"at once".to_vec())
        );
        assert_eq!(node.send(node.id(), 16, b"panic".to_vec(), LONG).await.unwrap().answer, None);
        app.go.add_permits(1);
        assert_eq!(first.await.unwrap().unwrap().answer, Some(b"first".to_vec()));
        // As many as may, those that wait, and ten too many.
        app.begun.lock().unwrap().clear();
        let count = SERVING_MAX + WAITING_MAX;
        let asked: Vec<_> = (0..count).map(|at| ask(at.to_string())).collect();
        until("as many as may have begun", async || app.begun.lock().unwrap().len() == SERVING_MAX).await;
        let more: Vec<_> = (0..10).map(|_| ask("too many".into())).collect();
        until("the others are dropped", async || app.errors.load(Ordering::Relaxed) == 10).await;
        assert_eq!(app.begun.lock().unwrap().len(), SERVING_MAX);
        app.go.add_permits(count);
        for (at, asked) in asked.into_iter().enumerate() {
            let answer = timeout(LONG, asked).await.unwrap().unwrap().unwrap().answer;
            assert_eq!(answer, Some(at.to_string().into_bytes()));
        }
        let in_order: Vec<String> = (0..count).map(|at| at.to_string()).collect();
        assert_eq!(*app.begun.lock().unwrap(), in_order);
        more.into_iter().for_each(|more| more.abort());
    });
}
