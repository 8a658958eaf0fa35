//! One private key, its PEM and its CSR. The cryptography is aws-lc's, but for the search for RSA's primes (`rsa`); here
//! is only the wrapping.

use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, PublicKeyX509Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
};
use pem_rfc7468::LineEnding;
use zeroize::Zeroizing;

use crate::csr::{request_info, signed_request};
use crate::der::{BIT_STRING, INTEGER, OCTET_STRING, SEQUENCE, element};
use crate::fresh_random;
use crate::key_error::KeyError;
use crate::rsa::{self, Method, RsaKey, RsaSize};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    EcdsaP256,
    EcdsaP384,
    Rsa(RsaSize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateKeyFormat {
    Pkcs8,
    /// SEC1 (RFC 5915) or PKCS#1 (RFC 8017).
    Traditional,
}

pub struct KeyRequest {
    pub key_type: KeyType,
    /// How the key is made, if it is an RSA key.
    pub rsa_method: Method,
    identity: String,
    dns_names: Vec<String>,
    format: PrivateKeyFormat,
}

pub struct GeneratedKey {
    pub private_key_pem: Zeroizing<Vec<u8>>,
    pub csr_der: Vec<u8>,
    pub public_key_der: Vec<u8>,
}

/// The longest identity: SPIFFE-ID, section 2.3.
const MAX_IDENTITY: usize = 2048;
/// RFC 1035, section 2.3.4, without the lengths on the wire.
const MAX_DNS_NAME: usize = 253;

impl KeyRequest {
    pub fn parse(
        key_type: &str,
        rsa_method: Method,
        identity: String,
        dns_names: Vec<String>,
        format: &str,
    ) -> Result<Self, KeyError> {
        let (key_type, format) = (key_type.parse()?, format.parse()?);
        Self::new(key_type, rsa_method, identity, dns_names, format)
    }

    pub fn new(
        key_type: KeyType,
        rsa_method: Method,
        identity: String,
        dns_names: Vec<String>,
        format: PrivateKeyFormat,
    ) -> Result<Self, KeyError> {
        if !is_printable(&identity, MAX_IDENTITY) {
            return Err(KeyError::Input(format!(
                "identity must be a URI of printable ASCII of at most {MAX_IDENTITY} bytes"
            )));
        }
        if !dns_names.iter().all(|it| is_printable(it, MAX_DNS_NAME)) {
            return Err(KeyError::Input(format!(
                "dnsNames must be printable ASCII of at most {MAX_DNS_NAME} bytes each"
            )));
        }
        Ok(Self {
            key_type,
            rsa_method,
            identity,
            dns_names,
            format,
        })
    }
}

/// Other bytes cannot stand in an IA5String. The rules of each kind of name are checked on the other side.
fn is_printable(name: &str, max: usize) -> bool {
    (1..=max).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

impl KeyType {
    pub const ALL: [Self; 5] = [
        Self::EcdsaP256,
        Self::EcdsaP384,
        Self::Rsa(RsaSize::Rsa2048),
        Self::Rsa(RsaSize::Rsa3072),
        Self::Rsa(RsaSize::Rsa4096),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "ecdsa-p256",
            Self::EcdsaP384 => "ecdsa-p384",
            Self::Rsa(RsaSize::Rsa2048) => "rsa-2048",
            Self::Rsa(RsaSize::Rsa3072) => "rsa-3072",
            Self::Rsa(RsaSize::Rsa4096) => "rsa-4096",
        }
    }
}

/// The search for an RSA key's primes stops soon after `cancelled` is set; no other step takes long.
pub fn generate(request: &KeyRequest, cancelled: &AtomicBool) -> Result<GeneratedKey, KeyError> {
    PrivateKey::generate(request.key_type, request.rsa_method, cancelled)?.answer(request)
}

/// A key without an identity. Both kinds wipe their secret when they are freed (`OPENSSL_free`).
pub enum PrivateKey {
    Ecdsa(Box<EcdsaKeyPair>),
    Rsa(RsaKey),
}

impl PrivateKey {
    /// `cancelled` as in `generate`.
    pub fn generate(
        key_type: KeyType,
        rsa_method: Method,
        cancelled: &AtomicBool,
    ) -> Result<Self, KeyError> {
        fresh_random::mix_in()?;
        let ecdsa = |algorithm| {
            EcdsaKeyPair::generate(algorithm)
                .map(|key| Self::Ecdsa(Box::new(key)))
                .map_err(|Unspecified| KeyError::Library("generate the key"))
        };
        match key_type {
            KeyType::EcdsaP256 => ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING),
            KeyType::EcdsaP384 => ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING),
            KeyType::Rsa(size) => rsa::generate(size, rsa_method, cancelled).map(Self::Rsa),
        }
    }

    /// The key as `request`, which is for a key of this type, wants it, with a CSR for its names.
    pub fn answer(&self, request: &KeyRequest) -> Result<GeneratedKey, KeyError> {
        let public_key_der = self.public_key_der()?;
        let info = request_info(&request.identity, &request.dns_names, &public_key_der);
        let csr_der = signed_request(&info, self.signature_algorithm(), &self.sign(&info)?);
        Ok(GeneratedKey {
            private_key_pem: self.to_pem(request.format)?,
            csr_der,
            public_key_der,
        })
    }

    /// SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7).
    pub fn public_key_der(&self) -> Result<Vec<u8>, KeyError> {
        match self {
            Self::Ecdsa(key) => {
                let der: Result<PublicKeyX509Der, Unspecified> = key.public_key().as_der();
                der.map(|der| der.as_ref().to_vec())
                    .map_err(|Unspecified| KeyError::Library("encode the public key"))
            }
            Self::Rsa(key) => {
                let no_unused_bits: &[u8] = &[0];
                let bits = element(BIT_STRING, &[no_unused_bits, &key.public_key_der()?]);
                Ok(element(SEQUENCE, &[RSA_ENCRYPTION, &bits]))
            }
        }
    }

    /// AlgorithmIdentifier of the signatures that `sign` makes.
    fn signature_algorithm(&self) -> &'static [u8] {
        match self {
            Self::Ecdsa(key) if key.algorithm() == &ECDSA_P384_SHA384_ASN1_SIGNING => {
                ECDSA_WITH_SHA384
            }
            Self::Ecdsa(_) => ECDSA_WITH_SHA256,
            Self::Rsa(_) => SHA256_WITH_RSA,
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match self {
            Self::Ecdsa(key) => key
                .sign(&SystemRandom::new(), message)
                .map(|signature| signature.as_ref().to_vec())
                .map_err(|Unspecified| KeyError::Library("sign the request")),
            Self::Rsa(key) => key.sign(message),
        }
    }

    fn to_pem(&self, format: PrivateKeyFormat) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let failed = |Unspecified| KeyError::Library("encode the private key");
        match (self, format) {
            (Self::Ecdsa(key), PrivateKeyFormat::Pkcs8) => {
                pem("PRIVATE KEY", key.to_pkcs8v1().map_err(failed)?.as_ref())
            }
            (Self::Ecdsa(key), PrivateKeyFormat::Traditional) => {
                let sec1: EcPrivateKeyRfc5915Der = key.private_key().as_der().map_err(failed)?;
                pem("EC PRIVATE KEY", sec1.as_ref())
            }
            (Self::Rsa(key), PrivateKeyFormat::Pkcs8) => {
                pem("PRIVATE KEY", &rsa_pkcs8(&key.private_key_der()?))
            }
            (Self::Rsa(key), PrivateKeyFormat::Traditional) => {
                pem("RSA PRIVATE KEY", &key.private_key_der()?)
            }
        }
    }
}

/// PrivateKeyInfo (RFC 5958) of an RSAPrivateKey. `element` allocates once, so that no copy is left.
fn rsa_pkcs8(private_key_der: &[u8]) -> Zeroizing<Vec<u8>> {
    let key = Zeroizing::new(element(OCTET_STRING, &[private_key_der]));
    let version = element(INTEGER, &[&[0]]);
    Zeroizing::new(element(SEQUENCE, &[&version, RSA_ENCRYPTION, &key]))
}

/// AlgorithmIdentifiers with tag and length: RFC 5758, section 3.2; RFC 4055, section 5; RFC 3279, section 2.3.1.
const ECDSA_WITH_SHA256: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02,
];
const ECDSA_WITH_SHA384: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03,
];
const SHA256_WITH_RSA: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b, 0x05, 0x00,
];

const RSA_ENCRYPTION: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];

/// One allocation of the right size, so that no copy of the key stays behind where a vector grew.
fn pem(label: &str, der: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let failed = |_| KeyError::Library("encode the private key as PEM");
    let length = pem_rfc7468::encoded_len(label, LineEnding::LF, der).map_err(failed)?;
    let mut pem = Zeroizing::new(vec![0; length]);
    pem_rfc7468::encode(label, LineEnding::LF, der, &mut pem).map_err(failed)?;
    Ok(pem)
}

impl FromStr for KeyType {
    type Err = KeyError;

    fn from_str(name: &str) -> Result<Self, KeyError> {
        Self::ALL
            .into_iter()
            .find(|key_type| key_type.name() == name)
            .ok_or_else(|| KeyError::Input(format!("type {name:?} is not a key type")))
    }
}

impl FromStr for PrivateKeyFormat {
    type Err = KeyError;

    fn from_str(name: &str) -> Result<Self, KeyError> {
        match name {
            "pkcs8" => Ok(Self::Pkcs8),
            "traditional" => Ok(Self::Traditional),
            _ => Err(KeyError::Input(format!(
                "format {name:?} is not a private key format"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rsa::KeyPair as LibraryKey;
    use aws_lc_rs::signature::EcdsaSigningAlgorithm;

    use super::*;

    fn generated(key_type: &str, rsa_method: Method, format: &str) -> GeneratedKey {
        let identity = "spiffe://cluster.local/ns/default/sa/web".into();
        let request = KeyRequest::parse(key_type, rsa_method, identity, vec![], format)
            .expect("a valid request");
        generate(&request, &AtomicBool::new(false)).expect("a key")
    }

    /// The label, and the DER within.
    fn decoded(key: &GeneratedKey) -> (String, Vec<u8>) {
        assert_eq!(key.private_key_pem.last(), Some(&b'\n'));
        let (label, der) = pem_rfc7468::decode_vec(&key.private_key_pem).expect("PEM");
        (label.into(), der)
    }

    #[test]
    fn an_ecdsa_key_is_loaded_back_from_both_forms() {
        let curves: [(&str, &EcdsaSigningAlgorithm); 2] = [
            ("ecdsa-p256", &ECDSA_P256_SHA256_ASN1_SIGNING),
            ("ecdsa-p384", &ECDSA_P384_SHA384_ASN1_SIGNING),
        ];
        for (name, algorithm) in curves {
            for (format, wanted) in [("pkcs8", "PRIVATE KEY"), ("traditional", "EC PRIVATE KEY")] {
                let key = generated(name, Method::Library, format);
                let (label, der) = decoded(&key);
                assert_eq!(label, wanted);
                let loaded = EcdsaKeyPair::from_private_key_der(algorithm, &der).expect("the key");
                assert_eq!(
                    PrivateKey::Ecdsa(Box::new(loaded)).public_key_der(),
                    Ok(key.public_key_der)
                );
            }
        }
    }

    #[test]
    fn an_rsa_key_is_loaded_back_from_both_forms() {
        let public_key_of = |key: LibraryKey| -> Vec<u8> {
            let der: PublicKeyX509Der = key.public_key().as_der().expect("its public key");
            der.as_ref().to_vec()
        };
        let sizes = [("rsa-2048", 2048), ("rsa-3072", 3072), ("rsa-4096", 4096)];
        let available = Method::ALL.into_iter().filter(|it| it.is_available());
        for (method, (name, bits)) in available.flat_map(|it| sizes.map(|size| (it, size))) {
            let key = generated(name, method, "pkcs8");
            let (label, der) = decoded(&key);
            assert_eq!(label, "PRIVATE KEY");
            let loaded = LibraryKey::from_pkcs8(&der).expect("the key");
            assert_eq!(8 * loaded.public_modulus_len(), bits);
            assert_eq!(public_key_of(loaded), key.public_key_der);
        }
        let key = generated("rsa-2048", Method::Search, "traditional");
        let (label, der) = decoded(&key);
        assert_eq!(label, "RSA PRIVATE KEY");
        let loaded = LibraryKey::from_der(&der).expect("the key");
        assert_eq!(public_key_of(loaded), key.public_key_der);
    }

    #[test]
    fn wrong_input_is_named() {
        let reason_with = |key_type, identity: &str, dns_name: &str, format| match KeyRequest::parse(
            key_type,
            Method::Library,
            identity.into(),
            vec![dns_name.into()],
            format,
        ) {
            Err(KeyError::Input(reason)) => reason,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("accepted"),
        };
        let reason_of = |key_type, identity, format| reason_with(key_type, identity, "a", format);
        assert!(reason_of("dsa", "spiffe://a/b", "pkcs8").starts_with("type \"dsa\""));
        assert!(reason_of("rsa-2048", "spiffe://a/b", "der").starts_with("format \"der\""));
        let long = format!("spiffe://a/{}", "b".repeat(MAX_IDENTITY));
        for identity in ["", "spiffe://a/é", "spiffe://a/\0", "spiffe://a/b c", &long] {
            assert!(reason_of("rsa-2048", identity, "pkcs8").starts_with("identity"));
        }
        for name in ["", "é.example", "a\n", &long] {
            assert!(reason_with("rsa-2048", "spiffe://a/b", name, "pkcs8").starts_with("dnsNames"));
        }
    }
}
