//! The bytes of a connection, whatever they travel over.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connection whose other end is proved.
pub(crate) enum Stream {
    /// Encrypted, over a socket.
    Tls(Box<TlsStream<Metered>>),
    /// Inside the process.
    Memory(DuplexStream),
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tls($stream) => $call,
            Stream::Memory($stream) => $call,
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

/// What went over a socket, and how much may come in before its other end is known.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) read: Cell<u64>,
    pub(crate) written: Cell<u64>,
    /// Bytes that may be read; zero: any number.
    pub(crate) read_max: Cell<u64>,
}

/// A socket that counts.
pub(crate) struct Metered {
    inner: TcpStream,
    meter: Rc<Meter>,
}

impl Metered {
    pub(crate) fn new(inner: TcpStream, read_max: u64) -> (Metered, Rc<Meter>) {
        let meter = Rc::new(Meter::default());
        meter.read_max.set(read_max);
        (Metered { inner, meter: meter.clone() }, meter)
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
        let (meter, got) = (&self.meter, (buf.filled().len() - before) as u64);
        meter.read.set(meter.read.get() + got);
        if meter.read_max.get() != 0 && meter.read.get() > meter.read_max.get() {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "too many bytes before the handshake was done",
            )));
        }
        polled
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = polled {
            self.meter.written.set(self.meter.written.get() + count as u64);
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
