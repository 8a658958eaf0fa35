//! libFuzzer over one subject of `rust/fuzz.rs`, which `LIVERY_FUZZ_SUBJECT` names. `run` builds and starts it.
#![no_main]

use std::env;
use std::sync::OnceLock;

use livery_native_keygen::fuzz::{Subject, check};

fn subject() -> &'static Subject {
    static SUBJECT: OnceLock<&Subject> = OnceLock::new();
    SUBJECT.get_or_init(|| {
        let name = env::var("LIVERY_FUZZ_SUBJECT").expect("LIVERY_FUZZ_SUBJECT names a subject");
        Subject::named(&name).unwrap_or_else(|| panic!("{name} is not a subject of rust/fuzz.rs"))
    })
}

libfuzzer_sys::fuzz_target!(init: { subject(); }, |data: &[u8]| check(subject(), data));
