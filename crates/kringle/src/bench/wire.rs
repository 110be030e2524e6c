//! One connection to a node, kept open: just enough HTTP to ask and to see what came of it.
//!
//! A whole client would take more of the machine than the node it measures.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The largest head and body of an answer that is taken.
const HEAD_MAX: usize = 64 * 1024;
const BODY_MAX: usize = 64 << 20;

/// A connection.
pub(super) struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
    /// Whether the node said that it closes.
    closes: bool,
}

/// What came of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It was done.
    Good,
    /// It was not, and this is the code.
    Bad(String),
}

impl Wire {
    /// Opens a connection.
    pub(super) async fn open(to: &str) -> Result<Wire> {
        let stream = TcpStream::connect(to).await?;
        // A request is whole when it is written; waiting for more would be measured.
        stream.set_nodelay(true)?;
        Ok(Wire { stream, unread: Vec::new(), closes: false })
    }

    /// Says whether another request can be sent.
    pub(super) fn is_open(&self) -> bool {
        !self.closes
    }

    /// Sends a request and waits for what comes of it.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<Came> {
        self.stream.write_all(request).await?;
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            if self.unread.len() > HEAD_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            self.more().await?;
        };
        let head = Head::read(&self.unread[..end]).ok_or(ErrorKind::InvalidData)?;
        if head.length > BODY_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        while self.unread.len() < end + head.length {
            self.more().await?;
        }
        self.closes |= head.closes;
        let came = match head.status {
            200..300 => Came::Good,
            status => Came::Bad(code(&self.unread[end..end + head.length], status)),
        };
        self.unread.drain(..end + head.length);
        Ok(came)
    }

    async fn more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.unread).await? {
            0 => Err(Error::from(ErrorKind::UnexpectedEof)),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: usize,
    closes: bool,
}

impl Head {
    fn read(bytes: &[u8]) -> Option<Head> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let mut head = Head { status, length: 0, closes: false };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                head.length = value.parse().ok()?;
            } else if name.eq_ignore_ascii_case("connection") {
                head.closes = value.eq_ignore_ascii_case("close");
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                // Nodes do not answer like this to what is asked here.
                return None;
            }
        }
        Some(head)
    }
}

/// Finds the code in a problem; without one, the status has to do.
fn code(body: &[u8], status: u16) -> String {
    let text = String::from_utf8_lossy(body);
    let code = text.split_once("\"code\":\"").and_then(|(_, rest)| rest.split_once('"'));
    code.map_or_else(|| format!("status {status}"), |(code, _)| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_far_as_it_matters() {
        let read = |text: &str| Head::read(text.as_bytes());
        assert_eq!(
            read("HTTP/1.1 200 OK\r\nContent-Length: 12\r\netag: \"x\"\r\n\r\n"),
            Some(Head { status: 200, length: 12, closes: false })
        );
        assert_eq!(
            read("HTTP/1.1 204 No Content\r\nConnection: Close\r\n\r\n"),
            Some(Head { status: 204, length: 0, closes: true })
        );
        assert_eq!(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), None);
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"), None);
        assert_eq!(read("SSH-2.0-x\r\n\r\n"), None);
    }

    #[test]
    fn problems_are_told_by_their_code() {
        assert_eq!(code(br#"{"title":"t","code":"KR0503","acked":1}"#, 503), "KR0503");
        assert_eq!(code(b"<html>", 500), "status 500");
    }
}
