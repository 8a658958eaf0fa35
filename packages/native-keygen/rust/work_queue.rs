//! Threads that share all work, at most one per core, in turns: each job gives one piece of its work at a time, so that a
//! short job does not wait behind a long one. Quick pieces go first. A thread starts when work finds no free thread, and
//! ends when no caller is left that could add more.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use crate::background::stand_back;

/// Pieces of work that belong together, numbered from 0.
pub trait Job: Send + Sync + 'static {
    fn pieces(&self) -> usize;

    /// Whether the pieces that are still queued are to be dropped.
    fn is_cancelled(&self) -> bool;

    /// Whether a piece takes microseconds.
    fn is_quick(&self, piece: usize) -> bool;

    /// Must not panic.
    fn run(&self, piece: usize);
}

pub struct WorkQueue<J: Job> {
    state: Mutex<State<J>>,
    ready: Condvar,
}

struct State<J> {
    /// The turns, quick pieces first.
    turns: VecDeque<Turn<J>>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait and were not called yet.
    waiting: usize,
    /// Calls that no thread has answered yet.
    calls: usize,
    users: usize,
    is_closing: bool,
}

/// A job and the next of its pieces.
struct Turn<J> {
    job: Arc<J>,
    piece: usize,
}

impl<J: Job> WorkQueue<J> {
    pub const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                turns: VecDeque::new(),
                threads: Vec::new(),
                waiting: 0,
                calls: 0,
                users: 0,
                is_closing: false,
            }),
            ready: Condvar::new(),
        }
    }

    /// Every caller that adds work calls this first.
    pub fn enter(&self) {
        self.lock().users += 1;
    }

    /// Call it once for each `enter`, with all own jobs cancelled. The last one waits for the threads to end.
    pub fn leave(&'static self) {
        let mut state = self.lock();
        state.users -= 1;
        if state.users > 0 || state.is_closing {
            return;
        }
        state.is_closing = true;
        let threads = mem::take(&mut state.threads);
        drop(state);
        self.ready.notify_all();
        for thread in threads {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
        let mut state = self.lock();
        state.is_closing = false;
        (state.waiting, state.calls) = (0, 0);
        // A caller may have entered meanwhile. A thread that does not start now starts with the next work.
        state.turns.retain(|turn| !turn.job.is_cancelled());
        let queued = state.turns.len();
        let _ = self.engage(queued, &mut state);
    }

    /// Fails if there is no thread and the system refuses one; the job is not taken then.
    pub fn add(&'static self, job: Arc<J>) -> io::Result<()> {
        let pieces = job.pieces();
        if pieces == 0 {
            return Ok(());
        }
        let mut state = self.lock();
        let called = self.engage(pieces, &mut state)?;
        state.queue(Turn { job, piece: 0 });
        drop(state);
        for _ in 0..called {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Finds threads for `pieces` more pieces: returns how many waiting threads to wake.
    fn engage(&'static self, pieces: usize, state: &mut State<J>) -> io::Result<usize> {
        if state.is_closing {
            return Ok(0);
        }
        let called = pieces.min(state.waiting);
        state.waiting -= called;
        state.calls += called;
        for _ in called..pieces.min(cores()) {
            if state.threads.len() == cores() {
                break;
            }
            let thread = thread::Builder::new().name("livery-keys".into());
            match thread.spawn(|| {
                stand_back();
                self.work();
            }) {
                Ok(thread) => state.threads.push(thread),
                Err(error) if state.threads.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(called)
    }

    fn work(&self) {
        while let Some(Turn { job, piece }) = self.next() {
            job.run(piece);
        }
    }

    /// The next piece, or `None` at the end of the thread.
    fn next(&self) -> Option<Turn<J>> {
        let mut state = self.lock();
        loop {
            if state.is_closing {
                return None;
            }
            let next = state.next();
            if next.is_some() {
                return next;
            }
            state.waiting += 1;
            while state.calls == 0 && !state.is_closing {
                state = self
                    .ready
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            state.calls = state.calls.saturating_sub(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Job> State<J> {
    /// One piece of the job whose turn it is, which then queues again.
    fn next(&mut self) -> Option<Turn<J>> {
        while let Some(Turn { job, piece }) = self.turns.pop_front() {
            if job.is_cancelled() {
                continue;
            }
            if piece + 1 < job.pieces() {
                self.queue(Turn {
                    job: Arc::clone(&job),
                    piece: piece + 1,
                });
            }
            return Some(Turn { job, piece });
        }
        None
    }

    /// Queues the turn behind all equally quick ones.
    fn queue(&mut self, turn: Turn<J>) {
        let is_quick = |turn: &Turn<J>| turn.job.is_quick(turn.piece);
        let place = match is_quick(&turn) {
            true => self.turns.partition_point(is_quick),
            false => self.turns.len(),
        };
        self.turns.insert(place, turn);
    }
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}
