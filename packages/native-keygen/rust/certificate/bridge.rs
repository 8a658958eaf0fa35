//! The addon's interface for certificates: the facts about a chain, as one record. The judgement on them is core's;
//! `src/native-chain-reader.ts` is the other side.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use napi::bindgen_prelude::{ClassInstance, Uint8ArraySlice};
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

    /// SHA-256 (hex) of its DER.
    #[napi(getter, catch_unwind)]
    pub fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }
}

#[napi(object, object_to_js = false)]
pub struct ChainQuestion<'env> {
    /// DER, leaf first.
    pub chain: Vec<Uint8ArraySlice<'env>>,
    pub anchors: Vec<ClassInstance<'env, TrustAnchor>>,
    /// SubjectPublicKeyInfo to compare the leaf's with, unless `private_key_pem` is there.
    pub public_key_der: Option<Uint8ArraySlice<'env>>,
    /// The private key that the leaf's key is to belong to. It is read at once and never queued.
    pub private_key_pem: Option<Uint8ArraySlice<'env>>,
    /// Milliseconds since the epoch, and how far ahead of it an issuer's notBefore may be.
    pub now: f64,
    pub max_clock_skew: f64,
}

/// So much has a chain of 64 KiB of PEM.
const MAX_CHAIN_BYTES: usize = 49_152;

impl ChainQuestion<'_> {
    /// The question in memory that JavaScript cannot change.
    pub fn owned(&self) -> Result<Question> {
        let length: usize = self.chain.iter().map(|der| der.len()).sum();
        if self.chain.is_empty() || length > MAX_CHAIN_BYTES {
            return Err(Error::new(
                Status::InvalidArg,
                format!("Cannot read a chain: it has {length} bytes, not 1 to {MAX_CHAIN_BYTES}"),
            ));
        }
        Ok(Question {
            chain: self.chain.iter().map(|der| der.to_vec()).collect(),
            anchors: self.anchors.iter().map(|it| Arc::clone(&it.0)).collect(),
            public_key_der: match (&self.private_key_pem, &self.public_key_der) {
                (Some(pem), _) => private_key::public_key_of(pem),
                (None, der) => der.as_ref().map(|der| der.to_vec()),
            },
            now: Now {
                latest_not_before: self.now + self.max_clock_skew,
                now: self.now,
            },
        })
    }
}

/// Writes the record of a chain to the start of `page`, which has at least 128 KiB. It has the numbers of `Numbers` and the
/// lengths of `Texts`, each a 64-bit float in the machine's byte order, and then the texts, which are ASCII.
#[napi(catch_unwind)]
pub fn read_chain(question: ChainQuestion, mut page: Uint8ArraySlice<'_>) -> Result<()> {
    let record = question.owned()?.facts();
    // SAFETY: JavaScript does not run before this returns, so nobody else reads or writes these bytes.
    let page = unsafe { page.as_mut() };
    let Some(start) = page.get_mut(..record.len()) else {
        return Err(Error::new(
            Status::InvalidArg,
            format!(
                "Cannot write the {} bytes of a record to a page of {}",
                record.len(),
                page.len()
            ),
        ));
    };
    start.copy_from_slice(&record);
    Ok(())
}

/// A chain to read, on any thread.
pub struct Question {
    /// DER, leaf first, never empty.
    chain: Vec<Vec<u8>>,
    anchors: Vec<Arc<Anchor>>,
    /// The one that the leaf is to have; absent if it is unknown.
    public_key_der: Option<Vec<u8>>,
    now: Now,
}

/// What a record says in numbers, in this order.
#[derive(Default)]
struct Numbers {
    /// 1 more than the index of the first element that is not a certificate: nothing else is known then. 0 if there is none.
    unreadable: usize,
    /// One bit each: see `flags`.
    flags: u32,
    /// Of the leaf, milliseconds since the epoch.
    not_before: f64,
    not_after: f64,
    /// When all certificates of the path are valid, the root too.
    path_not_before: f64,
    path_not_after: f64,
    /// Index of the root that the path ends under.
    anchor: usize,
}

/// What a record says in text, in this order. Absent is empty.
#[derive(Default)]
struct Texts {
    serial_number: String,
    /// The leaf's URI names, a line feed after each. They hold none: see `Certificate::uris`.
    uris: String,
    /// SHA-256 (hex) of the chain's DER.
    version: String,
    /// PEM, leaf first, each issued by the next, without the root. Empty if there is no path.
    chain: String,
    /// Why clients that have these anchors would refuse the path.
    client_refusal: String,
    /// Why there is no path; empty as well if no issuer was found.
    refusal: String,
}

impl Question {
    pub fn facts(&self) -> Vec<u8> {
        match Certificate::parse(&self.chain[0]) {
            Some(leaf) => self.facts_about(&leaf),
            None => unreadable(0),
        }
    }

    fn facts_about(&self, leaf: &Certificate) -> Vec<u8> {
        let uris = leaf.uris();
        let key = self.public_key_der.as_deref();
        let mut numbers = Numbers {
            not_before: leaf.not_before(),
            not_after: leaf.not_after(),
            flags: flags([
                uris.is_some(),
                key.is_some(),
                key.is_some() && key == leaf.public_key_der().as_deref(),
                leaf.is_ca(),
                leaf.serves_tls(),
                leaf.signs_handshakes(),
                leaf.claims_to_certify(),
                leaf.has_tls_key(),
            ]),
            ..Numbers::default()
        };
        let mut texts = Texts {
            serial_number: leaf.serial_number(),
            uris: uris.iter().flatten().flat_map(|uri| [uri, "\n"]).collect(),
            ..Texts::default()
        };
        let trusted = Trusted::of(&self.anchors).ok_or(Fault::NoPath(None));
        match trusted.and_then(|it| find_path(leaf, &self.chain[1..], &it, self.now)) {
            Ok(path) => describe(leaf, path, &mut numbers, &mut texts),
            Err(Fault::Unreadable(index)) => return unreadable(index + 1),
            Err(Fault::NoPath(refusal)) => {
                texts.refusal = refusal.map_or(String::new(), |it| it.reason);
            }
        }
        record(&numbers, &texts)
    }
}

fn unreadable(index: usize) -> Vec<u8> {
    let numbers = Numbers {
        unreadable: index + 1,
        ..Numbers::default()
    };
    record(&numbers, &Texts::default())
}

fn describe(leaf: &Certificate, path: Path, numbers: &mut Numbers, texts: &mut Texts) {
    let Path { issuers, .. } = &path;
    let ders: Vec<&[u8]> = [leaf.der()]
        .into_iter()
        .chain(issuers.ders.iter().map(|der| &**der))
        .collect();
    texts.version = sha256_hex(&ders);
    texts.chain = leaf.pem().unwrap_or_default() + &issuers.pem;
    numbers.anchor = issuers.anchor;
    (numbers.path_not_before, numbers.path_not_after) = (path.not_before, path.not_after);
    texts.client_refusal = path.client_refusal.unwrap_or_default();
}

/// The first is the lowest bit. Whether the URI names are plain, there is a key to compare with, it is the leaf's; then as
/// the methods of `Certificate` are named.
fn flags(flags: [bool; 8]) -> u32 {
    let bits = flags.iter().enumerate();
    bits.fold(0, |bits, (index, &flag)| bits | u32::from(flag) << index)
}

fn record(numbers: &Numbers, texts: &Texts) -> Vec<u8> {
    let texts = [
        &texts.serial_number,
        &texts.uris,
        &texts.version,
        &texts.chain,
        &texts.client_refusal,
        &texts.refusal,
    ];
    let numbers = [
        numbers.unreadable as f64,
        f64::from(numbers.flags),
        numbers.not_before,
        numbers.not_after,
        numbers.path_not_before,
        numbers.path_not_after,
        numbers.anchor as f64,
    ];
    let lengths = texts.map(|text| text.len() as f64);
    let head = numbers.into_iter().chain(lengths);
    let mut record: Vec<u8> = head.flat_map(f64::to_ne_bytes).collect();
    for text in texts {
        record.extend_from_slice(text.as_bytes());
    }
    record
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

    fn facts(chain: [&[u8]; 2], root: &Issuer, now: f64) -> Vec<u8> {
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
        question.facts()
    }

    /// The end of its text: of the chain of a good path, or of the reason against it.
    fn tail(record: &[u8]) -> &str {
        let start = record.len().saturating_sub(26);
        str::from_utf8(&record[start..]).expect("text")
    }

    #[test]
    fn an_intermediate_that_is_known_is_judged_by_the_roots_and_the_time_of_each_question() {
        let (root, namesake) = (Issuer::new("root", None), Issuer::new("root", None));
        let other = Issuer::new("other", None);
        let middle = Issuer::new("middle", Some(&root));
        let leaf = middle.leaf(&[1]);
        let chain = [leaf.as_slice(), &middle.der];
        let good = facts(chain, &root, SUMMER);
        assert_eq!(tail(&good), "-----END CERTIFICATE-----\n");
        assert!(tail(&facts(chain, &namesake, SUMMER)).ends_with("signature failure"));
        assert!(!tail(&facts(chain, &other, SUMMER)).contains("CERTIFICATE"));
        assert!(tail(&facts(chain, &root, NEW_YEAR)).ends_with("has expired"));
        assert_eq!(facts(chain, &root, SUMMER), good);
        // Another leaf below it, and one that it did not sign.
        let next = middle.leaf(&[2]);
        let found = facts([&next, &middle.der], &root, SUMMER);
        assert_eq!(tail(&found), "-----END CERTIFICATE-----\n");
        let stranger = Issuer::new("middle", Some(&root)).leaf(&[3]);
        assert!(
            tail(&facts([&stranger, &middle.der], &root, SUMMER)).ends_with("signature failure")
        );
    }
}
