//! Requests to a node's client port.

use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::Agent;

/// How long a request about the node itself may take.
const LOOK: Duration = Duration::from_secs(2);
/// How much later than a request's own deadline the client gives up: the node's answer says more than silence.
const GRACE: Duration = Duration::from_millis(400);

/// What became of a request.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// The status; 0: there was no answer.
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// What the answer was, or why there was none.
    pub(super) error: String,
    /// Whether the request cannot have reached a node.
    pub(super) unsent: bool,
}

impl Reply {
    /// Says whether the node did what it was asked for; a key that is not there is an answer too.
    pub(super) fn is_served(&self) -> bool {
        matches!(self.status, 200..=299 | 404)
    }

    /// Says whether a write that failed certainly did not happen.
    pub(super) fn is_undone(&self) -> bool {
        self.unsent || self.document()["outcome"] == "none"
    }

    pub(super) fn document(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Names the failure: the node's code, or why there was no answer.
    pub(super) fn cause(&self) -> String {
        match self.document()["code"].as_str() {
            Some(code) => code.to_owned(),
            None if self.status > 0 => self.status.to_string(),
            None => self.error.clone(),
        }
    }
}

/// A client of one or more nodes, with its own connections.
#[derive(Clone, Debug)]
pub(super) struct Client {
    agent: Agent,
}

impl Client {
    pub(super) fn new() -> Client {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
        Client { agent: config.build().new_agent() }
    }

    /// Sends a request to `host:port` and waits at most until its deadline.
    pub(super) fn send(
        &self,
        method: &str,
        node: &str,
        path: &str,
        body: &[u8],
        deadline: Duration,
    ) -> Reply {
        let wait = deadline + GRACE;
        let url = format!("http://{node}{path}");
        let result = match method {
            "GET" => self.agent.get(&url).config().timeout_global(Some(wait)).build().call(),
            "PUT" => self.agent.put(&url).config().timeout_global(Some(wait)).build().send(body),
            _ => self.agent.post(&url).config().timeout_global(Some(wait)).build().send(body),
        };
        match result {
            Ok(mut response) => {
                let status = response.status().as_u16();
                match response.body_mut().with_config().limit(64 << 20).read_to_vec() {
                    Ok(body) => Reply { status, body, error: String::new(), unsent: false },
                    Err(error) => Reply::silent(&error),
                }
            }
            Err(error) => Reply::silent(&error),
        }
    }

    /// Fetches a document about a node.
    pub(super) fn look(&self, node: &str, path: &str) -> Option<Value> {
        let reply = self.send("GET", node, path, &[], LOOK);
        (reply.status == 200).then(|| reply.document())
    }

    /// Fetches the sum of a node's counters whose lines begin like this.
    pub(super) fn counter(&self, node: &str, start: &str) -> Option<f64> {
        let reply = self.send("GET", node, "/metrics", &[], LOOK);
        let text = String::from_utf8(reply.body).ok().filter(|_| reply.status == 200)?;
        Some(sum(&text, start))
    }
}

impl Reply {
    fn silent(error: &ureq::Error) -> Reply {
        let unsent = match error {
            ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
            ureq::Error::Timeout(ureq::Timeout::Connect) | ureq::Error::ConnectionFailed => true,
            _ => false,
        };
        Reply { status: 0, body: Vec::new(), error: error.to_string(), unsent }
    }
}

fn sum(text: &str, start: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with(start));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Repeats something every 100 ms until it is there, or until the time is up or the run interrupted.
pub(super) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut try_it: impl FnMut() -> Option<T>,
) -> Result<(T, Duration), String> {
    let start = Instant::now();
    loop {
        if let Some(found) = try_it() {
            return Ok((found, start.elapsed()));
        }
        if start.elapsed() > limit {
            return Err(format!("not within {} s: {what}", limit.as_secs()));
        }
        super::pause(Duration::from_millis(100))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_up() {
        let text = "# HELP\nkringle_notes_total{kind=\"died\"} 2\nkringle_notes_total{kind=\"x\"} 5\nkringle_ready 1\n";
        assert_eq!(sum(text, "kringle_notes_total{kind=\"died\"}"), 2.0);
        assert_eq!(sum(text, "kringle_notes_total"), 7.0);
        assert_eq!(sum(text, "kringle_absent"), 0.0);
    }
}
