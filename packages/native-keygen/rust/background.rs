//! Lowers the priority of work below the event loop of the process.

/// Cuts this thread's share of a core to a third while the thread that started it wants the same core: the event loop goes
/// first, whatever the priority of the process. Outside Linux it does nothing.
#[cfg(target_os = "linux")]
pub fn stand_back() {
    // SAFETY: takes numbers alone. On Linux "process 0" is the calling thread, which has its starter's nice value.
    let own = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: as above; lowering is always allowed, and the system takes more than 19 for 19.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, own + 5) };
}

#[cfg(not(target_os = "linux"))]
pub fn stand_back() {}

#[cfg(test)]
mod tests {
    use super::*;

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
}
