//! The pool with keys that are numbers: no cryptography, but a real thread.

use std::collections::HashSet;

use super::*;

const RSA: KeyType = KeyType::ALL[2];
const ECDSA: KeyType = KeyType::ALL[0];

/// A unique number that counts when it is dropped.
struct Numbered {
    number: u64,
    dropped: &'static AtomicU64,
}

impl Drop for Numbered {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn pool<K: Send + 'static>(
    make: fn(KeyType, &AtomicBool) -> Result<K, KeyError>,
    is_busy: fn() -> bool,
) -> Arc<Pool<K>> {
    Arc::new(Pool::new(Source {
        make: Box::new(make),
        is_busy,
        cpu: 1.0,
    }))
}

/// The pool's thread has the lowest priority: on a busy machine this takes a while.
fn wait_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing happens");
        thread::park_timeout(Duration::from_millis(1));
    }
}

fn depth<K: Send + 'static>(pool: &Pool<K>, key_type: KeyType) -> usize {
    pool.status(key_type).map_or(0, |status| status.depth)
}

#[test]
fn every_key_is_handed_out_once_however_many_ask() {
    static MADE: AtomicU64 = AtomicU64::new(0);
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    let numbers = |_, _: &AtomicBool| {
        Ok(Numbered {
            number: MADE.fetch_add(1, Ordering::Relaxed),
            dropped: &DROPPED,
        })
    };
    let pool = pool(numbers, || false);
    pool.prepare(RSA, 64);
    wait_until(|| depth(&pool, RSA) == 64);
    let taken: Vec<Numbered> = thread::scope(|scope| {
        let takers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    (0..2000)
                        .filter_map(|_| {
                            thread::yield_now();
                            pool.take(RSA)
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        takers
            .into_iter()
            .flat_map(|taker| taker.join().expect("no panic"))
            .collect()
    });
    let different: HashSet<_> = taken.iter().map(|key| key.number).collect();
    assert_eq!(different.len(), taken.len());
    assert!(taken.len() >= 64);
    let status = pool.status(RSA).expect("it was asked for");
    assert_eq!(status.hits, taken.len() as u64);
    assert_eq!(status.hits + status.misses, 8 * 2000);
    drop(taken);
    pool.close();
    assert_eq!(
        DROPPED.load(Ordering::Relaxed),
        MADE.load(Ordering::Relaxed)
    );
}

#[test]
fn a_stopped_pool_has_wiped_its_keys_and_makes_no_more() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    let key = |_, _: &AtomicBool| {
        Ok(Numbered {
            number: 0,
            dropped: &DROPPED,
        })
    };
    let pool = pool(key, || false);
    pool.prepare(ECDSA, 5);
    wait_until(|| depth(&pool, ECDSA) == 5);
    pool.close();
    assert_eq!(DROPPED.load(Ordering::Relaxed), 5);
    pool.prepare(ECDSA, 5);
    assert!(pool.take(ECDSA).is_none());
    assert!(pool.thread().is_none());
    pool.close();
}

#[test]
fn a_search_under_way_stops_with_the_pool() {
    static SEARCHING: AtomicBool = AtomicBool::new(false);
    let endless = |_, cancelled: &AtomicBool| -> Result<(), KeyError> {
        SEARCHING.store(true, Ordering::Relaxed);
        while !cancelled.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        Err(KeyError::Cancelled)
    };
    let pool = pool(endless, || false);
    pool.prepare(RSA, 1);
    wait_until(|| SEARCHING.load(Ordering::Relaxed));
    pool.close();
    assert_eq!(Arc::strong_count(&pool), 1, "the thread has ended");
}

#[test]
fn whoever_stops_the_pool_waits_neither_for_its_thread_nor_for_the_lock() {
    static IS_MAKING: AtomicBool = AtomicBool::new(false);
    static MAY_END: AtomicBool = AtomicBool::new(false);
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    let held = |_, _: &AtomicBool| {
        IS_MAKING.store(true, Ordering::Relaxed);
        wait_until(|| MAY_END.load(Ordering::Relaxed));
        Ok(Numbered {
            number: 0,
            dropped: &DROPPED,
        })
    };
    let pool = pool(held, || false);
    pool.prepare(RSA, 1);
    wait_until(|| IS_MAKING.load(Ordering::Relaxed));
    let lock = pool.lock();
    let stopper = Arc::clone(&pool);
    let stopping = thread::spawn(move || stopper.stop());
    wait_until(|| stopping.is_finished());
    assert!(!pool.is_over());
    drop(lock);
    MAY_END.store(true, Ordering::Relaxed);
    wait_until(|| pool.is_over());
    assert_eq!(DROPPED.load(Ordering::Relaxed), 1, "the thread wipes");
    pool.close();
}

#[test]
fn a_stopped_pool_hands_out_no_key_that_is_not_wiped_yet() {
    let pool = pool(|_, _| Ok(()), || false);
    pool.prepare(RSA, 1);
    wait_until(|| depth(&pool, RSA) == 1);
    let lock = pool.lock();
    pool.stop();
    drop(lock);
    assert_eq!(pool.take(RSA), None);
    wait_until(|| pool.is_over());
    assert_eq!(depth(&pool, RSA), 0);
}

#[test]
fn nothing_is_made_ahead_while_foreground_work_keeps_the_cores_busy() {
    static IS_BUSY: AtomicBool = AtomicBool::new(true);
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    let is_busy = || {
        LOOKS.fetch_add(1, Ordering::Relaxed);
        IS_BUSY.load(Ordering::Relaxed)
    };
    let pool = pool(|_, _| Ok(()), is_busy);
    pool.prepare(RSA, 1);
    wait_until(|| LOOKS.load(Ordering::Relaxed) >= 3);
    assert_eq!(depth(&pool, RSA), 0);
    IS_BUSY.store(false, Ordering::Relaxed);
    wait_until(|| depth(&pool, RSA) == 1);
    pool.close();
}

#[test]
fn what_cannot_be_made_is_not_tried_again_until_somebody_asks() {
    static TRIES_MADE: AtomicU64 = AtomicU64::new(0);
    let failing = |_, _: &AtomicBool| -> Result<(), KeyError> {
        TRIES_MADE.fetch_add(1, Ordering::Relaxed);
        Err(KeyError::Panicked)
    };
    let pool = pool(failing, || false);
    pool.prepare(RSA, 3);
    wait_until(|| !pool.lock()[RSA.index()].is_filling());
    assert_eq!(TRIES_MADE.load(Ordering::Relaxed), 1);
    assert!(pool.take(RSA).is_none());
    wait_until(|| TRIES_MADE.load(Ordering::Relaxed) == 2);
    pool.close();
}

#[test]
fn a_lock_that_is_held_is_a_miss_and_no_wait() {
    let pool = pool(|_, _| Ok(()), || false);
    pool.prepare(RSA, 1);
    wait_until(|| depth(&pool, RSA) == 1);
    let held = pool.lock();
    assert_eq!(pool.take(RSA), None);
    drop(held);
    assert_eq!(pool.take(RSA), Some(()));
    pool.close();
}

#[test]
fn the_status_tells_of_what_was_prepared_or_asked_for() {
    let pool = pool(|_, _| Ok(()), || false);
    assert_eq!(pool.status(ECDSA), None);
    assert_eq!(pool.take(ECDSA), None);
    let asked_for = Status {
        depth: 0,
        hits: 0,
        misses: 1,
        oldest_age: None,
    };
    assert_eq!(pool.status(ECDSA), Some(asked_for));
    assert_eq!(pool.status(RSA), None);
    pool.prepare(RSA, 1);
    wait_until(|| depth(&pool, RSA) == 1);
    let prepared = pool.status(RSA).expect("it was prepared");
    assert_eq!((prepared.hits, prepared.misses), (0, 0));
    assert!(prepared.oldest_age.is_some());
    pool.close();
}
