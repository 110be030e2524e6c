//! A client that sends exactly what it is told.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Nothing in these tests takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn open(to: SocketAddr) -> Client {
        Client { stream: TcpStream::connect(to).await.expect("the port is open"), unread: Vec::new() }
    }

    /// Sends bytes. The other side may have closed already; then there is an answer to read, or an end.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = timeout(PATIENCE, self.stream.write_all(bytes.as_ref())).await.expect("the node reads");
    }

    /// Reads the next answer, or `None` if the connection ends.
    pub(crate) async fn answer(&mut self) -> Option<Reply> {
        let head = self.until(b"\r\n\r\n").await?;
        let head = String::from_utf8(head).expect("heads are ASCII");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        let mut reply = Reply { status, head, body: Vec::new() };
        let length = reply.header("content-length").map(|length| length.parse().expect("a number"));
        let length: usize = length.unwrap_or(0);
        while self.unread.len() < length && self.more().await {}
        reply.body = self.unread.drain(..length.min(self.unread.len())).collect();
        Some(reply)
    }

    /// Reads up to and including a mark, or `None` if the connection ends before it.
    pub(crate) async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "only this came: {:?}", String::from_utf8_lossy(&self.unread));
            if let Some(at) = self.unread.windows(mark.len()).position(|found| found == mark) {
                return Some(self.unread.drain(..at + mark.len()).collect());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Reads all that comes until the connection ends.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.unread)
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let read =
            timeout(PATIENCE, self.stream.read(&mut buffer)).await.expect("the node answers or closes");
        let count = read.unwrap_or(0);
        self.unread.extend_from_slice(&buffer[..count]);
        count > 0
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the document, which must have this schema in its first field.
    pub(crate) fn document(&self, schema: &str) -> Value {
        assert_eq!(self.status / 100, 2, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert!(self.text().starts_with(&format!("{{\"schema\":\"{schema}\"")), "{self:?}");
        self.json()
    }

    /// Returns the problem, which must have this code and all that belongs to one.
    pub(crate) fn problem(&self, code: &str) -> Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["type"], format!("https://kringle.example/problems/{code}"));
        assert_eq!(problem["status"], self.status);
        for field in ["title", "detail", "instance"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        problem
    }
}

/// Makes one request on a connection of its own.
pub(crate) async fn request(to: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
    let mut client = Client::open(to).await;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\nContent-Length: {length}\r\n{headers}\r\n");
    client.send([head.as_bytes(), body].concat()).await;
    client.answer().await.expect("an answer")
}

pub(crate) async fn get(to: SocketAddr, path: &str) -> Reply {
    request(to, "GET", path, "", b"").await
}

pub(crate) async fn post(to: SocketAddr, path: &str, body: impl AsRef<[u8]>) -> Reply {
    request(to, "POST", path, "", body.as_ref()).await
}
