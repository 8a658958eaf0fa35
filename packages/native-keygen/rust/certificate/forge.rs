//! Certificates for the tests and the fuzzing on this side; the wrong ones are tested from JavaScript, beside OpenSSL.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use crate::der::{BIT_STRING, INTEGER, OCTET_STRING, SEQUENCE, SET, element};

pub const IDENTITY: &str = "spiffe://cluster.local/ns/default/sa/web";
const ECDSA_WITH_SHA256: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02,
];
const UTC_TIME: u8 = 0x17;

pub struct Issuer {
    name: Vec<u8>,
    key: EcdsaKeyPair,
    pub der: Vec<u8>,
}

impl Issuer {
    /// Self-signed without a parent; valid through 2026.
    pub fn new(common_name: &str, parent: Option<&Issuer>) -> Self {
        let text = element(0x0c, &[common_name.as_bytes()]);
        let attribute = element(SEQUENCE, &[&[0x06, 0x03, 0x55, 0x04, 0x03], &text]);
        let mut issuer = Self {
            name: element(SEQUENCE, &[&element(SET, &[&attribute])]),
            key: new_key(),
            der: Vec::new(),
        };
        issuer.der = issuer.reissued(parent.unwrap_or(&issuer), &[]);
        issuer
    }

    /// A certificate of this name and key under `parent`, with extensions (DER, one after the other) more than it needs.
    pub fn reissued(&self, parent: &Issuer, extensions: &[u8]) -> Vec<u8> {
        let is_ca = element(SEQUENCE, &[&[0x01, 0x01, 0xff]]);
        let constraints = extension(&[0x55, 0x1d, 0x13], &is_ca);
        let extensions = [&constraints, extensions].concat();
        parent.sign(&tbs(parent, &[1], &self.name, &self.key, &extensions))
    }

    #[cfg(test)]
    pub fn leaf(&self, serial: &[u8]) -> Vec<u8> {
        self.leaf_with(serial, &[])
    }

    /// A leaf with extensions as in `reissued`.
    pub fn leaf_with(&self, serial: &[u8], extensions: &[u8]) -> Vec<u8> {
        let uri = element(SEQUENCE, &[&element(0x86, &[IDENTITY.as_bytes()])]);
        let names = extension(&[0x55, 0x1d, 0x11], &uri);
        let extensions = [&names, extensions].concat();
        let nobody = element(SEQUENCE, &[]);
        self.sign(&tbs(self, serial, &nobody, &new_key(), &extensions))
    }

    fn sign(&self, tbs: &[u8]) -> Vec<u8> {
        let signature = self.key.sign(&SystemRandom::new(), tbs).expect("signed");
        let bits = element(BIT_STRING, &[&[0], signature.as_ref()]);
        element(SEQUENCE, &[tbs, ECDSA_WITH_SHA256, &bits])
    }

    #[cfg(test)]
    pub fn certificate(&self) -> super::Certificate {
        super::Certificate::parse(&self.der).expect("a certificate")
    }
}

fn new_key() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key")
}

fn tbs(
    issuer: &Issuer,
    serial: &[u8],
    subject: &[u8],
    key: &EcdsaKeyPair,
    extensions: &[u8],
) -> Vec<u8> {
    let spki: PublicKeyX509Der = key.public_key().as_der().expect("a public key");
    let version = element(0xa0, &[&element(INTEGER, &[&[2]])]);
    let dates = ["260101000000Z", "261231235959Z"];
    let validity: Vec<Vec<u8>> = dates
        .iter()
        .map(|date| element(UTC_TIME, &[date.as_bytes()]))
        .collect();
    element(
        SEQUENCE,
        &[
            &version,
            &element(INTEGER, &[serial]),
            ECDSA_WITH_SHA256,
            &issuer.name,
            &element(SEQUENCE, &[&validity[0], &validity[1]]),
            subject,
            spki.as_ref(),
            &element(0xa3, &[&element(SEQUENCE, &[extensions])]),
        ],
    )
}

fn extension(id: &[u8], value: &[u8]) -> Vec<u8> {
    let value = element(OCTET_STRING, &[value]);
    element(SEQUENCE, &[&element(0x06, &[id]), &value])
}
