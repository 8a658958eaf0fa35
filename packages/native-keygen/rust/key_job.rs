//! Keys for the requests of one call, on the threads of the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::key::{GeneratedKey, KeyRequest, KeyType, PrivateKey};
use crate::key_error::KeyError;
use crate::outbox::Outbox;
use crate::pool::Pool;
use crate::work_queue::{Finished, Job, WorkQueue};

/// Of all environments and generators of this process.
pub static THREADS: WorkQueue<KeyJob> = WorkQueue::new();

pub struct KeyJob {
    pub id: u32,
    pub requests: Vec<KeyRequest>,
    /// Keys made ahead, where there are any.
    pub pool: Option<Arc<Pool<PrivateKey>>>,
    pub outbox: Arc<Outbox>,
    pub cancelled: Arc<AtomicBool>,
}

impl KeyJob {
    fn answer(&self, request: &KeyRequest) -> Result<GeneratedKey, KeyError> {
        let pooled = self
            .pool
            .as_ref()
            .and_then(|pool| pool.take(request.key_type));
        let key = match pooled {
            Some(key) => key,
            None => PrivateKey::generate(request.key_type, request.rsa_method, &self.cancelled)?,
        };
        key.answer(request)
    }
}

impl Job for KeyJob {
    type Output = Result<GeneratedKey, KeyError>;

    fn pieces(&self) -> usize {
        self.requests.len()
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn is_quick(&self, piece: usize) -> bool {
        !matches!(self.requests[piece].key_type, KeyType::Rsa(_))
    }

    fn run(&self, piece: usize) -> Self::Output {
        guarded(|| self.answer(&self.requests[piece]))
    }

    fn deliver(finished: Vec<Finished<Self>>) {
        let mut outboxes: Vec<Arc<Outbox>> = Vec::new();
        for Finished { job, piece, output } in finished {
            job.outbox.add(job.id, piece, output);
            if !outboxes.iter().any(|known| Arc::ptr_eq(known, &job.outbox)) {
                outboxes.push(Arc::clone(&job.outbox));
            }
        }
        for outbox in outboxes {
            outbox.announce();
        }
    }
}

/// `work`, with a panic as an error. It must not leave behind anything half-changed.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, KeyError>) -> Result<T, KeyError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(KeyError::Panicked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rsa::Method;

    #[test]
    fn a_panic_is_an_error() {
        let answer: Result<(), _> = guarded(|| panic!("on purpose"));
        assert_eq!(answer, Err(KeyError::Panicked));
    }

    #[test]
    fn the_search_for_an_rsa_key_stops_when_its_job_is_cancelled() {
        let cancelled = AtomicBool::new(true);
        let rsa = "rsa-4096".parse().expect("a key type");
        for method in Method::ALL.into_iter().filter(|it| it.is_available()) {
            let answer = PrivateKey::generate(rsa, method, &cancelled).map(|_| ());
            assert_eq!(answer, Err(KeyError::Cancelled), "{}", method.name());
        }
    }
}
