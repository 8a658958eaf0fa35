//! Keys made ahead, by one thread that uses only what others leave. They have no identity yet: that comes with the CSR
//! when they are handed out.
//!
//! The thread that fills the pool can be kept off its core for long, even while it holds the lock. So a thread that
//! makes keys in the foreground does not wait for the lock: it acts as if no key were ready. Stopping the pool does not wait
//! either: the thread itself wipes the keys, when it has a core.

mod shelf;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::background::{Budget, Reading, lower_priority};
use crate::key::KeyType;
use crate::key_error::KeyError;
use shelf::{MAX_AGE, Shelf};

/// Between looks whether a core has become free of foreground work.
const PAUSE: Duration = Duration::from_millis(10);
/// Of a lock that is held for some hundred nanoseconds, unless its holder has lost its core.
const TRIES: u32 = 200;

type Make<K> = Box<dyn Fn(KeyType, &AtomicBool) -> Result<K, KeyError> + Send + Sync>;

/// Where the keys of a pool come from.
pub struct Source<K> {
    /// Stops soon when the flag is set.
    pub make: Make<K>,
    /// Whether all cores have foreground work to do. Must take no lock.
    pub is_busy: fn() -> bool,
    /// Share of one core that making keys may use: above 0, at most 1.
    pub cpu: f64,
}

pub struct Pool<K> {
    source: Source<K>,
    shelves: Mutex<Shelves<K>>,
    /// Unparked when a shelf is to be filled, or the pool stops. It never takes this lock itself.
    thread: Mutex<Option<JoinHandle<()>>>,
    is_stopped: AtomicBool,
    counters: [Counters; KeyType::ALL.len()],
}

type Shelves<K> = [Shelf<K>; KeyType::ALL.len()];

#[derive(Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Status {
    pub depth: usize,
    pub hits: u64,
    pub misses: u64,
    pub oldest_age: Option<Duration>,
}

impl<K: Send + 'static> Pool<K> {
    pub fn new(source: Source<K>) -> Self {
        Self {
            source,
            shelves: Mutex::default(),
            thread: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            counters: Default::default(),
        }
    }

    /// Makes `count` keys of the type ahead from now on; 0 wipes those that are there. If the system refuses a thread for
    /// it, the next call tries again.
    pub fn prepare(self: &Arc<Self>, key_type: KeyType, count: usize) {
        if self.is_stopped() {
            return;
        }
        let mut shelves = self.lock();
        let surplus = shelves[key_type.index()].prepare(count);
        let is_filling = shelves[key_type.index()].is_filling();
        drop(shelves);
        drop(surplus);
        if !is_filling {
            return;
        }
        let mut thread = self.thread();
        if let Some(thread) = &*thread {
            thread.thread().unpark();
        } else {
            let pool = Arc::clone(self);
            let builder = thread::Builder::new().name("livery-pool".into());
            *thread = builder.spawn(move || pool.fill()).ok();
        }
    }

    /// A key that lies ready. Nobody else gets it.
    pub fn take(&self, key_type: KeyType) -> Option<K> {
        let counters = &self.counters[key_type.index()];
        let shelves = (!self.is_stopped()).then(|| self.lock_unless_held());
        let Some(mut shelves) = shelves.flatten() else {
            counters.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let shelf = &mut shelves[key_type.index()];
        let was_filling = shelf.is_filling();
        let stale = shelf.stale(Instant::now());
        let key = shelf.take();
        let starts_filling = shelf.is_filling() && !was_filling;
        drop(shelves);
        drop(stale);
        if starts_filling {
            self.wake();
        }
        let counter = match key {
            Some(_) => &counters.hits,
            None => &counters.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        key
    }

    /// `None` for a type that was neither prepared nor asked for.
    pub fn status(&self, key_type: KeyType) -> Option<Status> {
        let shelves = self.lock();
        let shelf = &shelves[key_type.index()];
        let counters = &self.counters[key_type.index()];
        let status = Status {
            depth: shelf.depth(),
            hits: counters.hits.load(Ordering::Relaxed),
            misses: counters.misses.load(Ordering::Relaxed),
            oldest_age: shelf.oldest().map(|made| made.elapsed()),
        };
        let is_known = shelf.was_prepared || status.hits + status.misses > 0;
        is_known.then_some(status)
    }

    /// No key is handed out or made ahead any more; the thread wipes those that are there and ends, as soon as it has a
    /// core. Does not wait for that.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Whether it was stopped and the keys are wiped.
    pub fn is_over(&self) -> bool {
        let is_running = |thread: &JoinHandle<()>| !thread.is_finished();
        self.is_stopped() && !self.thread().as_ref().is_some_and(is_running)
    }

    /// Stops, and waits until the keys are wiped: milliseconds where a core is free, longer on a busy machine.
    pub fn close(&self) {
        self.stop();
        let thread = self.thread().take();
        if let Some(thread) = thread {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
    }

    /// The thread.
    fn fill(&self) {
        lower_priority();
        let mut budget = Budget::new(self.source.cpu, Reading::now());
        while let Some(key_type) = self.wanted() {
            if (self.source.is_busy)() {
                self.rest(PAUSE);
                continue;
            }
            let key = (self.source.make)(key_type, &self.is_stopped);
            let mut shelves = self.lock();
            let shelf = &mut shelves[key_type.index()];
            let too_many = match key {
                Ok(key) => shelf.put(key, Instant::now()),
                Err(_) => {
                    // The next caller gets the error itself; trying again at once would only burn the budget.
                    shelf.stop_filling();
                    None
                }
            };
            drop(shelves);
            drop(too_many);
            self.rest(budget.rest(Reading::now()));
        }
        let keys = self.lock().each_mut().map(|shelf| shelf.prepare(0));
        drop(keys);
    }

    /// The type of the next key, those that take least time first; `None` when the pool stops.
    fn wanted(&self) -> Option<KeyType> {
        loop {
            let mut shelves = self.lock();
            if self.is_stopped() {
                return None;
            }
            let now = Instant::now();
            let stale = shelves.each_mut().map(|shelf| shelf.stale(now));
            let place = shelves.iter().position(Shelf::is_filling);
            let oldest = shelves.iter().filter_map(Shelf::oldest).min();
            drop(shelves);
            drop(stale);
            if let Some(place) = place {
                return Some(KeyType::ALL[place]);
            }
            let age = oldest.map_or(Duration::ZERO, |made| now.saturating_duration_since(made));
            // Returns at once if it was woken since the look.
            thread::park_timeout(MAX_AGE.saturating_sub(age));
        }
    }

    /// Waits for `time`, or until the pool stops.
    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }

    fn wake(&self) {
        if let Some(thread) = &*self.thread() {
            thread.thread().unpark();
        }
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Shelves<K>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_unless_held(&self) -> Option<MutexGuard<'_, Shelves<K>>> {
        for _ in 0..TRIES {
            match self.shelves.try_lock() {
                Ok(shelves) => return Some(shelves),
                Err(TryLockError::Poisoned(shelves)) => return Some(shelves.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }
}
