//! Connections whose other side takes nothing: a write that makes no progress for a while fails, so that no client can hold a connection for ever.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream whose writes fail if they make no progress for a while.
#[derive(Debug)]
pub(crate) struct StallGuard<S> {
    stream: S,
    patience: Duration,
    /// When the write that waits is given up; `None` while none waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    /// Guards a stream.
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, deadline: None }
    }

    /// Passes on what a write has come to, unless it has waited for too long.
    fn guarded<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.deadline = None;
            return polled;
        }
        let until = Instant::now() + self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        std::task::ready!(deadline.as_mut().poll(context));
        let message = format!("the other side has taken nothing for {} seconds", self.patience.as_secs_f64());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, buf);
        self.guarded(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.guarded(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.guarded(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bufs);
        self.guarded(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
    }

    #[test]
    fn a_write_that_nobody_reads_fails() {
        run(async {
            let (one, _other) = tokio::io::duplex(4);
            let mut guarded = StallGuard::new(one, Duration::from_millis(20));
            guarded.write_all(b"1234").await.unwrap();
            assert_eq!(guarded.write_all(b"5").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_slow_reader_is_waited_for() {
        run(async {
            let (one, mut other) = tokio::io::duplex(4);
            let mut guarded = StallGuard::new(one, Duration::from_secs(20));
            let writing = tokio::spawn(async move { guarded.write_all(&[7; 64]).await });
            let mut read = Vec::new();
            while read.len() < 64 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let mut some = [0; 8];
                let count = other.read(&mut some).await.unwrap();
                read.extend_from_slice(&some[..count]);
            }
            writing.await.unwrap().unwrap();
            assert_eq!(read, [7; 64]);
        });
    }
}
