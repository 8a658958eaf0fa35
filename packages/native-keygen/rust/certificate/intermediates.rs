//! The certificates above the leaves, each read once: thousands of leaves come with the same ones.

use std::sync::{Arc, Mutex, PoisonError};

use super::Certificate;

pub static INTERMEDIATES: Intermediates = Intermediates::new();

/// The bytes say which is meant: what is found was read from exactly those. Nothing of it depends on a time or a root.
pub struct Intermediates(Mutex<Vec<Arc<Certificate>>>);

/// A CA may send another one with each leaf, and then they are dropped as fast as they come.
const MAX_COUNT: usize = 32;
/// Of their DER in sum. In memory that is up to a hundred times as much where one has thousands of empty names.
const MAX_BYTES: usize = 32 * 1_024;

impl Intermediates {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The same as `Certificate::parse`.
    pub fn read(&self, der: &[u8]) -> Option<Arc<Certificate>> {
        // The list is whole at any time, so one that a panic left locked is as good.
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = find(&kept(), der);
        if known.is_some() {
            return known;
        }
        let certificate = Arc::new(Certificate::parse(der)?);
        Some(keep(&mut kept(), certificate))
    }
}

fn find(kept: &[Arc<Certificate>], der: &[u8]) -> Option<Arc<Certificate>> {
    kept.iter().find(|it| it.der() == der).cloned()
}

/// Returns the one that another thread has read meanwhile, if there is one.
fn keep(kept: &mut Vec<Arc<Certificate>>, certificate: Arc<Certificate>) -> Arc<Certificate> {
    let length = certificate.der().len();
    if length > MAX_BYTES {
        return certificate;
    }
    if let Some(known) = find(kept, certificate.der()) {
        return known;
    }
    let bytes: usize = kept.iter().map(|it| it.der().len()).sum();
    if kept.len() == MAX_COUNT || bytes + length > MAX_BYTES {
        kept.clear();
    }
    kept.push(Arc::clone(&certificate));
    certificate
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::forge::Issuer;
    use super::*;
    use crate::der::{OCTET_STRING, SEQUENCE, element};

    /// Certificates of one length that differ in the last byte of a signature, which nobody has checked yet.
    fn siblings(der: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let last = der.len() - 1;
        (0..=u8::MAX).map(move |byte| [&der[..last], &[byte]].concat())
    }

    /// An unknown extension of this length, and a little more.
    fn padding(length: usize) -> Vec<u8> {
        let value = element(OCTET_STRING, &[&vec![0; length]]);
        element(SEQUENCE, &[&[0x06, 0x03, 0x2a, 0x03, 0x04], &value])
    }

    fn lengths(intermediates: &Intermediates) -> Vec<usize> {
        let kept = intermediates.0.lock().expect("no panic");
        kept.iter().map(|it| it.der().len()).collect()
    }

    #[test]
    fn the_same_bytes_are_read_once_and_no_others_are_taken_for_them() {
        let intermediates = Intermediates::new();
        let der = Issuer::new("middle", None).der;
        let first = intermediates.read(&der).expect("a certificate");
        for other in siblings(&der).filter(|other| *other != der).take(8) {
            let read = intermediates.read(&other).expect("a certificate");
            assert_eq!(read.der(), other);
        }
        let again = intermediates.read(&der).expect("a certificate");
        assert!(Arc::ptr_eq(&first, &again));
        assert!(intermediates.read(&der[1..]).is_none());
        assert!(intermediates.read(&[&der[..], &[0]].concat()).is_none());
        assert_eq!(lengths(&intermediates).len(), 9);
    }

    #[test]
    fn the_one_that_another_thread_has_read_meanwhile_is_taken() {
        let der = Issuer::new("middle", None).der;
        let [one, other] = [(); 2].map(|()| Arc::new(Certificate::parse(&der).expect("read")));
        let mut kept = vec![Arc::clone(&one)];
        assert!(Arc::ptr_eq(&keep(&mut kept, other), &one));
        assert_eq!(kept.len(), 1);
    }

    #[test]
    fn their_number_and_their_bytes_are_bounded() {
        let root = Issuer::new("root", None);
        for length in [0, 1_000, 10_000] {
            let intermediates = Intermediates::new();
            let mut most = [0; 2];
            for der in siblings(&root.reissued(&root, &padding(length))) {
                let read = intermediates.read(&der).expect("a certificate");
                let again = intermediates.read(&der).expect("a certificate");
                assert!(Arc::ptr_eq(&read, &again));
                let lengths = lengths(&intermediates);
                most[0] = lengths.len().max(most[0]);
                most[1] = lengths.iter().sum::<usize>().max(most[1]);
            }
            assert!(most[0] <= MAX_COUNT && most[1] <= MAX_BYTES, "{most:?}");
            assert!(most[0] > MAX_COUNT / 2 || most[1] > MAX_BYTES / 2);
        }
    }

    #[test]
    fn one_that_alone_is_too_long_is_read_each_time_and_drops_no_other() {
        let intermediates = Intermediates::new();
        let root = Issuer::new("root", None);
        intermediates.read(&root.der).expect("a certificate");
        let long = root.reissued(&root, &padding(MAX_BYTES));
        assert_eq!(intermediates.read(&long).expect("read").der(), long);
        assert_eq!(lengths(&intermediates), [root.der.len()]);
    }

    #[test]
    fn a_panic_that_left_them_locked_does_no_harm() {
        let intermediates = Intermediates::new();
        let der = Issuer::new("middle", None).der;
        let first = intermediates.read(&der).expect("a certificate");
        thread::scope(|scope| {
            let panicked = scope.spawn(|| {
                let _locked = intermediates.0.lock();
                panic!("on purpose");
            });
            assert!(panicked.join().is_err());
        });
        let again = intermediates.read(&der).expect("a certificate");
        assert!(Arc::ptr_eq(&first, &again));
    }
}
