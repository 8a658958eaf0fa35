//! The work of one call, keys or the facts about chains, on the threads of the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::certificate::bridge::{Facts, Question};
use crate::key::{GeneratedKey, KeyRequest, KeyType, generate};
use crate::key_error::KeyError;
use crate::work_queue::{Job, WorkQueue};

/// The threads of all environments and generators of this process.
pub static THREADS: WorkQueue<QueuedJob> = WorkQueue::new();

pub enum Work {
    Keys(Vec<KeyRequest>),
    Chains(Vec<Question>),
}

/// The result of one piece of work.
pub enum Output {
    Key(GeneratedKey),
    Facts(Facts),
}

/// Takes the results of all pieces in order, or the first problem, on any thread.
type Answer = Box<dyn FnOnce(Result<Vec<Output>, KeyError>) + Send>;

pub struct QueuedJob {
    work: Work,
    cancelled: AtomicBool,
    /// Absent once it is answered.
    open: Mutex<Option<Open>>,
}

struct Open {
    outputs: Vec<Option<Output>>,
    missing: usize,
    answer: Answer,
}

impl QueuedJob {
    /// `answer` is called once, unless the job is dropped before it starts.
    pub fn new(work: Work, answer: Answer) -> Arc<Self> {
        let pieces = work.pieces();
        Arc::new(Self {
            work,
            cancelled: AtomicBool::new(false),
            open: Mutex::new(Some(Open {
                outputs: (0..pieces).map(|_| None).collect(),
                missing: pieces,
                answer,
            })),
        })
    }

    pub fn start(self: Arc<Self>) {
        if self.pieces() == 0 {
            self.finish();
        } else if let Err(error) = THREADS.add(Arc::clone(&self)) {
            self.fail(KeyError::NoThread(error.to_string()));
        }
    }

    /// Drops what is queued, and stops the search for an RSA key within milliseconds.
    pub fn cancel(&self) {
        self.fail(KeyError::Cancelled);
    }

    /// Later results are dropped.
    fn fail(&self, error: KeyError) {
        self.cancelled.store(true, Ordering::Relaxed);
        let open = self.open().take();
        if let Some(Open { answer, .. }) = open {
            answer(Err(error));
        }
    }

    fn finish(&self) {
        let open = self.open().take();
        if let Some(Open {
            outputs, answer, ..
        }) = open
        {
            answer(Ok(outputs.into_iter().flatten().collect()));
        }
    }

    fn keep(&self, piece: usize, output: Output) {
        let mut open = self.open();
        let Some(job) = &mut *open else {
            return;
        };
        job.outputs[piece] = Some(output);
        job.missing -= 1;
        let is_last = job.missing == 0;
        drop(open);
        if is_last {
            self.finish();
        }
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    fn pieces(&self) -> usize {
        match self {
            Self::Keys(requests) => requests.len(),
            Self::Chains(questions) => questions.len(),
        }
    }
}

impl Job for QueuedJob {
    fn pieces(&self) -> usize {
        self.work.pieces()
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn is_quick(&self, piece: usize) -> bool {
        match &self.work {
            Work::Keys(requests) => !matches!(requests[piece].key_type, KeyType::Rsa(_)),
            Work::Chains(_) => true,
        }
    }

    fn run(&self, piece: usize) {
        let output = guarded(|| match &self.work {
            Work::Keys(requests) => generate(&requests[piece], &self.cancelled).map(Output::Key),
            Work::Chains(questions) => Ok(Output::Facts(questions[piece].facts())),
        });
        match output {
            Ok(output) => self.keep(piece, output),
            Err(error) => self.fail(error),
        }
    }
}

/// `work`, with a panic as an error. It must not leave behind anything half-changed.
fn guarded<T>(work: impl FnOnce() -> Result<T, KeyError>) -> Result<T, KeyError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(KeyError::Panicked))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::key::PrivateKey;
    use crate::rsa::Method;

    type Answered = Receiver<Result<Vec<Output>, KeyError>>;

    /// A job for these identities that no queue has, and its answers.
    fn job(identities: &[&str]) -> (Arc<QueuedJob>, Answered) {
        let request = |identity: &&str| {
            let identity = (*identity).into();
            KeyRequest::parse("ecdsa-p256", Method::Library, identity, vec![], "pkcs8")
                .expect("a request")
        };
        let (sender, answered) = channel();
        let work = Work::Keys(identities.iter().map(request).collect());
        let answer = move |outputs| sender.send(outputs).expect("a test that waits");
        (QueuedJob::new(work, Box::new(answer)), answered)
    }

    #[test]
    fn the_last_piece_answers_in_the_order_of_the_requests() {
        let (job, answered) = job(&["spiffe://a/b", "spiffe://a/longer"]);
        job.run(1);
        assert!(answered.try_recv().is_err());
        job.run(0);
        let outputs = answered.recv().expect("an answer").expect("keys");
        let lengths = outputs.iter().map(|output| match output {
            Output::Key(key) => key
                .csr_der
                .windows(12)
                .filter(|it| it == b"spiffe://a/l")
                .count(),
            Output::Facts(_) => panic!("a chain"),
        });
        assert_eq!(lengths.collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn the_first_problem_is_the_answer_and_nothing_that_comes_later_is_kept() {
        let (job, answered) = job(&["spiffe://a/b", "spiffe://a/c"]);
        job.run(0);
        job.fail(KeyError::Panicked);
        assert!(job.is_cancelled());
        job.run(1);
        job.cancel();
        let problems: Vec<_> = answered.try_iter().map(Result::err).collect();
        assert_eq!(problems, [Some(KeyError::Panicked)]);
        assert!(job.open().is_none());
    }

    #[test]
    fn a_job_without_pieces_is_answered_at_once() {
        let (job, answered) = job(&[]);
        job.start();
        assert!(
            answered
                .try_recv()
                .is_ok_and(|it| it.is_ok_and(|it| it.is_empty()))
        );
    }

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
