//! RSA keys with their CSRs by each engine, a second of one thread's CPU time (so that other load does not count):
//! `cargo run --release --example rsa_rate -- [ENGINE] [TYPE] [SECONDS]`, where ENGINE is `ifma`, `portable` or `all`.

use std::sync::atomic::AtomicBool;

use livery_native_keygen::key::{KeyRequest, generate_on};
use livery_native_keygen::rsa::engines::available;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or("all".into());
    let key_type = arguments.next().unwrap_or("rsa-2048".into());
    let seconds = arguments
        .next()
        .map_or(5.0, |text| text.parse().expect("a number of seconds"));
    let identity = "spiffe://cluster.local/ns/default/sa/web".into();
    let request = KeyRequest::parse(&key_type, identity, "pkcs8").expect("a key type");
    let never = AtomicBool::new(false);
    for engine in available() {
        if wanted != "all" && wanted != engine.name() {
            continue;
        }
        generate_on(engine, &request, &never).expect("a key");
        let (start, mut keys) = (cpu_seconds(), 0);
        while cpu_seconds() - start < seconds {
            generate_on(engine, &request, &never).expect("a key");
            keys += 1;
        }
        let rate = f64::from(keys) / (cpu_seconds() - start);
        println!(
            "{} {key_type}: {rate:.1} keys and CSRs a second",
            engine.name()
        );
    }
}

fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills in `time`, which outlives the call.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
