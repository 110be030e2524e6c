//! The bytes of a connection, whatever they travel over.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connection whose other end is proved.
pub(crate) enum Stream {
    /// Encrypted, over a socket.
    Tls(Box<TlsStream<Metered>>),
    /// Inside the process.
    Memory(DuplexStream),
    /// Encrypted, inside a connection with a third node.
    Relayed(Box<TlsStream<Stream>>),
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tls($stream) => $call,
            Stream::Memory($stream) => $call,
            Stream::Relayed($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// A socket that counts, and limits what may come in before its other end is known.
pub(crate) struct Metered {
    inner: TcpStream,
    read: Counter,
    written: Counter,
    /// Bytes that may still be read; zero: any number.
    allowance: Rc<Cell<u64>>,
}

impl Metered {
    /// Wraps a socket. The allowance is lifted by setting it to zero.
    pub(crate) fn new(
        inner: TcpStream,
        read: Counter,
        written: Counter,
        allowance: u64,
    ) -> (Metered, Rc<Cell<u64>>) {
        let allowance = Rc::new(Cell::new(allowance));
        (Metered { inner, read, written, allowance: allowance.clone() }, allowance)
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let got = (buf.filled().len() - before) as u64;
        self.read.inc_by(got);
        match self.allowance.get() {
            0 => {}
            left if got < left => self.allowance.set(left - got),
            _ => {
                let what = "too many bytes before the handshake was done";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
            }
        }
        polled
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = polled {
            self.written.inc_by(count as u64);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
