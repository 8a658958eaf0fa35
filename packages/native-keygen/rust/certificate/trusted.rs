//! Certificates that are read and verified once for thousands of leaves: the roots of a bundle, and the intermediates of each leaf.

use std::sync::{Arc, Mutex, PoisonError};

use super::Certificate;
use super::verification::Store;

/// A root, read once.
pub struct Anchor {
    pub certificate: Certificate,
    /// SHA-256 of its DER, hex.
    pub fingerprint: String,
}

/// The roots of a question.
pub struct Trusted {
    pub anchors: Vec<Arc<Anchor>>,
    pub store: Store,
    known: Recent<Known>,
}

/// The certificates between a leaf and its root on a path that was found.
pub struct Issuers {
    /// DER, the issuer of the leaf first.
    pub ders: Vec<Box<[u8]>>,
    pub pem: String,
    /// Index of the root.
    pub anchor: usize,
    /// Milliseconds since the epoch: when they and the root are valid.
    pub not_before: f64,
    pub not_after: f64,
}

/// Issuers whose own path is good whatever leaf is below them.
pub struct Known {
    /// As the CA sends them.
    sent: Vec<Vec<u8>>,
    pub issuers: Arc<Issuers>,
    /// The issuer of the leaf alone.
    pub store: Store,
}

/// The most bundles in use: the trust domain's, and bundles of identities with own roots.
const MAX_BUNDLES: usize = 4;
/// The most known issuers: if a CA sends another intermediate with each leaf, they are dropped as fast as they come.
const MAX_KNOWN: usize = 4;
const MAX_KNOWN_BYTES: usize = 16 * 1_024;

static BUNDLES: Recent<Trusted> = Recent::new();

impl Trusted {
    /// `None` if there is no memory for it.
    pub fn of(anchors: &[Arc<Anchor>]) -> Option<Arc<Self>> {
        let is_same = |it: &Trusted| {
            it.anchors.len() == anchors.len()
                && it
                    .anchors
                    .iter()
                    .zip(anchors)
                    .all(|(a, b)| Arc::ptr_eq(a, b))
        };
        BUNDLES.find(is_same).or_else(|| {
            let trusted = Arc::new(Self {
                store: Store::of(anchors.iter().map(|it| &it.certificate))?,
                anchors: anchors.to_vec(),
                known: Recent::new(),
            });
            BUNDLES.keep(Arc::clone(&trusted), MAX_BUNDLES);
            Some(trusted)
        })
    }

    pub fn known(&self, sent: &[Vec<u8>]) -> Option<Arc<Known>> {
        self.known.find(|it| it.sent == sent)
    }

    pub fn remember(&self, sent: &[Vec<u8>], issuers: &Arc<Issuers>, issuer: &Certificate) {
        let bytes: usize = sent.iter().map(Vec::len).sum();
        let Some(store) = Store::of([issuer]).filter(|_| bytes <= MAX_KNOWN_BYTES) else {
            return;
        };
        let known = Known {
            sent: sent.to_vec(),
            issuers: Arc::clone(issuers),
            store,
        };
        self.known.keep(Arc::new(known), MAX_KNOWN);
    }
}

/// A short list, the last one kept at its end.
struct Recent<T>(Mutex<Vec<Arc<T>>>);

impl<T> Recent<T> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn find(&self, is_meant: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        // The list is whole at any time, even after a panic while it was locked.
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().find(|it| is_meant(it)).cloned()
    }

    fn keep(&self, one: Arc<T>, limit: usize) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() >= limit {
            list.remove(0);
        }
        list.push(one);
    }
}
