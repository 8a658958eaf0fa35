//! Signatures of certificates, checked by aws-lc. SHA-1 and RSA below 2048 bits are refused.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P256_SHA512_ASN1, ECDSA_P384_SHA256_ASN1,
    ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1, ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1,
    ECDSA_P521_SHA512_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_cert::der::Encode;
use x509_cert::der::asn1::{Any, ObjectIdentifier};
use x509_cert::der::oid::db::{rfc5912, rfc8410};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use super::Certificate;

/// Whether `subject` is signed by the key of `issuer`.
pub fn is_signed_by(subject: &Certificate, issuer: &Certificate) -> bool {
    check(subject, issuer).is_some()
}

/// The same for an intermediate: it stands over thousands of leaves, so a signature that was good is remembered.
pub fn is_known_signed_by(subject: &Certificate, issuer: &Certificate) -> bool {
    let Some(pair) = fingerprint(subject, issuer) else {
        return false;
    };
    // The set is whole at any time, so one that a panic left locked is as good.
    let known = || KNOWN_GOOD.lock().unwrap_or_else(PoisonError::into_inner);
    if known().contains(&pair) {
        return true;
    }
    let good = is_signed_by(subject, issuer);
    if good {
        let mut known = known();
        if known.len() == MAX_KNOWN_GOOD {
            known.clear();
        }
        known.insert(pair);
    }
    good
}

const MAX_KNOWN_GOOD: usize = 256;
static KNOWN_GOOD: LazyLock<Mutex<HashSet<[u8; 32]>>> = LazyLock::new(Mutex::default);

/// SHA-256 of the issuer's key and the subject, each whole DER and so of one length only.
fn fingerprint(subject: &Certificate, issuer: &Certificate) -> Option<[u8; 32]> {
    let mut hash = Context::new(&SHA256);
    hash.update(&issuer.public_key_der()?);
    hash.update(&subject.der);
    hash.finish().as_ref().try_into().ok()
}

fn check(subject: &Certificate, issuer: &Certificate) -> Option<()> {
    let algorithm = subject.parsed.signature_algorithm();
    if algorithm != subject.tbs().signature() {
        return None;
    }
    let key = issuer.tbs().subject_public_key_info();
    let key_bytes = key.subject_public_key.as_bytes()?;
    let signature = subject.parsed.signature().as_bytes()?;
    UnparsedPublicKey::new(verification(algorithm, key)?, key_bytes)
        .verify(subject.signed_bytes()?, signature)
        .ok()
}

/// What checks signatures of this algorithm by a key of this kind. RFC 5480 and 5758 (ECDSA), 4055 (RSA), 8410 (Ed25519).
fn verification(
    algorithm: &AlgorithmIdentifierOwned,
    key: &SubjectPublicKeyInfoOwned,
) -> Option<&'static dyn VerificationAlgorithm> {
    let parameters = algorithm.parameters.as_ref();
    match key.algorithm.oid {
        rfc5912::ID_EC_PUBLIC_KEY => {
            let curve = key.algorithm.parameters.as_ref()?.decode_as().ok()?;
            parameters.is_none().then(|| ecdsa(algorithm.oid, curve))?
        }
        rfc5912::RSA_ENCRYPTION if is_null(key.algorithm.parameters.as_ref()) => {
            if algorithm.oid == rfc5912::ID_RSASSA_PSS {
                return rsa_pss(parameters?);
            }
            is_null(parameters).then(|| rsa_pkcs1(algorithm.oid))?
        }
        rfc8410::ID_ED_25519 if key.algorithm.parameters.is_none() && parameters.is_none() => {
            (algorithm.oid == rfc8410::ID_ED_25519).then_some(&ED25519 as _)
        }
        _ => None,
    }
}

fn ecdsa(
    algorithm: ObjectIdentifier,
    curve: ObjectIdentifier,
) -> Option<&'static dyn VerificationAlgorithm> {
    use rfc5912::{
        ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ECDSA_WITH_SHA_512, SECP_256_R_1, SECP_384_R_1,
        SECP_521_R_1,
    };
    Some(match (curve, algorithm) {
        (SECP_256_R_1, ECDSA_WITH_SHA_256) => &ECDSA_P256_SHA256_ASN1,
        (SECP_256_R_1, ECDSA_WITH_SHA_384) => &ECDSA_P256_SHA384_ASN1,
        (SECP_256_R_1, ECDSA_WITH_SHA_512) => &ECDSA_P256_SHA512_ASN1,
        (SECP_384_R_1, ECDSA_WITH_SHA_256) => &ECDSA_P384_SHA256_ASN1,
        (SECP_384_R_1, ECDSA_WITH_SHA_384) => &ECDSA_P384_SHA384_ASN1,
        (SECP_384_R_1, ECDSA_WITH_SHA_512) => &ECDSA_P384_SHA512_ASN1,
        (SECP_521_R_1, ECDSA_WITH_SHA_256) => &ECDSA_P521_SHA256_ASN1,
        (SECP_521_R_1, ECDSA_WITH_SHA_384) => &ECDSA_P521_SHA384_ASN1,
        (SECP_521_R_1, ECDSA_WITH_SHA_512) => &ECDSA_P521_SHA512_ASN1,
        _ => return None,
    })
}

fn rsa_pkcs1(algorithm: ObjectIdentifier) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        rfc5912::SHA_256_WITH_RSA_ENCRYPTION => &RSA_PKCS1_2048_8192_SHA256,
        rfc5912::SHA_384_WITH_RSA_ENCRYPTION => &RSA_PKCS1_2048_8192_SHA384,
        rfc5912::SHA_512_WITH_RSA_ENCRYPTION => &RSA_PKCS1_2048_8192_SHA512,
        _ => return None,
    })
}

/// Only the usual parameters: one hash for both uses, and a salt of its length.
fn rsa_pss(parameters: &Any) -> Option<&'static dyn VerificationAlgorithm> {
    let der = parameters.to_der().ok()?;
    if der == pss_parameters(1, 32) {
        Some(&RSA_PSS_2048_8192_SHA256)
    } else if der == pss_parameters(2, 48) {
        Some(&RSA_PSS_2048_8192_SHA384)
    } else if der == pss_parameters(3, 64) {
        Some(&RSA_PSS_2048_8192_SHA512)
    } else {
        None
    }
}

/// RSASSA-PSS-params (RFC 4055, section 3.1) with the hash 2.16.840.1.101.3.4.2.`hash`.
#[rustfmt::skip]
fn pss_parameters(hash: u8, salt: u8) -> [u8; 54] {
    [
        0x30, 0x34,
        0xa0, 0x0f, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, hash, 0x05, 0x00,
        0xa1, 0x1c, 0x30, 0x1a, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08,
        0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, hash, 0x05, 0x00,
        0xa2, 0x03, 0x02, 0x01, salt,
    ]
}

fn is_null(parameters: Option<&Any>) -> bool {
    parameters.is_none_or(|any| any.is_null())
}
