//! What one call has asked for, keys or the facts about chains, on the threads of the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::certificate::bridge::Question;
use crate::key::{GeneratedKey, KeyRequest, KeyType, PrivateKey};
use crate::key_error::KeyError;
use crate::outbox::{Answer, Outbox};
use crate::work_queue::{Finished, Job, WorkQueue};

/// Of all environments and generators of this process.
pub static THREADS: WorkQueue<QueuedJob> = WorkQueue::new();

pub struct QueuedJob {
    pub id: u32,
    pub work: Work,
    pub outbox: Arc<Outbox>,
    pub cancelled: Arc<AtomicBool>,
}

pub enum Work {
    /// Each is answered by itself: so a request that is refused takes no other along.
    Keys(Vec<Result<KeyRequest, KeyError>>),
    Chains(Vec<Question>),
}

impl QueuedJob {
    fn key(&self, request: &KeyRequest) -> Result<GeneratedKey, KeyError> {
        PrivateKey::generate(request.key_type, request.rsa_method, &self.cancelled)?.answer(request)
    }
}

impl Job for QueuedJob {
    type Output = Answer;

    fn pieces(&self) -> usize {
        match &self.work {
            Work::Keys(requests) => requests.len(),
            Work::Chains(questions) => questions.len(),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn is_quick(&self, piece: usize) -> bool {
        match &self.work {
            Work::Keys(requests) => {
                let is_rsa = |it: &KeyRequest| matches!(it.key_type, KeyType::Rsa(_));
                !requests[piece].as_ref().is_ok_and(is_rsa)
            }
            Work::Chains(_) => true,
        }
    }

    fn run(&self, piece: usize) -> Self::Output {
        match &self.work {
            Work::Keys(requests) => {
                let key = guarded(|| {
                    let request = requests[piece].as_ref().map_err(KeyError::clone)?;
                    self.key(request)
                });
                key.map_or_else(
                    |error| Answer::problem("generate a key", &error),
                    Answer::Key,
                )
            }
            Work::Chains(questions) => {
                let facts = guarded(|| Ok(questions[piece].facts()));
                facts.map_or_else(
                    |error| Answer::problem("read a chain", &error),
                    Answer::Facts,
                )
            }
        }
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
fn guarded<T>(work: impl FnOnce() -> Result<T, KeyError>) -> Result<T, KeyError> {
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
