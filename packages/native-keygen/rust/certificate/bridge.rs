//! The addon's interface for certificates: the facts about a chain, in one call. The judgement on them is core's;
//! `src/native-certificate-verifier.ts` is the other side.

use aws_lc_rs::digest::{SHA256, digest};
use napi::bindgen_prelude::{ClassInstance, Either, Uint8ArraySlice};
use napi::{Error, Result, Status};
use napi_derive::napi;
use pem_rfc7468::LineEnding;

use super::path::{Now, find_path};
use super::preflight::{self, LibraryCertificate};
use super::{Certificate, private_key};

/// A root, read once.
#[napi]
pub struct TrustAnchor {
    certificate: Certificate,
    library: Option<LibraryCertificate>,
    fingerprint: String,
}

#[napi]
impl TrustAnchor {
    /// Throws with the code `InvalidArg` if `der` is not a certificate.
    #[napi(constructor, catch_unwind)]
    pub fn new(der: &[u8]) -> Result<Self> {
        let certificate = Certificate::parse(der).ok_or_else(|| {
            Error::new(
                Status::InvalidArg,
                "Cannot read a root: it is no X.509 certificate",
            )
        })?;
        Ok(Self {
            fingerprint: sha256_hex(&[der]),
            library: LibraryCertificate::read(der),
            certificate,
        })
    }
}

#[napi(object, object_to_js = false)]
pub struct ChainQuestion<'env> {
    /// DER, leaf first.
    pub chain: Vec<Uint8ArraySlice<'env>>,
    pub anchors: Vec<ClassInstance<'env, TrustAnchor>>,
    /// SubjectPublicKeyInfo to compare the leaf's with, unless `private_key_pem` is there.
    pub public_key_der: Option<Uint8ArraySlice<'env>>,
    /// The private key that the leaf's key is to belong to.
    pub private_key_pem: Option<Uint8ArraySlice<'env>>,
    /// Milliseconds since the epoch, and how far ahead of it an issuer's notBefore may be.
    pub now: f64,
    pub max_clock_skew: f64,
}

#[napi(object, object_from_js = false)]
pub struct ChainFacts {
    /// The leaf's URI names; absent if a name holds characters that could be taken for another name.
    pub uris: Option<Vec<String>>,
    /// Absent if the private key to compare with cannot be read.
    pub key_matches: Option<bool>,
    /// Milliseconds since the epoch.
    pub not_before: f64,
    pub not_after: f64,
    pub is_ca: bool,
    /// Whether an extended key usage, if there is one, names server and client authentication.
    pub serves_tls: bool,
    /// Whether a key usage, if there is one, has digitalSignature.
    pub signs_handshakes: bool,
    /// Whether a key usage has keyCertSign or cRLSign.
    pub claims_to_certify: bool,
    /// Whether the leaf's key is RSA of 2048 to 8192 bits, P-256, P-384 or P-521.
    pub has_tls_key: bool,
    pub serial_number: String,
    /// Absent if there is none.
    pub path: Option<ChainPath>,
    /// Why there is none, where a certificate is named as the issuer.
    pub refusal: Option<PathRefusal>,
}

#[napi(object, object_from_js = false)]
pub struct ChainPath {
    /// Leaf first, each issued by the next, without the root.
    pub chain_pem: String,
    /// SHA-256 (hex) of the chain's DER.
    pub version: String,
    /// SHA-256 (hex) of the root's DER.
    pub root_fingerprint: String,
    /// Milliseconds since the epoch: when all certificates of the path are valid, the root too.
    pub not_before: f64,
    pub not_after: f64,
    /// Why clients that have these anchors would refuse the path; absent if none would.
    pub client_refusal: Option<String>,
}

#[napi(object, object_from_js = false)]
pub struct PathRefusal {
    pub rule: String,
    /// Index of the issuer that broke the rule: in the chain, and after that in the anchors.
    pub at: u32,
}

/// The facts about a chain, or the index of the first element that is not a certificate.
#[napi(catch_unwind)]
pub fn read_chain(question: ChainQuestion) -> Result<Either<ChainFacts, u32>> {
    let mut chain = Vec::with_capacity(question.chain.len());
    for (index, der) in question.chain.iter().enumerate() {
        let certificate = Certificate::parse(der).filter(|it| index > 0 || it.is_readable());
        match certificate {
            Some(certificate) => chain.push(certificate),
            None => return Ok(Either::B(index as u32)),
        }
    }
    let Some(leaf) = chain.first() else {
        return Err(Error::new(
            Status::InvalidArg,
            "Cannot read a chain: it is empty",
        ));
    };
    let (path, refusal) = match path_of(&chain, &question) {
        Ok(path) => (Some(path), None),
        Err(refusal) => (None, refusal),
    };
    Ok(Either::A(ChainFacts {
        uris: leaf
            .uris()
            .map(|uris| uris.into_iter().map(String::from).collect()),
        key_matches: key_matches(leaf, &question),
        not_before: leaf.not_before(),
        not_after: leaf.not_after(),
        is_ca: leaf.is_ca(),
        serves_tls: leaf.serves_tls(),
        signs_handshakes: leaf.signs_handshakes(),
        claims_to_certify: leaf.claims_to_certify(),
        has_tls_key: leaf.has_tls_key(),
        serial_number: leaf.serial_number(),
        path,
        refusal,
    }))
}

fn key_matches(leaf: &Certificate, question: &ChainQuestion) -> Option<bool> {
    let wanted = match (&question.private_key_pem, &question.public_key_der) {
        (Some(pem), _) => private_key::public_key_of(pem)?,
        (None, Some(der)) => der.to_vec(),
        (None, None) => return None,
    };
    Some(leaf.public_key_der() == wanted)
}

fn path_of(
    chain: &[Certificate],
    question: &ChainQuestion,
) -> std::result::Result<ChainPath, Option<PathRefusal>> {
    let anchors: Vec<&Certificate> = question
        .anchors
        .iter()
        .map(|anchor| &anchor.certificate)
        .collect();
    let now = Now {
        latest_not_before: question.now + question.max_clock_skew,
        now: question.now,
    };
    let path = find_path(chain, &anchors, now).map_err(|refusal| {
        refusal.map(|refusal| PathRefusal {
            rule: refusal.rule.code().into(),
            at: refusal.at as u32,
        })
    })?;
    let certificates: Vec<&Certificate> = path.chain.iter().map(|&index| &chain[index]).collect();
    let ders: Vec<&[u8]> = certificates.iter().map(|it| it.der()).collect();
    Ok(ChainPath {
        client_refusal: client_refusal(&certificates, question, path.not_before),
        chain_pem: ders
            .iter()
            .map(|der| pem_rfc7468::encode_string("CERTIFICATE", LineEnding::LF, der).ok())
            .collect::<Option<String>>()
            .ok_or(None)?,
        version: sha256_hex(&ders),
        root_fingerprint: question.anchors[path.anchor].fingerprint.clone(),
        not_before: path.not_before,
        not_after: path.not_after,
    })
}

/// A path that is not valid yet is judged at its first moment.
fn client_refusal(
    path: &[&Certificate],
    question: &ChainQuestion,
    not_before: f64,
) -> Option<String> {
    let roots: Vec<_> = question
        .anchors
        .iter()
        .map(|anchor| preflight::Root {
            certificate: &anchor.certificate,
            library: anchor.library.as_ref(),
            fingerprint: &anchor.fingerprint,
        })
        .collect();
    let seconds = question.now.max(not_before) / 1_000.0;
    preflight::refusal(path, &roots, seconds as i64)
}

fn sha256_hex(parts: &[&[u8]]) -> String {
    let hash = digest(&SHA256, &parts.concat());
    hash.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
