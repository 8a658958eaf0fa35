//! Work that stands back: behind the event loop of its own process, or behind everything, with a share of one core.

use std::time::{Duration, Instant};

/// Shorter rests are put together: below this a sleep costs more than it gives.
const LEAST_REST: Duration = Duration::from_millis(5);

/// From now on this thread gets a third of the time that it would get, where the thread that started it wants the same core:
/// so the event loop goes first, whatever priority the process was given. Outside Linux it does nothing.
#[cfg(target_os = "linux")]
pub fn stand_back() {
    // SAFETY: takes numbers alone. On Linux "process 0" is the calling thread, which has its starter's nice value.
    let own = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: as above; lowering is always allowed, and the system takes more than 19 for 19.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, own + 5) };
}

#[cfg(not(target_os = "linux"))]
pub fn stand_back() {}

/// From now on this thread runs when no other thread of the machine wants its core (SCHED_IDLE, sched(7)), or as "nice"
/// as can be where that is not allowed. There is no way back without privilege. Outside Linux it does nothing, since
/// there priorities of single threads need more than POSIX has: the budget alone holds the thread back.
#[cfg(target_os = "linux")]
pub fn lower_priority() {
    // SAFETY: numbers alone, for which zero is a value; musl has more of them than glibc.
    let lowest = unsafe { std::mem::zeroed::<libc::sched_param>() };
    // SAFETY: `lowest` outlives the call, which only reads it; the thread is this one.
    let status = unsafe {
        libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_IDLE, &raw const lowest)
    };
    if status != 0 {
        // SAFETY: takes numbers alone. On Linux "process 0" is the calling thread; lowering is always allowed.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    }
}

#[cfg(not(target_os = "linux"))]
pub fn lower_priority() {}

/// The two clocks of a thread.
#[derive(Clone, Copy)]
pub struct Reading {
    /// CPU time that the thread has used.
    cpu: Duration,
    wall: Instant,
}

impl Reading {
    /// Of the calling thread.
    pub fn now() -> Self {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel fills in `time`, which outlives the call. Linux and macOS have this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Self {
            cpu: Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
            wall: Instant::now(),
        }
    }
}

/// Holds a thread to a share of one core. What it did not use while it waited is not saved up.
pub struct Budget {
    share: f64,
    last: Reading,
    debt: Duration,
}

impl Budget {
    /// `share` is above 0 and at most 1.
    pub fn new(share: f64, now: Reading) -> Self {
        Self {
            share,
            last: now,
            debt: Duration::ZERO,
        }
    }

    /// How long the thread has to rest now.
    pub fn rest(&mut self, now: Reading) -> Duration {
        let used = now.cpu.saturating_sub(self.last.cpu);
        let passed = now.wall.saturating_duration_since(self.last.wall);
        self.last = now;
        self.debt = (self.debt + used.div_f64(self.share)).saturating_sub(passed);
        if self.debt < LEAST_REST {
            return Duration::ZERO;
        }
        self.debt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A thread whose clocks the test moves.
    struct FakeThread {
        now: Reading,
        budget: Budget,
    }

    impl FakeThread {
        fn new(share: f64) -> Self {
            let now = Reading {
                cpu: Duration::ZERO,
                wall: Instant::now(),
            };
            Self {
                now,
                budget: Budget::new(share, now),
            }
        }

        fn works(&mut self, cpu: Duration, wall: Duration) -> Duration {
            self.now.cpu += cpu;
            self.now.wall += wall;
            self.budget.rest(self.now)
        }

        fn waits(&mut self, wall: Duration) {
            self.now.wall += wall;
        }
    }

    #[test]
    fn a_quarter_of_a_core_rests_three_times_as_long_as_it_works() {
        let work = Duration::from_millis(8);
        let mut thread = FakeThread::new(0.25);
        let start = thread.now.wall;
        for _ in 0..100 {
            let rest = thread.works(work, work);
            assert_eq!(rest, 3 * work);
            thread.waits(rest);
        }
        assert_eq!(thread.now.wall - start, 4 * thread.now.cpu);
    }

    #[test]
    fn time_that_the_thread_had_to_wait_for_a_core_counts_as_rest() {
        let work = Duration::from_millis(8);
        let mut thread = FakeThread::new(0.5);
        assert_eq!(thread.works(work, 2 * work), Duration::ZERO);
        assert_eq!(thread.works(work, work), work);
    }

    #[test]
    fn an_hour_without_work_is_no_licence_for_an_hour_of_it() {
        let mut thread = FakeThread::new(0.25);
        thread.waits(3600 * SECOND);
        assert_eq!(thread.works(SECOND, SECOND), Duration::ZERO);
        assert_eq!(thread.works(SECOND, SECOND), 3 * SECOND);
    }

    #[test]
    fn short_rests_are_put_together() {
        let work = Duration::from_micros(20);
        let mut thread = FakeThread::new(0.25);
        let mut rested = Duration::ZERO;
        for _ in 0..1000 {
            let rest = thread.works(work, work);
            assert!(rest.is_zero() || rest >= LEAST_REST);
            thread.waits(rest);
            rested += rest;
        }
        assert!(rested > 1000 * 3 * work - LEAST_REST);
        assert!(rested <= 1000 * 3 * work);
    }

    #[test]
    fn a_whole_core_never_rests() {
        let mut thread = FakeThread::new(1.0);
        assert_eq!(thread.works(SECOND, SECOND), Duration::ZERO);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_priority_of_one_thread_is_lowered_and_of_no_other() {
        // The system call, since musl's function of that name answers that there is none.
        // SAFETY: 0 is the calling thread; the call takes a number.
        let policy = || unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        let before = policy();
        let lowered = std::thread::spawn(move || {
            lower_priority();
            // SAFETY: as above; -1 is a nice value as well, but not what this expects.
            (policy(), unsafe {
                libc::getpriority(libc::PRIO_PROCESS, 0)
            })
        });
        let (lowered, nice) = lowered.join().expect("no panic");
        assert!(lowered == i64::from(libc::SCHED_IDLE) || nice == 19);
        assert_eq!(policy(), before);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_stands_back_is_a_little_behind_the_one_that_started_it() {
        // SAFETY: 0 is the calling thread; the call takes numbers.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let starter = nice();
        let behind = std::thread::spawn(move || {
            stand_back();
            let first = nice();
            let second = std::thread::spawn(move || {
                stand_back();
                nice()
            });
            (first, second.join().expect("no panic"))
        });
        let expected = ((starter + 5).min(19), (starter + 10).min(19));
        assert_eq!(behind.join().expect("no panic"), expected);
        assert_eq!(nice(), starter);
    }

    #[test]
    fn the_cpu_time_of_a_thread_grows_with_its_work_alone() {
        let start = Reading::now();
        let mut number = 1_u64;
        while Reading::now().cpu == start.cpu {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(Reading::now().cpu > start.cpu);
    }
}
