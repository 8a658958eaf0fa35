//! The public half of a private key that came as PEM (RFC 7468), for a source that brings its own keys.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use zeroize::Zeroizing;

/// SubjectPublicKeyInfo of the first private key: PKCS#8, SEC1 or PKCS#1, not encrypted.
pub fn public_key_of(pem: &[u8]) -> Option<Vec<u8>> {
    let (label, der) = first_key(pem)?;
    match label {
        "PRIVATE KEY" => ecdsa_public_key(&der)
            .or_else(|| public_der(rsa::KeyPair::from_pkcs8(&der).ok()?.public_key()))
            .or_else(|| public_der(Ed25519KeyPair::from_pkcs8(&der).ok()?.public_key())),
        "EC PRIVATE KEY" => ecdsa_public_key(&der),
        "RSA PRIVATE KEY" => public_der(rsa::KeyPair::from_der(&der).ok()?.public_key()),
        _ => None,
    }
}

/// Other blocks may come first: OpenSSL writes EC PARAMETERS.
fn first_key(pem: &[u8]) -> Option<(&str, Zeroizing<Vec<u8>>)> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    let starts = (0..pem.len()).filter(|&start| pem[start..].starts_with(BEGIN));
    for start in starts {
        let block = &pem[start..];
        let label_length = block[BEGIN.len()..]
            .windows(5)
            .position(|dashes| dashes == b"-----")?;
        let label = str::from_utf8(&block[BEGIN.len()..BEGIN.len() + label_length]).ok()?;
        if !label.ends_with("PRIVATE KEY") {
            continue;
        }
        let end = format!("-----END {label}-----");
        let length = block
            .windows(end.len())
            .position(|window| window == end.as_bytes())?
            + end.len();
        let mut der = Zeroizing::new(vec![0; length]);
        let decoded = pem_rfc7468::decode(&block[..length], &mut der)
            .ok()?
            .1
            .len();
        der.truncate(decoded);
        return Some((label, der));
    }
    None
}

fn ecdsa_public_key(der: &[u8]) -> Option<Vec<u8>> {
    [
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        &ECDSA_P384_SHA384_ASN1_SIGNING,
        &ECDSA_P521_SHA512_ASN1_SIGNING,
    ]
    .into_iter()
    .find_map(|algorithm| EcdsaKeyPair::from_private_key_der(algorithm, der).ok())
    .and_then(|key| public_der(key.public_key()))
}

fn public_der<K>(key: &K) -> Option<Vec<u8>>
where
    K: AsDer<PublicKeyX509Der<'static>>,
{
    let der: Result<PublicKeyX509Der, Unspecified> = key.as_der();
    der.ok().map(|der| der.as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{EcPrivateKeyRfc5915Der, Pkcs8V1Der};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1, EcdsaSigningAlgorithm, RSA_PKCS1_2048_8192_SHA256,
        RSA_PKCS1_SHA256, UnparsedPublicKey,
    };
    use pem_rfc7468::LineEnding;

    use super::*;

    fn pem(label: &str, der: &[u8]) -> Vec<u8> {
        let text = pem_rfc7468::encode_string(label, LineEnding::LF, der);
        text.expect("PEM").into_bytes()
    }

    /// PKCS#8, SEC1, and the public half.
    fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> (Vec<u8>, Vec<u8>, Option<Vec<u8>>) {
        let key = EcdsaKeyPair::generate(algorithm).expect("a key");
        let sec1: EcPrivateKeyRfc5915Der = key.private_key().as_der().expect("SEC1");
        (
            pem("PRIVATE KEY", key.to_pkcs8v1().expect("PKCS#8").as_ref()),
            pem("EC PRIVATE KEY", sec1.as_ref()),
            public_der(key.public_key()),
        )
    }

    #[test]
    fn the_public_half_is_that_of_the_key_in_every_form() {
        let algorithms = [
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            &ECDSA_P384_SHA384_ASN1_SIGNING,
            &ECDSA_P521_SHA512_ASN1_SIGNING,
        ];
        for algorithm in algorithms {
            let (pkcs8, sec1, public_key) = ecdsa(algorithm);
            assert!(public_key.is_some());
            assert_eq!(public_key_of(&pkcs8), public_key);
            assert_eq!(public_key_of(&sec1), public_key);
        }
        let key = rsa::KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let pkcs8: Pkcs8V1Der = key.as_der().expect("PKCS#8");
        let found = public_key_of(&pem("PRIVATE KEY", pkcs8.as_ref()));
        assert_eq!(found, public_der(key.public_key()));
    }

    #[test]
    fn other_blocks_and_text_before_the_key_are_passed_over() {
        let (_, pem, public_key) = ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING);
        let parameters = "my key\n-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
        let both = [parameters.as_bytes(), &pem].concat();
        assert_eq!(public_key_of(&both), public_key);
    }

    /// `der` with one bit changed in each of its bytes, where the public half stays the same.
    fn damaged_with_the_same_public_half(der: &[u8]) -> Vec<Vec<u8>> {
        let public_half = |der: &[u8]| public_key_of(&pem("PRIVATE KEY", der));
        let public_key = public_half(der);
        assert!(public_key.is_some());
        let damaged = (0..der.len()).map(|index| {
            let mut damaged = der.to_vec();
            damaged[index] ^= 1;
            damaged
        });
        damaged
            .filter(|damaged| public_half(damaged) == public_key)
            .collect()
    }

    #[test]
    fn a_key_whose_public_half_is_right_signs_what_that_verifies() {
        let random = SystemRandom::new();
        let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
        for der in damaged_with_the_same_public_half(ec.to_pkcs8v1().expect("PKCS#8").as_ref()) {
            let key = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, &der);
            let signature = key.expect("a key").sign(&random, b"text").expect("signed");
            let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, ec.public_key());
            assert!(verifier.verify(b"text", signature.as_ref()).is_ok());
        }
        let rsa = rsa::KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let pkcs8: Pkcs8V1Der = rsa.as_der().expect("PKCS#8");
        for der in damaged_with_the_same_public_half(pkcs8.as_ref()) {
            let key = rsa::KeyPair::from_pkcs8(&der).expect("a key");
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &random, b"text", &mut signature)
                .expect("signed");
            let verifier = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, rsa.public_key());
            assert!(verifier.verify(b"text", &signature).is_ok());
        }
    }

    #[test]
    fn what_is_no_private_key_has_no_public_half() {
        let (pem, ..) = ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING);
        let text = String::from_utf8(pem.clone()).expect("text");
        let wrong = [
            String::new(),
            "junk".into(),
            "-----BEGIN ".into(),
            "-----BEGIN PRIVATE KEY-----".into(),
            text.replace("PRIVATE", "PUBLIC"),
            text.replace("PRIVATE", "ENCRYPTED PRIVATE"),
            text.replace("END PRIVATE", "END EC PRIVATE"),
            text.replace("PRIVATE", "RSA PRIVATE"),
            text.replacen('M', "!", 1),
        ];
        for text in wrong {
            assert_eq!(public_key_of(text.as_bytes()), None, "{text}");
        }
        assert!((0..pem.len() - 30).all(|end| public_key_of(&pem[..end]).is_none()));
    }
}
