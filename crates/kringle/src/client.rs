//! Asks a running node over HTTP. Every command that needs a node comes through here.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{HeaderMap, Request, Response};
use ureq::{Agent, AsSendBody, Body};

use crate::catalogue;
use crate::duration;
use crate::failure::Failure;
use crate::output::Manners;

/// Where a node listens for clients if nobody says otherwise.
pub(crate) const DEFAULT: &str = "http://127.0.0.1:7480";
/// Names the node to ask, if no flag does.
const VARIABLE: &str = "KRINGLE_NODE";
/// How much later than the deadline of a request the connection is given up: the node's own answer says more.
const GRACE: Duration = Duration::from_secs(2);
/// How often a node that ends is looked after.
const POLL: Duration = Duration::from_millis(50);
/// The largest document that is read.
const DOCUMENT_MAX: u64 = 256 << 20;
/// What stays as it is in a part of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Which node is asked, and how patiently.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Asking a node")]
pub(crate) struct Asked {
    /// The node to ask [default: $KRINGLE_NODE, or http://127.0.0.1:7480]
    #[arg(long, global = true, value_name = "URL", display_order = 101)]
    node: Vec<String>,
    /// How long to wait for its answer
    #[arg(long, global = true, value_name = "TIME", display_order = 102, default_value = "5s",
        value_parser = duration::read)]
    timeout: Duration,
}

impl Asked {
    /// Returns the addresses of the nodes to ask: those of the flags, or of the variable, or the usual one.
    pub(crate) fn nodes(&self) -> Result<Vec<String>, Failure> {
        if !self.node.is_empty() {
            return self.node.iter().map(|text| base_url(text)).collect();
        }
        let variable = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
        Ok(vec![base_url(variable.as_deref().unwrap_or(DEFAULT))?])
    }

    /// Returns how long to wait for an answer.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// What came back for a request: bytes as they are, and what was said about them.
pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// A node to ask.
pub(crate) struct Client {
    base: String,
    agent: Agent,
    timeout: Duration,
    manners: Manners,
}

impl Client {
    /// Prepares to ask; nothing is sent yet.
    pub(crate) fn new(asked: &Asked, manners: Manners) -> Result<Client, Failure> {
        let base = match asked.nodes()?.as_slice() {
            [one] => one.clone(),
            many => {
                return Err(Failure::usage(
                    format!("{} nodes are named, and one is asked", many.len()),
                    "Write --node once; only 'bench' asks several.",
                ));
            }
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A proxy for the web knows nothing of a ring.
            .proxy(None)
            .max_redirects(0)
            .user_agent(concat!("kringle/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .timeout_connect(Some(asked.timeout));
        Ok(Client { base, agent: config.build().new_agent(), timeout: asked.timeout, manners })
    }

    /// Returns how long the node may take; longer, and the answer is a timeout.
    pub(crate) fn deadline(&self) -> String {
        duration::exact(self.timeout)
    }

    /// Fetches a document.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call("GET", path, || {
            self.agent.get(self.url(path)).config().timeout_global(self.patience()).build().call()
        })
    }

    /// Sends bytes and fetches what comes back.
    pub(crate) fn post(&self, path: &str, kind: &str, body: &[u8]) -> Result<Value, Failure> {
        self.call("POST", path, || {
            let request = self.agent.post(self.url(path)).content_type(kind);
            request.config().timeout_global(self.patience()).build().send(body)
        })
    }

    /// Sends a document and fetches what comes back.
    pub(crate) fn post_json(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.post(path, "application/json", body.to_string().as_bytes())
    }

    /// Does many operations of the store, and returns what came of each, in their order. A connection that breaks off
    /// is a failure of all.
    pub(crate) fn batch(&self, operations: &[Value]) -> Result<Vec<Value>, Failure> {
        let path = format!("batch?timeout={}", self.deadline());
        let lines: String = operations.iter().map(|operation| format!("{operation}\n")).collect();
        // In the worst case every operation is on one key, and each takes its time.
        let patience =
            self.timeout.saturating_mul(u32::try_from(operations.len()).unwrap_or(u32::MAX)) + GRACE;
        let mut response = self.send("POST", &path, || {
            let request = self.agent.post(self.url(&path)).content_type("application/x-ndjson");
            request.config().timeout_global(Some(patience)).build().send(lines.as_bytes())
        })?;
        let body = response.body_mut().with_config().limit(DOCUMENT_MAX).read_to_vec();
        let body = body.map_err(|error| self.failure(error))?;
        let answers: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_slice(&body).into_iter::<Value>().collect();
        let answers = answers.map_err(|error| self.foreign(&error))?;
        match answers.len() == operations.len() {
            true => Ok(answers),
            false => {
                Err(self.foreign(&format!("{} answers to {} operations", answers.len(), operations.len())))
            }
        }
    }

    /// Removes something.
    pub(crate) fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.call("DELETE", path, || {
            self.agent.delete(self.url(path)).config().timeout_global(self.patience()).build().call()
        })
    }

    /// Sends a request with a body or without, and conditions, and fetches the document that comes back.
    pub(crate) fn change(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: Option<&[u8]>,
    ) -> Result<Value, Failure> {
        let request = self.request(method, path, headers)?;
        self.call(method, path, || match body {
            Some(body) => self.run(request.map(|()| body)),
            None => self.run(request),
        })
    }

    /// Fetches bytes as they are.
    pub(crate) fn fetch(&self, path: &str) -> Result<Reply, Failure> {
        let request = self.request("GET", path, &[("accept", "application/octet-stream".into())])?;
        let response = self.send("GET", path, || self.run(request))?;
        let (parts, body) = response.into_parts();
        let body = body.into_with_config().limit(DOCUMENT_MAX).read_to_vec();
        Ok(Reply { headers: parts.headers, body: body.map_err(|error| self.failure(error))? })
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, String)]) -> Result<Request<()>, Failure> {
        let mut request = Request::builder().method(method).uri(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.body(()).map_err(|_| bad_url(&self.base))
    }

    fn run(&self, request: Request<impl AsSendBody>) -> Result<Response<Body>, ureq::Error> {
        self.agent.run(self.agent.configure_request(request).timeout_global(self.patience()).build())
    }

    /// Waits until the node does not answer any more, for as long as an answer may take. Returns whether it is gone.
    pub(crate) fn outlasts(&self) -> bool {
        let end = Instant::now() + self.timeout;
        while self.get("status?local=true").is_ok() {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }

    /// Opens a stream of events, which has no end of its own.
    pub(crate) fn stream(&self, path: &str) -> Result<impl Read + use<>, Failure> {
        let request = self.agent.get(self.url(path)).header("accept", "text/event-stream");
        let opened = request.config().timeout_recv_response(self.patience()).build().call();
        let mut response = opened.map_err(|error| self.failure(error))?;
        if !response.status().is_success() {
            return Err(self.refusal(&mut response));
        }
        Ok(response.into_body().into_reader())
    }

    /// Says that the stream of events has ended, and why if there was an error.
    pub(crate) fn ended(&self, error: Option<&io::Error>) -> Failure {
        let why = error.map_or(String::new(), |error| format!(": {error}"));
        let what = format!("the node at {} sends no more{why}", self.base);
        Failure::coded(4, what, "It may have stopped. Ask another with --node, or start it again.")
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.timeout + GRACE)
    }

    fn url(&self, path: &str) -> String {
        format!("{}/v1/{path}", self.base)
    }

    fn call(
        &self,
        method: &str,
        path: &str,
        send: impl FnOnce() -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Value, Failure> {
        let mut response = self.send(method, path, send)?;
        let body = response.body_mut().with_config().limit(DOCUMENT_MAX).read_to_vec();
        let body = body.map_err(|error| self.failure(error))?;
        match body.is_empty() {
            true => Ok(Value::Null),
            false => serde_json::from_slice(&body).map_err(|error| self.foreign(&error)),
        }
    }

    /// Sends, and makes a failure of whatever is no success.
    fn send(
        &self,
        method: &str,
        path: &str,
        send: impl FnOnce() -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, Failure> {
        let start = Instant::now();
        let answer = send();
        self.manners.detail(|| {
            let outcome = answer.as_ref().map_or("failed".into(), |answer| answer.status().to_string());
            format!("{method} {}: {outcome}, {:.1} ms", self.url(path), start.elapsed().as_secs_f64() * 1e3)
        });
        let mut response = answer.map_err(|error| self.failure(error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(&mut response)) }
    }

    /// Reads a part of a document.
    pub(crate) fn read<T: DeserializeOwned>(&self, document: &Value, pointer: &str) -> Result<T, Failure> {
        let part = document.pointer(pointer).cloned().unwrap_or(Value::Null);
        serde_json::from_value(part).map_err(|error| self.foreign(&error))
    }

    /// Says that the answer is not one of a node.
    pub(crate) fn foreign(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::failed(
            format!("{} answers something else than a node of this version would: {error}", self.base),
            "Is this the HTTP address of a node (--http), and do both have the same version?",
        )
    }

    /// Makes sense of a status that is no success.
    fn refusal(&self, response: &mut Response<Body>) -> Failure {
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(1 << 20).read_to_vec().unwrap_or_default();
        problem(status, &body, &self.base)
    }

    fn failure(&self, error: ureq::Error) -> Failure {
        let unreachable = |why: &str| {
            Failure::coded(
                4,
                format!("cannot reach a node at {}: {why}", self.base),
                "Start one with 'kringle start', or name another with --node URL.",
            )
        };
        match error {
            ureq::Error::HostNotFound => unreachable("there is no such host"),
            ureq::Error::ConnectionFailed => unreachable("no connection"),
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                unreachable(&format!("no answer within {}", self.deadline()))
            }
            ureq::Error::Timeout(_) => Failure::coded(
                5,
                format!("the node at {} did not answer within {}", self.base, self.deadline()),
                "What was asked for may have happened. Allow more time with --timeout.",
            ),
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                unreachable("nobody listens there")
            }
            ureq::Error::Io(error) if is_before_sending(&error) => unreachable(&error.to_string()),
            ureq::Error::Io(error) => Failure::coded(
                5,
                format!("the connection to {} broke: {error}", self.base),
                "What was asked for may have happened; 'kringle status' shows whether the node is still there.",
            ),
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => bad_url(&self.base),
            other => self.foreign(&other),
        }
    }
}

fn is_before_sending(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkUnreachable, NotFound, PermissionDenied};
    matches!(
        error.kind(),
        AddrNotAvailable | HostUnreachable | NetworkUnreachable | NotFound | PermissionDenied
    )
}

/// Writes something as one part of a path.
pub(crate) fn segment(bytes: &[u8]) -> String {
    match bytes {
        // Programs on the way would take these as steps.
        b"." => "%2E".into(),
        b".." => "%2E%2E".into(),
        _ => percent_encode(bytes, PLAIN).to_string(),
    }
}

/// Turns a problem document into what the user reads. Without one, the status has to do.
fn problem(status: u16, body: &[u8], base: &str) -> Failure {
    let document: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let text = |name: &str| document[name].as_str().filter(|text| !text.is_empty());
    let Some(code) = text("code") else {
        return Failure::coded(
            catalogue::exit_of_status(status),
            format!("{base} answers with status {status} and no reason"),
            "Is this the HTTP address of a node (--http)?",
        );
    };
    let known = catalogue::find(code);
    let title = text("title").or(known.map(|kind| kind.title));
    let detail = text("detail").or(title).unwrap_or("the node refused");
    let exit = known.map_or(catalogue::exit_of_status(status), |kind| kind.exit);
    let remedy = match document["candidates"].as_array() {
        Some(ids) => {
            let ids: Vec<&str> = ids.iter().filter_map(Value::as_str).collect();
            format!("Write more digits of one of these: {}", ids.join(", "))
        }
        None => known.map_or("The log of the node may say more.", |kind| kind.remedy).to_owned(),
    };
    Failure::coded(exit, format!("{} ({code})", detail.trim_end_matches('.')), remedy)
}

/// Completes what people write for a node.
fn base_url(text: &str) -> Result<String, Failure> {
    let text = text.trim();
    if text.starts_with("https://") {
        return Err(Failure::usage(
            format!("cannot ask {text}: this version does not speak https"),
            "Name the node with http://HOST:PORT, over a network you trust or a tunnel.",
        ));
    }
    let rest = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let is_host = |c: char| !c.is_whitespace() && !"/?#@".contains(c);
    if rest.is_empty() || !rest.chars().all(is_host) {
        return Err(bad_url(text));
    }
    match rest.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(format!("http://{rest}")),
        Some(_) => Err(bad_url(text)),
        None => Ok(format!("http://{rest}:7480")),
    }
}

fn bad_url(text: &str) -> Failure {
    Failure::usage(
        format!("{text:?} is not the address of a node"),
        format!("Write --node http://HOST:PORT, for instance {DEFAULT}."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_as_people_write_them() {
        for (text, url) in [
            ("http://127.0.0.1:7480", "http://127.0.0.1:7480"),
            ("http://host-a:8000/", "http://host-a:8000"),
            ("host-a:8000", "http://host-a:8000"),
            ("host-a", "http://host-a:7480"),
            ("http://[::1]", "http://[::1]:7480"),
            ("[::1]:1", "http://[::1]:1"),
        ] {
            assert_eq!(base_url(text).unwrap(), url);
        }
        for bad in
            ["", "http://", "ftp://host", "a b", "https://host", "http://host/path", "u@host", "host:x", ":1"]
        {
            assert_eq!(base_url(bad).unwrap_err().code(), 2, "{bad:?} was taken");
        }
    }

    #[test]
    fn problems_have_the_exit_code_of_their_kind() {
        for (code, status, exit) in [
            ("KR0400", 400, 2),
            ("KR0403", 403, 7),
            ("KR0404", 404, 3),
            ("KR0413", 413, 8),
            ("KR0504", 504, 5),
            ("KR0520", 503, 4),
        ] {
            let body = format!(r#"{{"code":"{code}","title":"t","detail":"just so."}}"#);
            let failure = problem(status, body.as_bytes(), DEFAULT);
            assert_eq!(failure.code(), exit, "{code}");
            assert!(failure.to_string().starts_with(&format!("kringle: just so ({code})\n")), "{failure}");
        }
    }

    #[test]
    fn a_code_of_a_later_version_is_shown_and_ends_by_its_status() {
        let failure = problem(404, br#"{"code":"KR0499","title":"gone"}"#, DEFAULT);
        assert_eq!(failure.code(), 3);
        assert!(failure.to_string().contains("gone (KR0499)"));
        assert_eq!(problem(418, b"<html>", DEFAULT).code(), 1);
    }

    #[test]
    fn an_ambiguous_id_shows_the_candidates() {
        let body = br#"{"code":"KR0400","detail":"2 nodes fit \"a\"","candidates":["ab12","ab34"]}"#;
        let failure = problem(400, body, DEFAULT);
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().ends_with("one of these: ab12, ab34"), "{failure}");
    }

    #[test]
    fn keys_of_any_bytes_fit_into_a_path() {
        assert_eq!(segment("hello".as_bytes()), "hello");
        assert_eq!(segment(b"a/b ?\xff"), "a%2Fb%20%3F%FF");
        assert_eq!(segment(b".."), "%2E%2E");
    }
}
