//! RSA keys with their CSRs by each method, a number of seconds of one thread's CPU time (so that other load does not count):
//! `cargo run --release --example rsa_rate -- [METHOD] [TYPE] [SECONDS]`, where METHOD is `library`, `search`, `simd` or `all`.

use std::sync::atomic::AtomicBool;

use livery_native_keygen::key::{KeyRequest, generate};
use livery_native_keygen::rsa::Method;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or("all".into());
    let key_type = arguments.next().unwrap_or("rsa-2048".into());
    let seconds = arguments
        .next()
        .map_or(5.0, |text| text.parse().expect("a number of seconds"));
    for method in Method::ALL {
        if wanted != "all" && wanted != method.name() {
            continue;
        }
        if method.is_available() {
            let rate = rate_of(method, &key_type, seconds);
            println!(
                "{} {key_type}: {rate:.1} keys and CSRs a second",
                method.name()
            );
        } else {
            println!(
                "{} {key_type}: skipped, this CPU cannot run it",
                method.name()
            );
        }
    }
}

fn rate_of(method: Method, key_type: &str, seconds: f64) -> f64 {
    let identity = "spiffe://cluster.local/ns/default/sa/web".into();
    let request =
        KeyRequest::parse(key_type, method, identity, Vec::new(), "pkcs8").expect("a key type");
    let never = AtomicBool::new(false);
    generate(&request, &never).expect("a key");
    let (start, mut keys) = (cpu_seconds(), 0);
    while cpu_seconds() - start < seconds {
        generate(&request, &never).expect("a key");
        keys += 1;
    }
    f64::from(keys) / (cpu_seconds() - start)
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
