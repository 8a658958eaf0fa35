//! Signatures of certificates, checked by aws-lc. SHA-1, SHA-224 and MD5 are refused, and so are weak keys.

use std::ptr::addr_eq;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P256_SHA512_ASN1, ECDSA_P384_SHA256_ASN1,
    ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1, ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1,
    ECDSA_P521_SHA512_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, VerificationAlgorithm,
};
use x509_cert::der::Encode;
use x509_cert::der::asn1::{Any, ObjectIdentifier};
use x509_cert::der::oid::db::{rfc5912, rfc8410};
use x509_cert::spki::AlgorithmIdentifierOwned;

use super::Certificate;
use super::public_key::{Kind, kind_of};

/// The algorithm that signs `subject` by the key of `issuer`, if it is known and strong. Costs next to nothing.
pub fn scheme(
    subject: &Certificate,
    issuer: &Certificate,
) -> Result<&'static dyn VerificationAlgorithm, Weakness> {
    let key = issuer.tbs().subject_public_key_info();
    let kind = kind_of(key).ok_or(Weakness::Key)?;
    // Go cannot read a certificate that names two algorithms, a root neither.
    if !subject.names_one_algorithm() || !issuer.names_one_algorithm() {
        return Err(Weakness::Algorithm);
    }
    let algorithm = subject.parsed.signature_algorithm();
    verification(algorithm, kind).ok_or(Weakness::Algorithm)
}

pub enum Weakness {
    Key,
    Algorithm,
}

/// Whether `subject` is signed by the key of `issuer`. The key that was found to have signed it is remembered with it, since
/// an intermediate is asked about with each of its leaves.
pub fn is_signed_by(
    subject: &Certificate,
    issuer: &Certificate,
    scheme: &'static dyn VerificationAlgorithm,
) -> bool {
    let key = issuer.public_key_der();
    if subject.signed_by.get().is_some_and(|known| **known == *key) {
        return true;
    }
    let good = has_signed(issuer, subject, scheme);
    if good {
        subject.signed_by.get_or_init(|| key.into());
    }
    good
}

fn has_signed(
    issuer: &Certificate,
    subject: &Certificate,
    scheme: &'static dyn VerificationAlgorithm,
) -> bool {
    let bits = &issuer.tbs().subject_public_key_info().subject_public_key;
    let (Some(bits), Some(signature)) = (bits.as_bytes(), subject.parsed.signature().as_bytes())
    else {
        return false;
    };
    let parse = || ParsedPublicKey::new(scheme, bits).ok();
    let has_signed =
        |key: &ParsedPublicKey| key.verify_sig(subject.signed_bytes(), signature).is_ok();
    match issuer.verification_key.get_or_init(parse) {
        Some(known) if addr_eq(known.algorithm(), scheme) => has_signed(known),
        // No key, or the CA has signed another certificate by another algorithm.
        _ => parse().is_some_and(|key| has_signed(&key)),
    }
}

/// The verification of signatures of this algorithm by a key of this kind. RFC 5480 and 5758 (ECDSA), 4055 (RSA), 8410 (Ed25519).
fn verification(
    algorithm: &AlgorithmIdentifierOwned,
    kind: Kind,
) -> Option<&'static dyn VerificationAlgorithm> {
    let parameters = algorithm.parameters.as_ref();
    match kind {
        Kind::Rsa if algorithm.oid == rfc5912::ID_RSASSA_PSS => rsa_pss(parameters?),
        Kind::Rsa => is_null(parameters).then(|| rsa_pkcs1(algorithm.oid))?,
        Kind::Ed25519 => {
            (parameters.is_none() && algorithm.oid == rfc8410::ID_ED_25519).then_some(&ED25519 as _)
        }
        curve => parameters.is_none().then(|| ecdsa(algorithm.oid, curve))?,
    }
}

fn ecdsa(algorithm: ObjectIdentifier, curve: Kind) -> Option<&'static dyn VerificationAlgorithm> {
    use rfc5912::{ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ECDSA_WITH_SHA_512};
    Some(match (curve, algorithm) {
        (Kind::P256, ECDSA_WITH_SHA_256) => &ECDSA_P256_SHA256_ASN1,
        (Kind::P256, ECDSA_WITH_SHA_384) => &ECDSA_P256_SHA384_ASN1,
        (Kind::P256, ECDSA_WITH_SHA_512) => &ECDSA_P256_SHA512_ASN1,
        (Kind::P384, ECDSA_WITH_SHA_256) => &ECDSA_P384_SHA256_ASN1,
        (Kind::P384, ECDSA_WITH_SHA_384) => &ECDSA_P384_SHA384_ASN1,
        (Kind::P384, ECDSA_WITH_SHA_512) => &ECDSA_P384_SHA512_ASN1,
        (Kind::P521, ECDSA_WITH_SHA_256) => &ECDSA_P521_SHA256_ASN1,
        (Kind::P521, ECDSA_WITH_SHA_384) => &ECDSA_P521_SHA384_ASN1,
        (Kind::P521, ECDSA_WITH_SHA_512) => &ECDSA_P521_SHA512_ASN1,
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
