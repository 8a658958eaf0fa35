//! Keys made ahead, by one thread that uses only what others leave. They have no identity yet: that comes with the CSR
//! when they are handed out.
//!
//! The thread that fills the pool can be kept off its core for long, even while it holds the lock. So whoever makes keys
//! in the foreground does not wait for the lock: then it is as if no key were ready.

mod shelf;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::background::{Budget, Reading, lower_priority};
use crate::key::{KeyError, KeyType};
use shelf::{MAX_AGE, Shelf};

/// Between looks whether a core has become free of foreground work.
const PAUSE: Duration = Duration::from_millis(10);
/// Of a lock that is held for some hundred nanoseconds, unless its holder has lost its core.
const TRIES: u32 = 200;

/// Where the keys of a pool come from.
pub struct Source<K> {
    /// Stops soon when the flag is set.
    pub make: fn(KeyType, &AtomicBool) -> Result<K, KeyError>,
    /// Whether all cores have foreground work to do. Must take no lock.
    pub is_busy: fn() -> bool,
    /// Share of one core that making keys may use: above 0, at most 1.
    pub cpu: f64,
}

pub struct Pool<K> {
    source: Source<K>,
    state: Mutex<State<K>>,
    /// A shelf is to be filled, or the pool stops.
    changed: Condvar,
    is_stopped: AtomicBool,
    counters: [Counters; KeyType::ALL.len()],
}

struct State<K> {
    shelves: [Shelf<K>; KeyType::ALL.len()],
    thread: Option<JoinHandle<()>>,
}

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
        let state = State {
            shelves: Default::default(),
            thread: None,
        };
        Self {
            source,
            state: Mutex::new(state),
            changed: Condvar::new(),
            is_stopped: AtomicBool::new(false),
            counters: Default::default(),
        }
    }

    /// Makes `count` keys of the type ahead from now on; 0 wipes those that are there. If the system refuses a thread for
    /// it, the next call tries again.
    pub fn prepare(self: &Arc<Self>, key_type: KeyType, count: usize) {
        let mut state = self.lock();
        if self.is_stopped() {
            return;
        }
        let surplus = state.shelves[key_type.index()].prepare(count);
        let is_filling = state.shelves[key_type.index()].is_filling();
        if is_filling && state.thread.is_none() {
            let pool = Arc::clone(self);
            let thread = thread::Builder::new().name("livery-pool".into());
            state.thread = thread.spawn(move || pool.fill()).ok();
        }
        drop(state);
        self.changed.notify_all();
        drop(surplus);
    }

    /// A key that lies ready. Nobody else gets it.
    pub fn take(&self, key_type: KeyType) -> Option<K> {
        let counters = &self.counters[key_type.index()];
        let Some(mut state) = self.lock_unless_held() else {
            counters.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let shelf = &mut state.shelves[key_type.index()];
        let was_filling = shelf.is_filling();
        let stale = shelf.stale(Instant::now());
        let key = shelf.take();
        let starts_filling = shelf.is_filling() && !was_filling;
        drop(state);
        drop(stale);
        if starts_filling {
            self.changed.notify_all();
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
        let state = self.lock();
        let shelf = &state.shelves[key_type.index()];
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

    /// Wipes all keys and waits for the thread, which stops within milliseconds. No key is made ahead any more.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        let keys = state.shelves.each_mut().map(|shelf| shelf.prepare(0));
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        drop(keys);
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
            let mut state = self.lock();
            let shelf = &mut state.shelves[key_type.index()];
            let too_many = match key {
                Ok(key) => shelf.put(key, Instant::now()),
                Err(_) => {
                    // Whoever asks for a key is told why; to try again at once would only burn the budget.
                    shelf.stop_filling();
                    None
                }
            };
            drop(state);
            drop(too_many);
            self.rest(budget.rest(Reading::now()));
        }
    }

    /// The type of the next key, those that take least time first; `None` when the pool stops.
    fn wanted(&self) -> Option<KeyType> {
        let mut state = self.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            let now = Instant::now();
            let stale = state.shelves.each_mut().map(|shelf| shelf.stale(now));
            if stale.iter().any(|keys| !keys.is_empty()) {
                drop(state);
                drop(stale);
                state = self.lock();
                continue;
            }
            let place = state.shelves.iter().position(Shelf::is_filling);
            if let Some(place) = place {
                return Some(KeyType::ALL[place]);
            }
            let oldest = state.shelves.iter().filter_map(Shelf::oldest).min();
            let age = oldest.map_or(Duration::ZERO, |made| now.saturating_duration_since(made));
            state = self.wait(state, MAX_AGE.saturating_sub(age));
        }
    }

    /// Waits for `time`, or until the pool stops.
    fn rest(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = self.lock();
        while !self.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.wait(state, left);
        }
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State<K>>,
        time: Duration,
    ) -> MutexGuard<'a, State<K>> {
        let (state, _) = self
            .changed
            .wait_timeout(state, time)
            .unwrap_or_else(PoisonError::into_inner);
        state
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_unless_held(&self) -> Option<MutexGuard<'_, State<K>>> {
        for _ in 0..TRIES {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(state)) => return Some(state.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }
}
