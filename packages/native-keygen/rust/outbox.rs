//! Finished work for one JavaScript environment, until its event loop fetches it: many keys a wake-up, so that it is
//! not called for each, and some at a time, so that it is not held up for long.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key::GeneratedKey;
use crate::key_error::KeyError;

/// Of a record: job, piece, status, and the lengths of the three parts that follow, each padded to whole words.
const HEADER_WORDS: usize = 6;
const WORD: usize = size_of::<u32>();
/// Promises that one turn of the event loop settles: what is waiting for them runs in the same turn.
const MAX_RECORDS: u32 = 64;

pub const DONE: u32 = 0;
pub const WRONG_INPUT: u32 = 1;
pub const FAILED: u32 = 2;

#[derive(Default)]
pub struct Outbox {
    state: Mutex<State>,
}

/// Notifies the event loop; called once until it has fetched all.
type Wake = Box<dyn Fn() + Send>;

#[derive(Default)]
struct State {
    finished: VecDeque<Finished>,
    /// Jobs that somebody waits for, with what is missing of them.
    jobs: HashMap<u32, Expected>,
    /// Absent once the environment is gone.
    wake: Option<Wake>,
    /// Whether somebody can use what is finished.
    is_due: bool,
    is_woken: bool,
}

struct Expected {
    cancelled: Arc<AtomicBool>,
    pieces: usize,
}

struct Finished {
    job: u32,
    piece: u32,
    answer: Answer,
}

pub enum Answer {
    Key(GeneratedKey),
    /// The record of a chain.
    Facts(Vec<u8>),
    Problem {
        status: u32,
        message: String,
    },
}

impl Outbox {
    pub fn new(wake: Wake) -> Self {
        let outbox = Self::default();
        outbox.lock().wake = Some(wake);
        outbox
    }

    /// Answers to other jobs than those that are expected are dropped. `cancelled` is set when that happens.
    pub fn expect(&self, job: u32, pieces: usize, cancelled: &Arc<AtomicBool>) {
        let expected = Expected {
            cancelled: Arc::clone(cancelled),
            pieces,
        };
        self.lock().jobs.insert(job, expected);
    }

    /// To be followed by `announce`, when all that is finished at the moment was added.
    pub fn add(&self, job: u32, piece: usize, answer: Answer) {
        let mut state = self.lock();
        let Some(expected) = state.jobs.get_mut(&job) else {
            return;
        };
        expected.pieces -= 1;
        let is_last = expected.pieces == 0;
        if is_last {
            state.jobs.remove(&job);
        }
        // Whoever waits for the whole job may want to cancel the rest of it.
        let is_problem = matches!(answer, Answer::Problem { .. });
        state.finished.push_back(Finished {
            job,
            piece: piece as u32,
            answer,
        });
        // A job is fetched in parts only so that it is not too much at the end: most callers wait for the whole.
        state.is_due |= is_last || is_problem || state.finished.len() >= MAX_RECORDS as usize;
    }

    /// Wakes the event loop, if that is worth it and was not done yet.
    pub fn announce(&self) {
        let mut state = self.lock();
        if let Some(wake) = &state.wake
            && state.is_due
            && !state.is_woken
        {
            wake();
            state.is_woken = true;
        }
    }

    /// Sets the flag of a job and drops what is finished of it.
    pub fn cancel(&self, job: u32) {
        let mut state = self.lock();
        if let Some(expected) = state.jobs.remove(&job) {
            expected.cancelled.store(true, Ordering::Relaxed);
        }
        state.finished.retain(|finished| finished.job != job);
    }

    /// Cancels all jobs and drops what is finished, and keys with it. `wake` is not called any more once this returns.
    pub fn close(&self) {
        let mut state = self.lock();
        state.wake = None;
        state.finished.clear();
        for (_, expected) in state.jobs.drain() {
            expected.cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Writes as many records to `page` as fit, their number in its first word, numbers in the machine's byte order. Every
    /// record fits into 128 KiB. `true` if there is more to fetch: then nobody is woken for it.
    pub fn drain(&self, page: &mut [u8]) -> bool {
        let mut state = self.lock();
        let (mut records, mut end) = (0, WORD);
        while records < MAX_RECORDS
            && let Some(next) = state.finished.front()
            && end + next.length() <= page.len()
        {
            end += next.write(&mut page[end..]);
            state.finished.pop_front();
            records += 1;
        }
        page[..WORD].copy_from_slice(&records.to_ne_bytes());
        let has_more = !state.finished.is_empty();
        (state.is_due, state.is_woken) = (has_more, has_more);
        has_more
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Finished {
    fn length(&self) -> usize {
        let parts = self.parts().map(|part| part.len().next_multiple_of(WORD));
        HEADER_WORDS * WORD + parts.iter().sum::<usize>()
    }

    fn status(&self) -> u32 {
        match self.answer {
            Answer::Key(_) | Answer::Facts(_) => DONE,
            Answer::Problem { status, .. } => status,
        }
    }

    fn parts(&self) -> [&[u8]; 3] {
        match &self.answer {
            Answer::Key(key) => [&key.private_key_pem, &key.csr_der, &key.public_key_der],
            Answer::Facts(record) => [record, &[], &[]],
            Answer::Problem { message, .. } => [message.as_bytes(), &[], &[]],
        }
    }

    /// The number of bytes written, which is `length`.
    fn write(&self, page: &mut [u8]) -> usize {
        let parts = self.parts();
        let [first, second, third] = parts.map(|part| part.len() as u32);
        let header = [self.job, self.piece, self.status(), first, second, third];
        let (header_bytes, mut rest) = page.split_at_mut(HEADER_WORDS * WORD);
        for (word, bytes) in header.iter().zip(header_bytes.chunks_exact_mut(WORD)) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        for part in parts {
            rest[..part.len()].copy_from_slice(part);
            rest = &mut rest[part.len().next_multiple_of(WORD)..];
        }
        self.length()
    }
}

impl Answer {
    /// `action` is what could not be done.
    pub fn problem(action: &str, error: &KeyError) -> Self {
        Self::Problem {
            status: match error {
                KeyError::Input(_) => WRONG_INPUT,
                _ => FAILED,
            },
            message: format!("Cannot {action}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use zeroize::Zeroizing;

    use super::*;

    fn key(pem: &[u8]) -> Answer {
        Answer::Key(GeneratedKey {
            private_key_pem: Zeroizing::new(pem.to_vec()),
            csr_der: vec![2; 5],
            public_key_der: vec![3; 4],
        })
    }

    /// An outbox that expects `pieces` of job 7, its wake-ups, and the job's flag.
    fn outbox(pieces: usize) -> (Outbox, Arc<AtomicUsize>, Arc<AtomicBool>) {
        let (wakes, cancelled) = (Arc::<AtomicUsize>::default(), Arc::default());
        let counter = Arc::clone(&wakes);
        let outbox = Outbox::new(Box::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        outbox.expect(7, pieces, &cancelled);
        (outbox, wakes, cancelled)
    }

    fn add(outbox: &Outbox, piece: usize, answer: Answer) {
        outbox.add(7, piece, answer);
        outbox.announce();
    }

    fn words(page: &[u8]) -> Vec<u32> {
        page.chunks_exact(WORD)
            .map(|word| u32::from_ne_bytes(word.try_into().expect("a word")))
            .collect()
    }

    fn records_in(page: &[u8]) -> u32 {
        words(page)[0]
    }

    #[test]
    fn a_record_holds_its_job_its_piece_and_three_padded_parts() {
        let (outbox, ..) = outbox(3);
        add(&outbox, 2, key(b"1"));
        let mut page = [0xff; 64];
        assert!(!outbox.drain(&mut page));
        assert_eq!(words(&page)[..7], [1, 7, 2, DONE, 1, 5, 4]);
        assert_eq!(page[28..29], *b"1");
        assert_eq!(page[32..37], [2; 5]);
        assert_eq!(page[40..44], [3; 4]);
    }

    #[test]
    fn a_part_of_a_job_wakes_nobody_until_it_is_many_keys() {
        let (outbox, wakes, _) = outbox(MAX_RECORDS as usize + 2);
        for piece in 0..MAX_RECORDS as usize - 1 {
            add(&outbox, piece, key(b"pem"));
        }
        assert_eq!(wakes.load(Ordering::Relaxed), 0);
        add(&outbox, 0, key(b"pem"));
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        assert!(!outbox.drain(&mut [0; 16_384]));
        add(&outbox, 0, key(b"pem"));
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        add(&outbox, 0, key(b"the last one"));
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn one_wake_up_serves_all_that_comes_before_the_last_is_fetched() {
        let (outbox, wakes, _) = outbox(102);
        for piece in 0..100 {
            add(&outbox, piece, key(b"pem"));
        }
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        let mut page = [0; 16_384];
        assert!(outbox.drain(&mut page));
        assert_eq!(records_in(&page), MAX_RECORDS);
        add(&outbox, 100, key(b"pem"));
        assert!(!outbox.drain(&mut page));
        assert_eq!(records_in(&page), 101 - MAX_RECORDS);
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        add(&outbox, 101, key(b"pem"));
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_does_not_fit_waits_for_the_next_page() {
        let (outbox, ..) = outbox(2);
        add(&outbox, 0, key(&[1; 20]));
        add(&outbox, 1, key(&[1; 20]));
        let mut page = [0; 100];
        assert!(outbox.drain(&mut page));
        assert_eq!(records_in(&page), 1);
        assert!(!outbox.drain(&mut page));
        assert_eq!(words(&page)[..3], [1, 7, 1]);
    }

    #[test]
    fn a_failure_is_told_at_once_and_the_other_pieces_of_its_job_come() {
        let (outbox, wakes, cancelled) = outbox(3);
        add(&outbox, 1, Answer::problem("try", &KeyError::Panicked));
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        let mut page = [0; 256];
        assert!(!outbox.drain(&mut page));
        assert_eq!(words(&page)[..4], [1, 7, 1, FAILED]);
        let length = words(&page)[4] as usize;
        assert_eq!(
            str::from_utf8(&page[28..28 + length]).map(|text| text.contains("panicked")),
            Ok(true)
        );
        add(&outbox, 0, key(b"other"));
        add(&outbox, 2, key(b"last"));
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
        assert!(!outbox.drain(&mut page));
        assert_eq!(records_in(&page), 2);
        assert!(!cancelled.load(Ordering::Relaxed));
    }

    #[test]
    fn nobody_hears_of_a_cancelled_job_or_of_a_closed_outbox() {
        let (outbox, wakes, cancelled) = outbox(2);
        add(&outbox, 0, key(b"early"));
        outbox.cancel(7);
        assert!(cancelled.load(Ordering::Relaxed));
        assert!(outbox.lock().finished.is_empty());
        add(&outbox, 1, key(b"late"));
        let other = Arc::default();
        outbox.expect(8, 1, &other);
        outbox.close();
        assert!(other.load(Ordering::Relaxed));
        outbox.add(8, 0, key(b"late"));
        outbox.announce();
        assert_eq!(wakes.load(Ordering::Relaxed), 0);
        let mut page = [0; 256];
        assert!(!outbox.drain(&mut page));
        assert_eq!(records_in(&page), 0);
    }
}
