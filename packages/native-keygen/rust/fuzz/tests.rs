//! The kept inputs of each subject, as they are and damaged at random: the same damage in each run.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Per subject.
const DAMAGED_INPUTS: usize = 2_000;

fn kept(subject: &Subject) -> Vec<Vec<u8>> {
    let folder = [env!("CARGO_MANIFEST_DIR"), "fuzz", "corpus", subject.name];
    let files = fs::read_dir(folder.iter().collect::<PathBuf>()).expect("a corpus");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let inputs = paths.iter().map(|path| fs::read(path).expect("an input"));
    inputs.collect()
}

/// xorshift64* (Vigna, 2016).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        (random as usize).checked_rem(limit).unwrap_or(0)
    }

    /// One to four edits: a byte or a bit changed, bytes repeated, removed, or taken from `other`.
    fn damage(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        const TELLING: [u8; 8] = [0, 1, 0x06, 0x30, 0x7f, 0x80, 0x84, 0xff];
        let mut damaged = input.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(damaged.len());
            let end = at + self.below((damaged.len() - at).min(64));
            match self.below(5) {
                0 if at < damaged.len() => damaged[at] = TELLING[self.below(TELLING.len())],
                1 if at < damaged.len() => damaged[at] ^= 1 << self.below(8),
                2 => damaged
                    .splice(at..at, damaged[at..end].to_vec())
                    .for_each(drop),
                3 => damaged.drain(at..end).for_each(drop),
                _ => {
                    let from = self.below(other.len());
                    let part = &other[from..from + self.below((other.len() - from).min(64))];
                    damaged.splice(at..end, part.iter().copied()).for_each(drop);
                }
            }
        }
        damaged
    }
}

fn hold(name: &str) {
    let subject = Subject::named(name).expect("a subject");
    let inputs = kept(subject);
    assert!(!inputs.is_empty(), "{name}: no input is kept");
    inputs.iter().for_each(|input| check(subject, input));
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    for _ in 0..DAMAGED_INPUTS {
        let [input, other] = [(); 2].map(|()| &inputs[chance.below(inputs.len())]);
        let damaged = chance.damage(input, other);
        let judged = catch_unwind(|| check(subject, &damaged));
        assert!(judged.is_ok(), "{name}: {}", hex(&damaged));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn certificates_hold() {
    hold("certificate");
}

#[test]
fn signing_requests_hold() {
    hold("csr");
}

#[test]
fn der_holds() {
    hold("der");
}

#[test]
fn extensions_in_signed_certificates_hold() {
    hold("extensions");
}

#[test]
fn paths_hold() {
    hold("path");
}

#[test]
fn private_keys_in_der_hold() {
    hold("private-key-der");
}

#[test]
fn private_keys_in_pem_hold() {
    hold("private-key-pem");
}

#[test]
fn sealed_keys_hold() {
    hold("vault");
}

#[test]
fn a_subject_that_panics_takes_long_or_changes_its_mind_is_caught() {
    fn slow(_: &[u8]) -> String {
        let start = cpu_time();
        while cpu_time() - start <= MAX_CPU {}
        String::new()
    }
    fn unsteady(_: &[u8]) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        COUNT.fetch_add(1, Ordering::Relaxed).to_string()
    }
    let judges: [(Judge, &str); 3] = [
        (|_| panic!("on purpose"), "on purpose"),
        (slow, "it took"),
        (unsteady, "another verdict"),
    ];
    for (judge, reason) in judges {
        let caught = catch_unwind(AssertUnwindSafe(|| check(&subject("wrong", judge), &[])));
        let panic = caught.expect_err(reason);
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.into()));
        assert!(text.is_some_and(|text| text.contains(reason)), "{reason}");
    }
}
