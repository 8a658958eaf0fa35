//! The keys of one type that lie ready: how many there should be, and which are too old.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A key that waited so long was made for a demand that did not come. It is far more than anybody looks ahead, so nothing is
/// wiped that was about to be asked for, and far less than certificates live: a key is hardly longer in memory for having
/// been made ahead.
pub const MAX_AGE: Duration = Duration::from_secs(3600);

/// A thousand RSA-2048 keys are some 3 MB and, with AVX-512 IFMA, half a minute of a quarter of a core; a thousand ECDSA
/// keys are made in the time of a few RSA keys. What a storm needs beyond them is made while the first are handed out.
pub const MAX_DEPTH: usize = 1024;

pub struct Shelf<K> {
    /// Oldest first.
    ready: VecDeque<(Instant, K)>,
    /// To be filled to `high` when fewer than `low` are left.
    low: usize,
    high: usize,
    is_filling: bool,
    pub was_prepared: bool,
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            low: 0,
            high: 0,
            is_filling: false,
            was_prepared: false,
        }
    }
}

impl<K> Shelf<K> {
    /// Sets the marks for `count` keys. A larger demand than before is filled up at once. What is too much is for the
    /// caller to drop.
    #[must_use]
    pub fn prepare(&mut self, count: usize) -> Vec<K> {
        let high = count.min(MAX_DEPTH);
        let has_grown = high > self.high;
        self.was_prepared = true;
        self.high = high;
        self.low = high.div_ceil(2);
        let surplus = self.ready.len().saturating_sub(high);
        let surplus = self.ready.drain(..surplus).map(|(_, key)| key).collect();
        self.is_filling = self.ready.len() < if has_grown { high } else { self.low };
        surplus
    }

    pub fn is_filling(&self) -> bool {
        self.is_filling
    }

    /// Nothing is made until the marks are set again or a key is taken.
    pub fn stop_filling(&mut self) {
        self.is_filling = false;
    }

    /// Gives `key` back if there are enough.
    pub fn put(&mut self, key: K, now: Instant) -> Option<K> {
        if self.ready.len() >= self.high {
            self.is_filling = false;
            return Some(key);
        }
        self.ready.push_back((now, key));
        self.is_filling = self.ready.len() < self.high;
        None
    }

    /// The oldest key.
    pub fn take(&mut self) -> Option<K> {
        let oldest = self.ready.pop_front();
        self.is_filling |= self.ready.len() < self.low;
        oldest.map(|(_, key)| key)
    }

    /// The keys that are too old, for the caller to drop.
    #[must_use]
    pub fn stale(&mut self, now: Instant) -> Vec<K> {
        let is_stale = |(made, _): &(Instant, K)| now.saturating_duration_since(*made) >= MAX_AGE;
        let count = self
            .ready
            .iter()
            .take_while(|entry| is_stale(entry))
            .count();
        if count > 0 {
            self.is_filling |= self.ready.len() - count < self.low;
        }
        self.ready.drain(..count).map(|(_, key)| key).collect()
    }

    /// When the oldest key was made.
    pub fn oldest(&self) -> Option<Instant> {
        self.ready.front().map(|(made, _)| *made)
    }

    pub fn depth(&self) -> usize {
        self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes what is asked for; the number of keys made.
    fn fill(shelf: &mut Shelf<u32>, now: Instant) -> u32 {
        let mut made = 0;
        while shelf.is_filling() {
            assert_eq!(shelf.put(made, now), None);
            made += 1;
        }
        made
    }

    #[test]
    fn nothing_is_made_until_it_is_announced() {
        let mut shelf = Shelf::default();
        assert_eq!(fill(&mut shelf, Instant::now()), 0);
        assert_eq!(shelf.take(), None);
        assert!(!shelf.is_filling());
    }

    #[test]
    fn filling_starts_below_the_low_mark_and_stops_at_the_high_mark() {
        let (mut shelf, now) = (Shelf::default(), Instant::now());
        assert_eq!(shelf.prepare(10), []);
        assert_eq!(fill(&mut shelf, now), 10);
        for _ in 0..5 {
            assert!(shelf.take().is_some());
            assert!(!shelf.is_filling());
        }
        assert!(shelf.take().is_some());
        assert!(shelf.is_filling());
        assert_eq!(fill(&mut shelf, now), 6);
        assert_eq!(shelf.depth(), 10);
    }

    #[test]
    fn a_demand_that_grows_is_filled_up_and_one_that_shrinks_drops_the_oldest() {
        let (mut shelf, now) = (Shelf::default(), Instant::now());
        assert_eq!(shelf.prepare(4), []);
        assert_eq!(fill(&mut shelf, now), 4);
        assert_eq!(shelf.prepare(5), []);
        assert_eq!(fill(&mut shelf, now), 1);
        assert_eq!(shelf.prepare(3), [0, 1]);
        assert_eq!(shelf.take(), Some(2));
        assert_eq!(shelf.prepare(3), []);
        assert!(!shelf.is_filling());
        assert_eq!(shelf.prepare(0), [3, 0]);
        assert_eq!(fill(&mut shelf, now), 0);
        assert_eq!(shelf.put(9, now), Some(9));
    }

    #[test]
    fn a_single_key_is_made_again_when_it_was_taken() {
        let (mut shelf, now) = (Shelf::default(), Instant::now());
        assert_eq!(shelf.prepare(1), []);
        assert_eq!(fill(&mut shelf, now), 1);
        assert!(shelf.take().is_some());
        assert_eq!(fill(&mut shelf, now), 1);
    }

    #[test]
    fn more_than_the_maximum_is_not_kept() {
        let mut shelf = Shelf::default();
        assert_eq!(shelf.prepare(1_000_000), []);
        assert_eq!(fill(&mut shelf, Instant::now()), MAX_DEPTH as u32);
    }

    #[test]
    fn old_keys_are_given_up_and_made_again() {
        let (mut shelf, start) = (Shelf::default(), Instant::now());
        assert_eq!(shelf.prepare(4), []);
        assert_eq!(shelf.put(0, start), None);
        assert_eq!(fill(&mut shelf, start + MAX_AGE / 2), 3);
        assert_eq!(shelf.stale(start + MAX_AGE - Duration::from_nanos(1)), []);
        assert_eq!(shelf.stale(start + MAX_AGE), [0]);
        assert!(!shelf.is_filling(), "three of four are enough");
        assert_eq!(shelf.oldest(), Some(start + MAX_AGE / 2));
        assert_eq!(shelf.stale(start + 2 * MAX_AGE), [0, 1, 2]);
        assert!(shelf.is_filling());
        assert_eq!(shelf.oldest(), None);
    }
}
