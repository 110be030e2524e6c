//! Requests to a node's client port.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::json::Value;

/// How long a request about the node itself may take.
const LOOK: Duration = Duration::from_secs(2);
/// How much later than a request's own deadline the client gives up: the node's answer says more than silence.
const GRACE: Duration = Duration::from_millis(400);
/// Nodes close connections that were idle for 10 s; a request sent at that moment would fail for no fault of theirs.
const IDLE_MAX: Duration = Duration::from_secs(5);

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
        self.unsent || self.document()["outcome"] == *"none"
    }

    pub(super) fn document(&self) -> Value {
        Value::parse(&String::from_utf8_lossy(&self.body))
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
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Connections that wait for the next request, by node.
    idle: Mutex<BTreeMap<String, (Instant, TcpStream)>>,
}

impl Client {
    pub(super) fn new() -> Client {
        Client::default()
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
        let end = Instant::now() + deadline + GRACE;
        let mut stream = match self.connection(node, end) {
            Ok(stream) => stream,
            Err(error) => return Reply::silent(&error, true),
        };
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {node}\r\nContent-Length: {}\r\n\r\n", body.len());
        let request = [head.as_bytes(), body].concat();
        // A node may refuse a large body before it has read all of it, so there may be an answer in any case.
        let written = stream.write_all(&request);
        match Answer::read(&mut stream, end).map_err(|error| written.err().unwrap_or(error)) {
            Ok(Answer { status, body, reusable }) => {
                if reusable {
                    self.lock().insert(node.into(), (Instant::now(), stream));
                }
                Reply { status, body, error: String::new(), unsent: false }
            }
            Err(error) => Reply::silent(&error, false),
        }
    }

    /// Returns a connection that is open, an earlier one if there is.
    fn connection(&self, node: &str, end: Instant) -> std::io::Result<TcpStream> {
        let earlier = self.lock().remove(node);
        if let Some((since, stream)) = earlier
            && since.elapsed() < IDLE_MAX
            && is_open(&stream)
        {
            return Ok(stream);
        }
        let address: SocketAddr = node.parse().map_err(std::io::Error::other)?;
        let stream = TcpStream::connect_timeout(&address, left(end)?)?;
        stream.set_nodelay(true)?;
        // A node that does not read gets small requests only; they fit in the kernel's buffer.
        stream.set_write_timeout(Some(left(end)?))?;
        Ok(stream)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, TcpStream)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn silent(error: &std::io::Error, unsent: bool) -> Reply {
        let error = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer in time".into(),
            ErrorKind::ConnectionRefused => "connection refused".into(),
            ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => {
                "connection broke".into()
            }
            _ => error.to_string(),
        };
        Reply { status: 0, body: Vec::new(), error, unsent }
    }
}

/// A response as it came.
struct Answer {
    status: u16,
    body: Vec<u8>,
    /// The connection can carry another request.
    reusable: bool,
}

impl Answer {
    fn read(stream: &mut TcpStream, end: Instant) -> std::io::Result<Answer> {
        let bad = || std::io::Error::new(ErrorKind::InvalidData, "not an HTTP response");
        let mut input = BufReader::new(Timed { stream, end });
        let mut line = String::new();
        input.read_line(&mut line)?;
        if line.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let status: u16 = line.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(bad)?;
        let (mut length, mut chunked, mut reusable) = (None, false, true);
        loop {
            line.clear();
            input.read_line(&mut line)?;
            let text = line.trim_end().to_ascii_lowercase();
            match text.split_once(':').map(|(name, value)| (name, value.trim())) {
                None if text.is_empty() => break,
                Some(("content-length", value)) => length = value.parse::<usize>().ok(),
                Some(("transfer-encoding", "chunked")) => chunked = true,
                Some(("connection", "close")) => reusable = false,
                _ => {}
            }
        }
        let mut body = Vec::new();
        match length {
            _ if matches!(status, 204 | 304) => {}
            _ if chunked => loop {
                line.clear();
                input.read_line(&mut line)?;
                let size = usize::from_str_radix(line.trim(), 16).map_err(|_| bad())?;
                read_more(&mut input, &mut body, size)?;
                line.clear();
                input.read_line(&mut line)?;
                if size == 0 {
                    break;
                }
            },
            Some(length) => read_more(&mut input, &mut body, length)?,
            None => {
                reusable = false;
                input.read_to_end(&mut body)?;
            }
        }
        Ok(Answer { status, body, reusable: reusable && input.buffer().is_empty() })
    }
}

fn read_more(input: &mut impl Read, body: &mut Vec<u8>, size: usize) -> std::io::Result<()> {
    let read = input.take(size as u64).read_to_end(body)?;
    if read == size { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

/// A connection that is read until some moment, however often it is read.
struct Timed<'a> {
    stream: &'a mut TcpStream,
    end: Instant,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.end)?))?;
        self.stream.read(buffer)
    }
}

/// Returns the time that is left.
fn left(end: Instant) -> std::io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Says whether a connection that waited is still open.
fn is_open(stream: &TcpStream) -> bool {
    let silent = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let is_silent = matches!(silent, Err(error) if error.kind() == ErrorKind::WouldBlock);
    is_silent && stream.set_nonblocking(false).is_ok()
}

fn sum(text: &str, start: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with(start));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Repeats something every 100 ms until it is there, or until the time is up.
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
        super::pause(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn responses_are_read_and_connections_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let answers = [
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                "HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                "HTTP/1.1 204 No Content\r\n\r\n",
            ];
            for answer in answers {
                let mut buffer = [0; 1024];
                assert!(stream.read(&mut buffer).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let client = Client::new();
        let send = || client.send("PUT", &node, "/x", b"body", Duration::from_secs(5));
        let replies = [send(), send(), send()];
        server.join().unwrap();
        assert_eq!(replies.clone().map(|reply| reply.status), [200, 503, 204]);
        assert_eq!(replies.map(|reply| reply.body), [b"hi".to_vec(), b"abc".to_vec(), Vec::new()]);
        let refused = send();
        assert!(refused.unsent && refused.cause() == "connection refused", "{refused:?}");
    }

    #[test]
    fn counters_are_added_up() {
        let text = "# HELP\nkringle_notes_total{kind=\"died\"} 2\nkringle_notes_total{kind=\"x\"} 5\nkringle_ready 1\n";
        assert_eq!(sum(text, "kringle_notes_total{kind=\"died\"}"), 2.0);
        assert_eq!(sum(text, "kringle_notes_total"), 7.0);
        assert_eq!(sum(text, "kringle_absent"), 0.0);
    }
}
