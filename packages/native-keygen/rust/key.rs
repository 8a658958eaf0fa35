//! One private key, its PEM and its CSR. The cryptography is aws-lc's; here is only the wrapping.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_SHA256,
};
use pem_rfc7468::LineEnding;
use zeroize::Zeroizing;

use crate::csr::{request_info, signed_request};
use crate::der;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    EcdsaP256,
    EcdsaP384,
    Rsa(KeySize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivateKeyFormat {
    Pkcs8,
    /// SEC1 (RFC 5915) or PKCS#1 (RFC 8017).
    Traditional,
}

pub struct KeyRequest {
    pub key_type: KeyType,
    identity: String,
    format: PrivateKeyFormat,
}

pub struct GeneratedKey {
    pub private_key_pem: Zeroizing<Vec<u8>>,
    pub csr_der: Vec<u8>,
    pub public_key_der: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The caller's mistake.
    Input(String),
    Cancelled,
    /// The step that the library refused; it gives no reason.
    Library(&'static str),
    Panicked,
}

impl KeyRequest {
    pub fn parse(key_type: &str, identity: String, format: &str) -> Result<Self, KeyError> {
        // Other bytes cannot stand in an IA5String. The rules of SPIFFE IDs are checked on the other side.
        if identity.is_empty() || !identity.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeyError::Input(
                "identity must be a URI of printable ASCII".into(),
            ));
        }
        Ok(Self {
            key_type: key_type.parse()?,
            identity,
            format: format.parse()?,
        })
    }
}

pub fn generate(request: &KeyRequest) -> Result<GeneratedKey, KeyError> {
    let key = PrivateKey::generate(request.key_type)?;
    let public_key_der = key.public_key_der()?;
    let info = request_info(&request.identity, &public_key_der);
    let csr_der = signed_request(&info, key.signature_algorithm(), &key.sign(&info)?);
    Ok(GeneratedKey {
        private_key_pem: key.to_pem(request.format)?,
        csr_der,
        public_key_der,
    })
}

/// Both kinds wipe their secret when they are freed (`OPENSSL_free`).
enum PrivateKey {
    Ecdsa(Box<EcdsaKeyPair>),
    Rsa(Box<rsa::KeyPair>),
}

impl PrivateKey {
    fn generate(key_type: KeyType) -> Result<Self, KeyError> {
        let ecdsa = |algorithm| Ok(Self::Ecdsa(Box::new(EcdsaKeyPair::generate(algorithm)?)));
        match key_type {
            KeyType::EcdsaP256 => ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING),
            KeyType::EcdsaP384 => ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING),
            KeyType::Rsa(size) => rsa::KeyPair::generate(size).map(|key| Self::Rsa(Box::new(key))),
        }
        .map_err(|Unspecified| KeyError::Library("generate the key"))
    }

    fn public_key_der(&self) -> Result<Vec<u8>, KeyError> {
        let der: Result<PublicKeyX509Der, Unspecified> = match self {
            Self::Ecdsa(key) => key.public_key().as_der(),
            Self::Rsa(key) => key.public_key().as_der(),
        };
        der.map(|der| der.as_ref().to_vec())
            .map_err(|Unspecified| KeyError::Library("encode the public key"))
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
        let random = SystemRandom::new();
        match self {
            Self::Ecdsa(key) => key
                .sign(&random, message)
                .map(|signature| signature.as_ref().to_vec()),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map(|()| signature)
            }
        }
        .map_err(|Unspecified| KeyError::Library("sign the request"))
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
            (Self::Rsa(key), _) => {
                let pkcs8: Pkcs8V1Der = key.as_der().map_err(failed)?;
                match format {
                    PrivateKeyFormat::Pkcs8 => pem("PRIVATE KEY", pkcs8.as_ref()),
                    PrivateKeyFormat::Traditional => {
                        let pkcs1 = inner_key(pkcs8.as_ref()).ok_or(failed(Unspecified))?;
                        pem("RSA PRIVATE KEY", pkcs1)
                    }
                }
            }
        }
    }
}

/// AlgorithmIdentifiers with tag and length: RFC 5758, section 3.2; RFC 4055, section 5.
const ECDSA_WITH_SHA256: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02,
];
const ECDSA_WITH_SHA384: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03,
];
const SHA256_WITH_RSA: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b, 0x05, 0x00,
];

/// `privateKey` of a PKCS#8 PrivateKeyInfo (RFC 5958): for RSA, a PKCS#1 key.
fn inner_key(pkcs8: &[u8]) -> Option<&[u8]> {
    let (info, _) = der::take(der::SEQUENCE, pkcs8)?;
    let (_version, info) = der::take(der::INTEGER, info)?;
    let (_algorithm, info) = der::take(der::SEQUENCE, info)?;
    der::take(der::OCTET_STRING, info).map(|(key, _)| key)
}

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
        match name {
            "ecdsa-p256" => Ok(Self::EcdsaP256),
            "ecdsa-p384" => Ok(Self::EcdsaP384),
            "rsa-2048" => Ok(Self::Rsa(KeySize::Rsa2048)),
            "rsa-3072" => Ok(Self::Rsa(KeySize::Rsa3072)),
            "rsa-4096" => Ok(Self::Rsa(KeySize::Rsa4096)),
            _ => Err(KeyError::Input(format!("type {name:?} is no key type"))),
        }
    }
}

impl FromStr for PrivateKeyFormat {
    type Err = KeyError;

    fn from_str(name: &str) -> Result<Self, KeyError> {
        match name {
            "pkcs8" => Ok(Self::Pkcs8),
            "traditional" => Ok(Self::Traditional),
            _ => Err(KeyError::Input(format!(
                "format {name:?} is no private key format"
            ))),
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(reason) => formatter.write_str(reason),
            Self::Cancelled => formatter.write_str("cancelled"),
            Self::Library(step) => write!(formatter, "aws-lc could not {step}"),
            Self::Panicked => formatter.write_str("the key generator panicked: this is a bug"),
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::EcdsaSigningAlgorithm;

    use super::*;

    fn generated(key_type: &str, format: &str) -> GeneratedKey {
        let identity = "spiffe://cluster.local/ns/default/sa/web".into();
        generate(&KeyRequest::parse(key_type, identity, format).expect("a valid request"))
            .expect("a key")
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
                let key = generated(name, format);
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
        let sizes = [("rsa-2048", 2048 / 8), ("rsa-3072", 3072 / 8)];
        for (name, bytes) in sizes {
            let key = generated(name, "pkcs8");
            let (label, der) = decoded(&key);
            assert_eq!(label, "PRIVATE KEY");
            let loaded = rsa::KeyPair::from_pkcs8(&der).expect("the key");
            assert_eq!(loaded.public_modulus_len(), bytes);
            assert_eq!(
                PrivateKey::Rsa(Box::new(loaded)).public_key_der(),
                Ok(key.public_key_der)
            );
        }
        let key = generated("rsa-2048", "traditional");
        let (label, der) = decoded(&key);
        assert_eq!(label, "RSA PRIVATE KEY");
        let loaded = rsa::KeyPair::from_der(&der).expect("the key");
        assert_eq!(
            PrivateKey::Rsa(Box::new(loaded)).public_key_der(),
            Ok(key.public_key_der)
        );
    }

    #[test]
    fn wrong_input_is_named() {
        let reason_of = |key_type, identity: &str, format| match KeyRequest::parse(
            key_type,
            identity.into(),
            format,
        ) {
            Err(KeyError::Input(reason)) => reason,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("accepted"),
        };
        assert!(reason_of("dsa", "spiffe://a/b", "pkcs8").starts_with("type \"dsa\""));
        assert!(reason_of("rsa-2048", "spiffe://a/b", "der").starts_with("format \"der\""));
        for identity in ["", "spiffe://a/é", "spiffe://a/\0", "spiffe://a/b c"] {
            assert!(reason_of("rsa-2048", identity, "pkcs8").starts_with("identity"));
        }
    }
}
