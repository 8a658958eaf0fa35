//! Public keys that every TLS peer takes: RSA of 2048 to 8192 bits, P-256, P-384, P-521; to sign certificates, Ed25519 too.

use x509_cert::der::asn1::UintRef;
use x509_cert::der::oid::db::{rfc5912, rfc8410};
use x509_cert::der::{Decode, Reader, SliceReader};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
}

/// `None` for a key that is weak, costly to verify with, of another kind, or not written as Go reads it.
pub fn kind_of(key: &SubjectPublicKeyInfoOwned) -> Option<Kind> {
    let bytes = key.subject_public_key.as_bytes()?;
    let parameters = key.algorithm.parameters.as_ref();
    match key.algorithm.oid {
        rfc5912::ID_EC_PUBLIC_KEY => {
            let (kind, length) = match parameters?.decode_as().ok()? {
                rfc5912::SECP_256_R_1 => (Kind::P256, 65),
                rfc5912::SECP_384_R_1 => (Kind::P384, 97),
                rfc5912::SECP_521_R_1 => (Kind::P521, 133),
                _ => return None,
            };
            (bytes.len() == length && bytes.first() == Some(&4)).then_some(kind)
        }
        rfc5912::RSA_ENCRYPTION => {
            (parameters?.is_null() && is_rsa_usual(bytes)?).then_some(Kind::Rsa)
        }
        rfc8410::ID_ED_25519 => {
            (parameters.is_none() && bytes.len() == 32).then_some(Kind::Ed25519)
        }
        _ => None,
    }
}

/// RSAPublicKey (RFC 8017, appendix A.1.1). A larger exponent than 65537 makes a verification many times as long.
fn is_rsa_usual(der: &[u8]) -> Option<bool> {
    let mut reader = SliceReader::new(der).ok()?;
    let (modulus, exponent) = reader
        .sequence(|fields| {
            Ok::<_, x509_cert::der::Error>((UintRef::decode(fields)?, u32::decode(fields)?))
        })
        .ok()?;
    reader.finish().ok()?;
    let bits = modulus.as_bytes().len() * 8 - modulus.as_bytes().first()?.leading_zeros() as usize;
    Some((2_048..=8_192).contains(&bits) && (3..=65_537).contains(&exponent) && exponent % 2 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der::{INTEGER, SEQUENCE, element};

    fn rsa(modulus_bits: usize, exponent: &[u8]) -> Option<bool> {
        let mut modulus = vec![0; 1 + modulus_bits.div_ceil(8)];
        modulus[1] = 1 << ((modulus_bits - 1) % 8);
        // DER writes a leading zero only before a set top bit.
        let modulus = &modulus[usize::from(modulus[1] < 0x80)..];
        is_rsa_usual(&element(
            SEQUENCE,
            &[
                &element(INTEGER, &[modulus]),
                &element(INTEGER, &[exponent]),
            ],
        ))
    }

    #[test]
    fn rsa_keys_have_to_be_strong_and_cheap() {
        for bits in [2_048, 3_072, 4_096, 8_192] {
            assert_eq!(rsa(bits, &[1, 0, 1]), Some(true), "{bits}");
        }
        for bits in [1_024, 2_047, 8_193, 65_536] {
            assert_eq!(rsa(bits, &[1, 0, 1]), Some(false), "{bits}");
        }
        assert_eq!(rsa(2_048, &[3]), Some(true));
        for exponent in [
            &[1][..],
            &[2],
            &[1, 0, 0],
            &[1, 0, 3],
            &[0x7f, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(rsa(2_048, exponent), Some(false), "{exponent:?}");
        }
        assert_eq!(rsa(2_048, &[1, 0, 0, 0, 1]), None);
        assert_eq!(is_rsa_usual(&[]), None);
    }
}
