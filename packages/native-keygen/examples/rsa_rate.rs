//! RSA keys with their CSRs a second on one core, by each engine: `cargo run --release --example rsa_rate -- [ENGINE]
//! [TYPE] [SECONDS]`, where ENGINE is `ifma`, `portable` or `all`.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use livery_native_keygen::key::{KeyRequest, generate_on};
use livery_native_keygen::rsa::engine::available;

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
        let (start, mut keys) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs_f64(seconds) {
            generate_on(engine, &request, &never).expect("a key");
            keys += 1;
        }
        let rate = f64::from(keys) / start.elapsed().as_secs_f64();
        println!(
            "{} {key_type}: {rate:.1} keys and CSRs a second",
            engine.name()
        );
    }
}
