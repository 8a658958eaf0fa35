//! The queue with jobs that the test holds and lets go.

use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::*;

/// The name of its job and its number.
type Piece = (&'static str, usize);

/// A job whose pieces report their start, and wait for permission to end.
struct TestJob {
    name: &'static str,
    pieces: usize,
    is_quick: bool,
    is_cancelled: AtomicBool,
    started: Sender<Piece>,
    gate: Mutex<Receiver<()>>,
    done: Sender<Piece>,
}

impl Job for TestJob {
    fn pieces(&self) -> usize {
        self.pieces
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    fn is_quick(&self, _piece: usize) -> bool {
        self.is_quick
    }

    fn run(&self, piece: usize) {
        let _ = self.started.send((self.name, piece));
        // A closed gate's sender, dropped, lets everybody through.
        let _ = self.gate.lock().expect("no panic").recv();
        let _ = self.done.send((self.name, piece));
    }
}

fn next(pieces: &Receiver<Piece>) -> Piece {
    let piece = pieces.recv_timeout(Duration::from_secs(60));
    piece.expect("something happens")
}

/// A separate queue, as long-lived as the process's.
struct Bench {
    queue: &'static WorkQueue<TestJob>,
    started: (Sender<Piece>, Receiver<Piece>),
    done: (Sender<Piece>, Receiver<Piece>),
}

impl Bench {
    fn new() -> Self {
        let queue: &WorkQueue<TestJob> = Box::leak(Box::new(WorkQueue::new()));
        queue.enter();
        Self {
            queue,
            started: channel(),
            done: channel(),
        }
    }

    /// A job, queued. Each message through the gate ends one piece; without the gate all end at once.
    fn add(&self, name: &'static str, pieces: usize) -> (Arc<TestJob>, Sender<()>) {
        let (open, gate) = channel();
        let job = Arc::new(TestJob {
            name,
            pieces,
            is_quick: name != "slow",
            is_cancelled: AtomicBool::new(false),
            started: self.started.0.clone(),
            gate: Mutex::new(gate),
            done: self.done.0.clone(),
        });
        self.queue.add(Arc::clone(&job)).expect("a thread");
        (job, open)
    }

    /// Every thread has a piece to hold it.
    fn occupy(&self) -> (Arc<TestJob>, Sender<()>) {
        let held = self.add("hold", cores());
        for _ in 0..cores() {
            assert_eq!(next(&self.started.1).0, "hold");
        }
        held
    }
}

#[test]
fn all_pieces_are_done_once() {
    let bench = Bench::new();
    drop(bench.add("a", 1000).1);
    let mut done: Vec<_> = (0..1000).map(|_| next(&bench.done.1).1).collect();
    done.sort_unstable();
    assert_eq!(done, (0..1000).collect::<Vec<_>>());
    bench.queue.leave();
    assert!(bench.done.1.try_recv().is_err());
}

#[test]
fn jobs_take_turns_so_that_a_single_piece_does_not_wait_behind_ten_thousand() {
    let bench = Bench::new();
    let (_, hold) = bench.occupy();
    drop(bench.add("batch", 10_000).1);
    drop(bench.add("single", 1).1);
    drop(bench.add("pair", 2).1);
    let mut state = bench.queue.lock();
    let order: Vec<_> = iter::from_fn(|| state.next().map(|turn| (turn.job.name, turn.piece)))
        .take(6)
        .collect();
    drop(state);
    assert_eq!(
        order,
        [
            ("batch", 0),
            ("single", 0),
            ("pair", 0),
            ("batch", 1),
            ("pair", 1),
            ("batch", 2)
        ]
    );
    drop(hold);
    bench.queue.leave();
}

#[test]
fn quick_pieces_do_not_wait_behind_slow_ones_that_are_queued() {
    let bench = Bench::new();
    let (_, hold) = bench.occupy();
    for _ in 0..2 {
        drop(bench.add("slow", 1).1);
    }
    drop(bench.add("pair", 2).1);
    drop(bench.add("single", 1).1);
    drop(bench.add("slow", 1).1);
    let mut state = bench.queue.lock();
    let order: Vec<_> = iter::from_fn(|| state.next().map(|turn| turn.job.name)).collect();
    drop(state);
    assert_eq!(order, ["pair", "single", "pair", "slow", "slow", "slow"]);
    drop(hold);
    bench.queue.leave();
}

#[test]
fn there_are_never_more_threads_than_cores() {
    let bench = Bench::new();
    let (_, hold) = bench.occupy();
    let more: Vec<_> = (0..20).map(|_| bench.add("more", 20)).collect();
    assert_eq!(bench.queue.lock().threads.len(), cores());
    assert!(bench.started.1.try_recv().is_err());
    drop((hold, more));
    bench.queue.leave();
}

#[test]
fn what_is_cancelled_before_its_turn_is_dropped() {
    let bench = Bench::new();
    let (_, hold) = bench.occupy();
    let (cancelled, gate) = bench.add("cancelled", 100);
    drop((gate, bench.add("next", 1).1));
    cancelled.is_cancelled.store(true, Ordering::Relaxed);
    drop(hold);
    assert_eq!(next(&bench.started.1).0, "next");
    bench.queue.leave();
    assert_eq!(Arc::strong_count(&cancelled), 1);
}

#[test]
fn the_threads_end_with_the_last_user_and_start_again_with_the_next() {
    let bench = Bench::new();
    bench.queue.enter();
    drop(bench.add("first", 2).1);
    for _ in 0..2 {
        next(&bench.done.1);
    }
    bench.queue.leave();
    assert!(!bench.queue.lock().threads.is_empty());
    bench.queue.leave();
    assert_eq!(bench.queue.lock().threads.len(), 0);
    bench.queue.enter();
    drop(bench.add("second", 1).1);
    while next(&bench.done.1).0 != "second" {}
    bench.queue.leave();
}

#[test]
fn no_thread_starts_for_what_the_last_user_has_cancelled() {
    let bench = Bench::new();
    let (_, hold) = bench.occupy();
    let (cancelled, _gate) = bench.add("cancelled", 100);
    cancelled.is_cancelled.store(true, Ordering::Relaxed);
    let queue = bench.queue;
    let leaving = thread::spawn(|| queue.leave());
    while !queue.lock().is_closing {
        thread::yield_now();
    }
    drop(hold);
    leaving.join().expect("no panic");
    assert_eq!(queue.lock().threads.len(), 0);
    assert_eq!(Arc::strong_count(&cancelled), 1);
}

#[test]
fn work_that_comes_while_the_threads_end_is_done() {
    for _ in 0..50 {
        let bench = Bench::new();
        drop(bench.add("first", 1).1);
        let queue = bench.queue;
        let leaving = thread::spawn(|| queue.leave());
        bench.queue.enter();
        drop(bench.add("second", 1).1);
        while next(&bench.done.1).0 != "second" {}
        leaving.join().expect("no panic");
        bench.queue.leave();
    }
}
