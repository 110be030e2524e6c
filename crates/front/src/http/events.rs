//! What happens at a node, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use futures_util::stream;
use kringle_runtime::report::Event;
use kringle_runtime::{Events, Handle};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::answer::Answer;
use super::input::Params;
use super::router::Shared;
use crate::text;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limit {
    limit: Option<u64>,
}

/// Follows the node's events: `id` counts them, `event` is their kind, `data` the whole event. Ends with the node, or
/// after `limit` events.
pub(super) async fn follow(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(Limit { limit }): Params<Limit>,
) -> Answer {
    let mut pings = interval_at(Instant::now() + shared.options.ping, shared.options.ping.max(PING_MIN));
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = node.events();
    let left = limit.unwrap_or(u64::MAX);
    let follower = Follower { node, events, stop: shared.stop.clone(), pings, left, greeted: false };
    let chunks = stream::unfold(follower, |mut follower| async {
        let chunk = follower.next().await?;
        Some((Ok::<Bytes, Infallible>(Bytes::from(chunk)), follower))
    });
    Ok(([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(chunks)).into_response())
}

/// A timer can not have a period of nothing.
const PING_MIN: Duration = Duration::from_millis(1);

struct Follower {
    node: Handle,
    events: Events,
    stop: watch::Receiver<()>,
    pings: tokio::time::Interval,
    left: u64,
    greeted: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<String> {
        if !self.greeted {
            // Something is sent at once, so that a client knows when it has begun to hear.
            self.greeted = true;
            return Some(format!(": events of {}\n\n", self.node.id()));
        }
        self.left = self.left.checked_sub(1)?;
        // In this order: what happened before the end is told before the end.
        tokio::select! {
            biased;
            event = self.events.next() => event.map(|event| written(&event)),
            _ = self.stop.changed() => None,
            _ = self.node.ended() => None,
            _ = self.pings.tick() => {
                self.left += 1;
                Some(": ping\n\n".into())
            }
        }
    }
}

fn written(event: &Event) -> String {
    let kind = serde_json::to_value(event).ok();
    let kind = kind.as_ref().and_then(|event| event.get("event")?.as_str()).unwrap_or("message");
    // JSON has no line breaks outside of texts and escapes those inside, so one line of data is enough.
    let data = text::json(event).ok().and_then(|data| String::from_utf8(data).ok()).unwrap_or_default();
    format!("id: {}\nevent: {kind}\ndata: {data}\n\n", event.serial)
}

#[cfg(test)]
mod tests {
    use kringle_runtime::report::What;

    use super::*;

    #[test]
    fn an_event_is_three_lines_and_a_gap_whatever_is_in_it() {
        let what = What::Refused { peer: "p".into(), reason: "a\n\ndata: \u{1b}<b>".into() };
        let text = written(&Event { serial: 7, at_ms: 1, what });
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!((lines.len(), lines[0], lines[1]), (5, "id: 7", "event: refused"));
        let data = lines[2].strip_prefix("data: ").unwrap();
        assert!(data.starts_with("{\"serial\":7,") && !data.contains(['\u{1b}', '<']), "{data}");
    }
}
