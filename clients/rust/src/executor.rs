//! Waits for a future in a thread: the client knows no runtime, and runs under any.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Return what the future gives; the calling thread waits.
///
/// It drives any future that needs no runtime of its own. In a task of a runtime, await the future instead.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future: Pin<Box<F>> = Box::pin(future);
    let waker = waker();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

pub(crate) fn block_on_for<F: Future>(future: F, patience: Duration) -> Option<F::Output> {
    let mut future: Pin<Box<F>> = Box::pin(future);
    let waker = waker();
    let end = Instant::now() + patience;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}
