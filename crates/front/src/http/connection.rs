//! One connection, from accept to close.
//!
//! hyper reads and writes HTTP/1.1; its timeouts only work with a timer of the runtime, which is set here. Around it: a
//! client that does not read what it asked for is ended, and a connection is closed so that the last answer arrives.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, timeout};

use super::Options;
use super::router::Desk;
use crate::errors::{Kind, Problem};
use crate::text;

/// Bytes the head of a request may have, and bytes of a body that are read at once.
const BUFFER: usize = 16 * 1024;
/// Headers a request may have.
const HEADERS_MAX: usize = 64;
/// What is still read, and thrown away, after the last answer: the rest of a value that is somewhat too large.
const LINGER_BYTES: usize = 4 << 20;
/// How long that goes on.
const LINGER: Duration = Duration::from_secs(1);

/// Serves a connection until its client, an error, or `stop` ends it.
pub(super) async fn serve(stream: TcpStream, desk: Desk, options: &Options, mut stop: watch::Receiver<()>) {
    // Answers are whole when they are written; waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Patient::new(stream, options.write_wait));
    let service = service_fn(move |request| {
        let desk = desk.clone();
        Box::pin(async move { Ok::<_, Infallible>(desk.answer(request).await) })
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(options.header_wait);
    builder.max_buf_size(BUFFER).max_headers(HEADERS_MAX).keep_alive(true);
    let mut connection = builder.serve_connection(io, service);
    let result = tokio::select! {
        result = poll_fn(|cx| connection.poll_without_shutdown(cx)) => result,
        _ = stop.changed() => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|cx| connection.poll_without_shutdown(cx)).await
        }
    };
    if let Err(error) = &result {
        tracing::debug!(%error, "a client connection ended");
    }
    linger(&mut connection.into_parts().io.into_inner().stream).await;
}

/// Tells a client that there is no room for its connection.
pub(super) async fn refuse(mut stream: TcpStream) {
    let problem = Problem::new(Kind::Full, "this node has as many client connections as it takes");
    let body = text::json(&problem.document()).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: {}\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        problem.retry_after.unwrap_or(1),
        body.len()
    );
    let whole = [head.as_bytes(), &body].concat();
    if timeout(LINGER, stream.write_all(&whole)).await.is_ok_and(|written| written.is_ok()) {
        linger(&mut stream).await;
    }
}

/// Closes a connection so that the last answer is read. If bytes of the client were still unread at the close, its
/// system would be told to throw the answer away.
async fn linger(stream: &mut TcpStream) {
    let rest = async {
        stream.shutdown().await?;
        let (mut left, mut buffer) = (LINGER_BYTES, [0; 16 * 1024]);
        while left > 0 {
            match stream.read(&mut buffer).await? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        io::Result::Ok(())
    };
    // However it ends, the connection is closed.
    let _ = timeout(LINGER, rest).await;
}

/// A stream whose writes fail when the other side has taken nothing for too long.
struct Patient {
    stream: TcpStream,
    wait: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream, wait: Duration) -> Patient {
        Patient { stream, wait, stalled: None }
    }

    /// Passes on how a write went, and counts the time while it does not go at all.
    fn watch<T>(&mut self, cx: &mut Context<'_>, went: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if went.is_ready() {
            self.stalled = None;
            return went;
        }
        let end = Instant::now() + self.wait;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let went = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, went)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let went = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(cx, went)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
