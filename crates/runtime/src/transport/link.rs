//! One connection to a peer: a queue of bytes going out, a stream of frames coming in, one task.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kringle_core::contact::{Addr, Contact};
use kringle_core::id::NodeId;
use kringle_core::message::Nonce;
use kringle_core::time::Time;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::stream::Stream;

/// Bytes that may wait for a peer. What comes beyond is not queued, and the sender is told.
pub(crate) const QUEUE_MAX: usize = 8 << 20;
/// Bytes read at once.
pub(crate) const READ: usize = 64 * 1024;
/// A buffer that grew beyond this is given back when it is empty.
const KEEP: usize = 16 * 1024;

/// A connection, as the driver sees it.
pub(crate) struct Link {
    pub(crate) serial: u64,
    pub(crate) peer: NodeId,
    pub(crate) incarnation: u32,
    pub(crate) instance: u64,
    pub(crate) addr: Addr,
    pub(crate) region: Option<String>,
    pub(crate) bulk: bool,
    /// Whether this node opened it.
    pub(crate) dialled: bool,
    /// When the last byte came in or went out.
    pub(crate) used: Cell<Time>,
    /// Since when bytes have waited without any of them leaving.
    pub(crate) stuck: Cell<Option<Time>>,
    /// Since when bytes have gone out without any coming in.
    pub(crate) unheard: Cell<Option<Time>>,
    /// The last round trip measured.
    pub(crate) rtt: Cell<Option<u32>>,
    /// Whether it ends because it is not needed any more, and not because the peer is gone.
    pub(crate) orderly: Cell<bool>,
    /// The node between this one and the peer, if it cannot be reached otherwise.
    pub(crate) via: Cell<Option<NodeId>>,
    /// A question under way that will be timed.
    pub(crate) timed: Cell<Option<(Nonce, Time)>>,
    /// Set when the link begins to end.
    closing: Notify,
    out: RefCell<Out>,
}

#[derive(Default)]
struct Out {
    queue: Vec<u8>,
    waker: Option<Waker>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum State {
    #[default]
    Open,
    /// What is queued still leaves, then the connection ends.
    Draining,
    /// The connection ends now.
    Ended,
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// We closed it.
    Closed,
    /// The peer closed it in an orderly way.
    Finished,
    /// It broke.
    Broken,
}

/// What a link needs of whoever owns the node.
pub(crate) trait Owner {
    /// Takes bytes that came in: whole frames first. Returns how many were used, or `Err` if the connection must end.
    fn frames(&self, link: &Rc<Link>, bytes: &[u8]) -> Result<usize, ()>;

    /// Lends a buffer to read into.
    fn lend(&self) -> Vec<u8>;

    /// Takes the buffer back.
    fn give_back(&self, buffer: Vec<u8>);

    /// Returns the time.
    fn now(&self) -> Time;
}

/// What is known about the peer when a link is made.
pub(crate) struct Ends {
    pub(crate) serial: u64,
    pub(crate) peer: NodeId,
    pub(crate) incarnation: u32,
    pub(crate) instance: u64,
    pub(crate) addr: Addr,
    pub(crate) region: Option<String>,
    pub(crate) bulk: bool,
    pub(crate) dialled: bool,
    pub(crate) rtt: Option<u32>,
    pub(crate) now: Time,
}

impl Link {
    pub(crate) fn new(ends: Ends) -> Rc<Link> {
        Rc::new(Link {
            serial: ends.serial,
            peer: ends.peer,
            incarnation: ends.incarnation,
            instance: ends.instance,
            addr: ends.addr,
            region: ends.region,
            bulk: ends.bulk,
            dialled: ends.dialled,
            used: Cell::new(ends.now),
            stuck: Cell::new(None),
            unheard: Cell::new(None),
            rtt: Cell::new(ends.rtt),
            orderly: Cell::new(false),
            via: Cell::new(None),
            timed: Cell::new(None),
            closing: Notify::new(),
            out: RefCell::default(),
        })
    }

    /// Returns how the core knows the peer.
    pub(crate) fn contact(&self) -> Contact {
        Contact::new(self.peer, self.incarnation, self.addr)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.out.borrow().state == State::Open
    }

    /// Queues what `write` appends. `None`: the link is closing or the queue is full, and nothing was queued. Otherwise
    /// whether the queue was empty before: then somebody has to call [`Link::wake`].
    pub(crate) fn queue(&self, now: Time, write: impl FnOnce(&mut Vec<u8>)) -> Option<bool> {
        let out = &mut *self.out.borrow_mut();
        if out.state != State::Open || out.queue.len() >= QUEUE_MAX {
            return None;
        }
        let idle = out.queue.is_empty();
        write(&mut out.queue);
        if idle && self.stuck.get().is_none() {
            self.stuck.set(Some(now));
        }
        Some(idle)
    }

    /// Lets the task of this link write what is queued.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.out.borrow_mut().waker.take() {
            waker.wake();
        }
    }

    /// Ends the link: after what is queued has left, or at once.
    pub(crate) fn close(&self, drain: bool) {
        let out = &mut *self.out.borrow_mut();
        if out.state != State::Ended {
            out.state = if drain { State::Draining } else { State::Ended };
        }
        self.closing.notify_one();
        if let Some(waker) = out.waker.take() {
            waker.wake();
        }
    }
}

/// How long a link may take to end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Carries bytes both ways until the connection ends.
pub(crate) async fn run(stream: Stream, link: Rc<Link>, owner: &impl Owner) -> End {
    let mut pump =
        Pump { stream, writing: Vec::new(), written: 0, flush: false, finished: false, inbox: Vec::new() };
    let end = tokio::select! {
        end = poll_fn(|cx| pump.poll(&link, owner, cx)) => end,
        () = async {
            link.closing.notified().await;
            tokio::time::sleep(LAST_WORDS).await;
        } => End::Closed,
    };
    link.close(false);
    end
}

struct Pump {
    stream: Stream,
    writing: Vec<u8>,
    written: usize,
    flush: bool,
    /// Whether our side has said its last.
    finished: bool,
    /// The beginning of a frame whose end has not come yet.
    inbox: Vec<u8>,
}

impl Pump {
    fn poll(&mut self, link: &Rc<Link>, owner: &impl Owner, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            let state = {
                let out = &mut *link.out.borrow_mut();
                if out.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                    out.waker = Some(cx.waker().clone());
                }
                out.state
            };
            if state == State::Ended {
                return Poll::Ready(End::Closed);
            }
            match self.write(link, owner, cx) {
                Err(_) => return Poll::Ready(End::Broken),
                Ok(true) if state == State::Draining && !self.finished => {
                    // What the peer has sent meanwhile still counts: reading goes on until it has finished, too.
                    match Pin::new(&mut self.stream).poll_shutdown(cx) {
                        Poll::Ready(Ok(())) => self.finished = true,
                        Poll::Ready(Err(_)) => return Poll::Ready(End::Closed),
                        Poll::Pending => {}
                    }
                }
                Ok(_) => {}
            }
            match self.read(link, owner, cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) if state == State::Draining => return Poll::Ready(End::Closed),
                Poll::Ready(Ok(false)) => return Poll::Ready(End::Finished),
                Poll::Ready(Err(_)) => return Poll::Ready(End::Broken),
                Poll::Pending if link.out.borrow().queue.is_empty() || self.written < self.writing.len() => {
                    return Poll::Pending;
                }
                Poll::Pending => {}
            }
        }
    }

    /// Writes what there is. Returns whether all of it has left.
    fn write(&mut self, link: &Link, owner: &impl Owner, cx: &mut Context<'_>) -> io::Result<bool> {
        loop {
            if self.written == self.writing.len() {
                self.written = 0;
                self.writing.clear();
                if self.writing.capacity() > KEEP {
                    self.writing = Vec::new();
                }
                std::mem::swap(&mut self.writing, &mut link.out.borrow_mut().queue);
                if self.writing.is_empty() {
                    break;
                }
            }
            match Pin::new(&mut self.stream).poll_write(cx, &self.writing[self.written..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    self.flush = true;
                    let now = owner.now();
                    link.used.set(now);
                    link.stuck.set(Some(now));
                    if link.unheard.get().is_none() {
                        link.unheard.set(Some(now));
                    }
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(false),
            }
        }
        if self.flush {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(flushed) => flushed?,
                Poll::Pending => return Ok(false),
            }
            self.flush = false;
        }
        link.stuck.set(None);
        Ok(true)
    }

    /// Reads once. `Ok(false)`: the peer has finished.
    fn read(&mut self, link: &Rc<Link>, owner: &impl Owner, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut buffer = owner.lend();
        let mut into = ReadBuf::new(&mut buffer);
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut into);
        let count = into.filled().len();
        let result = match polled {
            Poll::Ready(Ok(())) if count == 0 => Poll::Ready(Ok(false)),
            Poll::Ready(Ok(())) => {
                link.used.set(owner.now());
                link.unheard.set(None);
                let taken = self.take(link, owner, &buffer[..count]);
                Poll::Ready(taken.map(|()| true).map_err(|()| io::ErrorKind::InvalidData.into()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        };
        owner.give_back(buffer);
        result
    }

    fn take(&mut self, link: &Rc<Link>, owner: &impl Owner, bytes: &[u8]) -> Result<(), ()> {
        if self.inbox.is_empty() {
            let used = owner.frames(link, bytes)?;
            self.inbox.extend_from_slice(&bytes[used..]);
        } else {
            self.inbox.extend_from_slice(bytes);
            let used = owner.frames(link, &self.inbox)?;
            self.inbox.drain(..used);
        }
        if self.inbox.is_empty() && self.inbox.capacity() > KEEP {
            self.inbox = Vec::new();
        }
        Ok(())
    }
}
