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
pub fn block_on<F: Future>(future: F) -> F::Output {
    match wait(future, None) {
        Some(output) => output,
        None => unreachable!("there is no deadline"),
    }
}

pub(crate) fn block_on_for<F: Future>(future: F, patience: Duration) -> Option<F::Output> {
    wait(future, Some(Instant::now() + patience))
}

fn wait<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let mut future: Pin<Box<F>> = Box::pin(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        match deadline {
            None => thread::park(),
            Some(end) => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                thread::park_timeout(left);
            }
        }
    }
}
