//! The addon's interface for certificates: the facts about a chain. The judgement on them is core's;
//! `src/native-chain-reader.ts` is the other side.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use napi::bindgen_prelude::{ClassInstance, Either, Uint8ArraySlice};
use napi::{Error, Result, Status};
use napi_derive::napi;

use super::path::{Fault, Now, Path, find_path};
use super::trusted::{Anchor, Trusted};
use super::{Certificate, private_key};
use crate::hex;

/// A root, read once.
#[napi]
pub struct TrustAnchor(Arc<Anchor>);

#[napi]
impl TrustAnchor {
    /// Throws with the code `InvalidArg` if `der` is no certificate that Envoy's library reads.
    #[napi(constructor, catch_unwind)]
    pub fn new(der: &[u8]) -> Result<Self> {
        let certificate = Certificate::parse(der).ok_or_else(|| {
            Error::new(
                Status::InvalidArg,
                "Cannot read a root: it is no X.509 certificate",
            )
        })?;
        Ok(Self(Arc::new(Anchor {
            fingerprint: sha256_hex(&[der]),
            certificate,
        })))
    }
}

/// A chain, and the expectations on it. An array, as `ChainFacts` is.
#[napi(array, object_to_js = false)]
pub struct ChainQuestion<'env>(
    /// DER, leaf first.
    pub Vec<Uint8ArraySlice<'env>>,
    /// The anchors.
    pub Vec<ClassInstance<'env, TrustAnchor>>,
    /// The expected key of the leaf: SubjectPublicKeyInfo, or a private key in PEM, which is read at once and never queued.
    pub Uint8ArraySlice<'env>,
    /// Whether it is a private key.
    pub bool,
    /// Now, milliseconds since the epoch.
    pub f64,
    /// How far ahead of it an issuer's notBefore may be, milliseconds.
    pub f64,
);

/// The DER length of 64 KiB of PEM.
const MAX_CHAIN_BYTES: usize = 49_152;

impl ChainQuestion<'_> {
    /// The question in memory that JavaScript cannot change.
    pub fn owned(&self) -> Result<Question> {
        let Self(chain, anchors, key, is_private, now, max_clock_skew) = self;
        let length: usize = chain.iter().map(|der| der.len()).sum();
        if chain.is_empty() || length > MAX_CHAIN_BYTES {
            return Err(Error::new(
                Status::InvalidArg,
                format!("Cannot read a chain: it has {length} bytes, not 1 to {MAX_CHAIN_BYTES}"),
            ));
        }
        Ok(Question {
            chain: chain.iter().map(|der| der.to_vec()).collect(),
            anchors: anchors.iter().map(|it| Arc::clone(&it.0)).collect(),
            public_key_der: match is_private {
                true => private_key::public_key_of(key),
                false => Some(key.to_vec()),
            },
            now: Now {
                latest_not_before: now + max_clock_skew,
                now: *now,
            },
        })
    }
}

/// The facts about a chain, which core judges. An array, like the question: V8 would create and look up the name of each
/// property of a napi object again, 8 µs a chain.
#[napi(array, object_from_js = false)]
pub struct ChainFacts(
    /// The leaf's notBefore and notAfter, milliseconds since the epoch.
    pub f64,
    pub f64,
    /// Whether it is a CA's, serves TLS, signs handshakes, claims to certify, and has a key for TLS.
    pub bool,
    pub bool,
    pub bool,
    pub bool,
    pub bool,
    /// Its serial number.
    pub String,
    /// Its DNS names, and how many names it has that are neither these nor URIs.
    pub Vec<String>,
    pub u32,
    /// Its URI names; absent if one has a character that no URI has.
    pub Option<Vec<String>>,
    /// Whether it has the key of the question; absent if that is unknown.
    pub Option<bool>,
    pub Option<ChainPath>,
    /// Why there is no path; absent as well if no issuer was found.
    pub Option<String>,
);

#[napi(array, object_from_js = false)]
pub struct ChainPath(
    /// PEM, leaf first, each issued by the next, without the root.
    pub String,
    /// SHA-256 (hex) of its DER.
    pub String,
    /// The same for the root.
    pub String,
    /// The start and end of the time in which all certificates of the path, the root too, are valid. Milliseconds since the epoch.
    pub f64,
    pub f64,
    /// Why clients that have these anchors would refuse the path.
    pub Option<String>,
);

#[napi(object, object_from_js = false)]
pub struct UnreadableChain {
    /// Index of the first element that is not a certificate. Nothing leads to a root without it.
    pub unreadable: u32,
}

pub type Facts = Either<ChainFacts, UnreadableChain>;

#[napi(catch_unwind, ts_return_type = "ChainFacts | UnreadableChain")]
pub fn read_chain(question: ChainQuestion) -> Result<Facts> {
    Ok(question.owned()?.facts())
}

/// A chain to read, on any thread.
pub struct Question {
    /// DER, leaf first, never empty.
    chain: Vec<Vec<u8>>,
    anchors: Vec<Arc<Anchor>>,
    /// The expected public key of the leaf; absent if it is unknown.
    public_key_der: Option<Vec<u8>>,
    now: Now,
}

impl Question {
    pub fn facts(&self) -> Facts {
        let Some(leaf) = Certificate::parse(&self.chain[0]) else {
            return unreadable(0);
        };
        let trusted = Trusted::of(&self.anchors).ok_or(Fault::NoPath(None));
        let path = trusted.and_then(|it| find_path(&leaf, &self.chain[1..], &it, self.now));
        let (path, refused) = match path {
            Ok(path) => (Some(self.described(&leaf, path)), None),
            Err(Fault::Unreadable(index)) => return unreadable(index + 1),
            Err(Fault::NoPath(refusal)) => (None, refusal.map(|it| it.reason)),
        };
        let key = self.public_key_der.as_ref();
        let names = leaf.names();
        Either::A(ChainFacts(
            leaf.not_before(),
            leaf.not_after(),
            leaf.is_ca(),
            leaf.serves_tls(),
            leaf.signs_handshakes(),
            leaf.claims_to_certify(),
            leaf.has_tls_key(),
            leaf.serial_number(),
            names.dns,
            names.others,
            names.uris,
            key.map(|key| leaf.public_key_der().as_ref() == Some(key)),
            path,
            refused,
        ))
    }

    fn described(&self, leaf: &Certificate, path: Path) -> ChainPath {
        let issuers = &path.issuers;
        let mut ders = vec![leaf.der()];
        ders.extend(issuers.ders.iter().map(|der| &**der));
        ChainPath(
            leaf.pem().unwrap_or_default() + &issuers.pem,
            sha256_hex(&ders),
            self.anchors[issuers.anchor].fingerprint.clone(),
            path.not_before,
            path.not_after,
            path.client_refusal,
        )
    }
}

fn unreadable(index: usize) -> Facts {
    Either::B(UnreadableChain {
        unreadable: index as u32,
    })
}

fn sha256_hex(parts: &[&[u8]]) -> String {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(part);
    }
    hex::lower(hash.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use super::super::forge::Issuer;
    use super::*;

    /// 2026-07-01T00:00:00Z and 2027-01-01T00:00:00Z: the certificates are valid through 2026.
    const SUMMER: f64 = 1_782_864_000_000.0;
    const NEW_YEAR: f64 = 1_798_761_600_000.0;

    fn facts(chain: [&[u8]; 2], root: &Issuer, now: f64) -> ChainFacts {
        let anchor = TrustAnchor::new(&root.der).expect("a root");
        let question = Question {
            chain: chain.map(<[u8]>::to_vec).into(),
            anchors: vec![anchor.0],
            public_key_der: None,
            now: Now {
                latest_not_before: now,
                now,
            },
        };
        match question.facts() {
            Either::A(facts) => facts,
            Either::B(UnreadableChain { unreadable }) => panic!("element {unreadable}"),
        }
    }

    fn has_path(ChainFacts(.., path, _): &ChainFacts) -> bool {
        path.as_ref()
            .is_some_and(|ChainPath(pem, ..)| pem.ends_with("-----END CERTIFICATE-----\n"))
    }

    fn is_refused(ChainFacts(.., path, refused): &ChainFacts, reason: &str) -> bool {
        path.is_none() && refused.as_ref().is_some_and(|it| it.ends_with(reason))
    }

    #[test]
    fn an_intermediate_that_is_known_is_judged_by_the_roots_and_the_time_of_each_question() {
        let (root, namesake) = (Issuer::new("root", None), Issuer::new("root", None));
        let other = Issuer::new("other", None);
        let middle = Issuer::new("middle", Some(&root));
        let leaf = middle.leaf(&[1]);
        let chain = [leaf.as_slice(), &middle.der];
        assert!(has_path(&facts(chain, &root, SUMMER)));
        assert!(is_refused(
            &facts(chain, &namesake, SUMMER),
            "signature failure"
        ));
        assert!(!has_path(&facts(chain, &other, SUMMER)));
        assert!(is_refused(&facts(chain, &root, NEW_YEAR), "has expired"));
        assert!(has_path(&facts(chain, &root, SUMMER)));
        // Another leaf below it, and one that it did not sign.
        let next = middle.leaf(&[2]);
        assert!(has_path(&facts([&next, &middle.der], &root, SUMMER)));
        let stranger = Issuer::new("middle", Some(&root)).leaf(&[3]);
        let stranger = facts([&stranger, &middle.der], &root, SUMMER);
        assert!(is_refused(&stranger, "signature failure"));
    }
}
