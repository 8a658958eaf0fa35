//! X.509 certificates (RFC 5280), read strictly: this reader refuses everything that OpenSSL refuses, and everything that is not DER.

pub mod bridge;
#[cfg(any(test, fuzzing))]
pub(crate) mod forge;
mod intermediates;
mod issuing;
mod name_constraints;
mod names;
pub(crate) mod object_identifiers;
pub mod path;
pub(crate) mod preflight;
pub mod private_key;
mod profile;
mod public_key;
mod signature;

use std::ops::Range;
use std::sync::OnceLock;

use aws_lc_rs::signature::ParsedPublicKey;
use name_constraints::Named;
use object_identifiers::are_shortest;
use pem_rfc7468::LineEnding;
use profile::Profile;
use x509_cert::TbsCertificate;
use x509_cert::der::{Decode, Header, Reader, SliceReader};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::time::Time;

use crate::hex;

/// A certificate that could be read, and what its extensions say where those can be read, too.
pub struct Certificate {
    der: Vec<u8>,
    fields: Fields,
    parsed: x509_cert::Certificate,
    /// Absent where an extension is malformed, repeated, critical and unknown, or not supported: such a certificate is in
    /// no path.
    profile: Option<Profile>,
    /// Its public key, decoded for the algorithm that was needed first: a root verifies thousands of leaves.
    verification_key: OnceLock<Option<ParsedPublicKey>>,
    /// The public key (DER) that was found to have signed it.
    signed_by: OnceLock<Box<[u8]>>,
    pem: OnceLock<Option<String>>,
}

/// Where the fields are that count byte for byte: encoded again they could differ.
struct Fields {
    signed: Range<usize>,
    issuer: Range<usize>,
    subject: Range<usize>,
    public_key: Range<usize>,
}

impl Fields {
    fn find(der: &[u8]) -> Option<Self> {
        let mut reader = SliceReader::new(der).ok()?;
        Header::decode(&mut reader).ok()?;
        let signed = next_element(&mut reader.clone())?;
        Header::decode(&mut reader).ok()?;
        let first = next_element(&mut reader)?;
        // [0] is the version, which a certificate of version 1 does not have.
        if der.get(first.start) == Some(&0xa0) {
            next_element(&mut reader)?;
        }
        next_element(&mut reader)?;
        let issuer = next_element(&mut reader)?;
        next_element(&mut reader)?;
        Some(Self {
            signed,
            issuer,
            subject: next_element(&mut reader)?,
            public_key: next_element(&mut reader)?,
        })
    }
}

fn next_element(reader: &mut SliceReader) -> Option<Range<usize>> {
    let start = usize::try_from(reader.position()).ok()?;
    reader.tlv_bytes().ok()?;
    Some(start..usize::try_from(reader.position()).ok()?)
}

impl Certificate {
    pub fn parse(der: &[u8]) -> Option<Self> {
        let parsed = x509_cert::Certificate::from_der(der).ok()?;
        let tbs = parsed.tbs_certificate();
        let names = [tbs.issuer(), tbs.subject()];
        let key_algorithm = &tbs.subject_public_key_info().algorithm;
        let algorithms = [parsed.signature_algorithm(), tbs.signature(), key_algorithm];
        let readable = are_shortest(der)
            && names.into_iter().all(names::is_readable)
            && algorithms
                .into_iter()
                .filter_map(|algorithm| algorithm.parameters.as_ref())
                .all(names::is_value_readable);
        if !readable {
            return None;
        }
        Some(Self {
            der: der.to_vec(),
            fields: Fields::find(der)?,
            profile: Profile::read(tbs),
            parsed,
            verification_key: OnceLock::new(),
            signed_by: OnceLock::new(),
            pem: OnceLock::new(),
        })
    }

    pub fn der(&self) -> &[u8] {
        &self.der
    }

    pub fn pem(&self) -> Option<&str> {
        let encode = || pem_rfc7468::encode_string("CERTIFICATE", LineEnding::LF, &self.der).ok();
        self.pem.get_or_init(encode).as_deref()
    }

    fn tbs(&self) -> &TbsCertificate {
        self.parsed.tbs_certificate()
    }

    fn named(&self) -> Named<'_> {
        Named {
            subject: self.tbs().subject(),
            alternatives: self.profile.as_ref().map_or(&[], Profile::names),
        }
    }

    fn signed_bytes(&self) -> &[u8] {
        &self.der[self.fields.signed.clone()]
    }

    /// Whether the algorithm of the signature is the one that was signed (RFC 5280, section 4.1.1.2).
    fn names_one_algorithm(&self) -> bool {
        self.parsed.signature_algorithm() == self.tbs().signature()
    }

    /// The whole Name. Go compares names by the byte, so a CA that writes its name in two ways is two CAs.
    fn issuer(&self) -> &[u8] {
        &self.der[self.fields.issuer.clone()]
    }

    fn subject(&self) -> &[u8] {
        &self.der[self.fields.subject.clone()]
    }

    /// SubjectPublicKeyInfo.
    pub fn public_key_der(&self) -> &[u8] {
        &self.der[self.fields.public_key.clone()]
    }

    /// Whether it constrains the names below it, or may do so.
    fn constrains_names(&self) -> bool {
        let profile = self.profile.as_ref();
        profile.is_none_or(|profile| profile.name_constraints.is_some())
    }

    pub fn is_readable(&self) -> bool {
        self.profile.is_some()
    }

    pub fn is_ca(&self) -> bool {
        self.profile.as_ref().is_some_and(Profile::is_ca)
    }

    /// Whether an extended key usage, if there is one, names both server and client authentication.
    pub fn serves_tls(&self) -> bool {
        self.profile.as_ref().is_some_and(Profile::serves_tls)
    }

    /// Whether a key usage, if there is one, allows to sign a TLS handshake.
    pub fn signs_handshakes(&self) -> bool {
        let usage = self.profile.as_ref().and_then(|profile| profile.key_usage);
        usage.is_none_or(|usage| usage.digital_signature())
    }

    /// Whether a key usage says that this key signs certificates or revocation lists.
    pub fn claims_to_certify(&self) -> bool {
        let usage = self.profile.as_ref().and_then(|profile| profile.key_usage);
        usage.is_some_and(|usage| usage.key_cert_sign() || usage.crl_sign())
    }

    /// Whether every TLS peer takes a handshake that is signed by this key.
    pub fn has_tls_key(&self) -> bool {
        public_key::kind_of(self.tbs().subject_public_key_info())
            .is_some_and(|kind| kind != public_key::Kind::Ed25519)
    }

    /// The URI names; `None` if one name of any kind holds characters that could be taken for another name.
    pub fn uris(&self) -> Option<Vec<&str>> {
        let names = self
            .profile
            .as_ref()
            .and_then(|profile| profile.subject_alt_name.as_ref());
        names.map_or(Some(Vec::new()), |SubjectAltName(names)| names::uris(names))
    }

    /// Milliseconds since the epoch.
    pub fn not_before(&self) -> f64 {
        milliseconds(self.tbs().validity().not_before)
    }

    pub fn not_after(&self) -> f64 {
        milliseconds(self.tbs().validity().not_after)
    }

    /// Upper-case hexadecimal in whole bytes, as OpenSSL writes it.
    pub fn serial_number(&self) -> String {
        let bytes = self.tbs().serial_number().as_bytes();
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        match &bytes[zeros..] {
            [] => "0".into(),
            bytes => hex::upper(bytes),
        }
    }
}

fn milliseconds(time: Time) -> f64 {
    // Up to the year 9999: exact.
    time.to_unix_duration().as_secs() as f64 * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::forge::{IDENTITY, Issuer};
    use super::*;

    #[test]
    fn a_leaf_says_what_was_written_into_it() {
        let der = Issuer::new("root", None).leaf(&[0x4a, 1]);
        let leaf = Certificate::parse(&der).expect("a certificate");
        assert_eq!(leaf.uris(), Some(vec![IDENTITY]));
        assert_eq!(leaf.serial_number(), "4A01");
        // 2026-01-01T00:00:00Z and 2026-12-31T23:59:59Z.
        assert_eq!(leaf.not_before(), 1_767_225_600_000.0);
        assert_eq!(leaf.not_after(), 1_798_761_599_000.0);
        assert!(leaf.is_readable() && leaf.serves_tls() && !leaf.is_ca());
        assert_eq!(leaf.der(), der);
    }

    #[test]
    fn serial_numbers_read_as_openssl_writes_them() {
        let root = Issuer::new("root", None);
        let cases: [(&[u8], &str); 3] = [(&[0], "0"), (&[1], "01"), (&[0, 0xff], "FF")];
        for (bytes, text) in cases {
            let leaf = Certificate::parse(&root.leaf(bytes)).expect("a certificate");
            assert_eq!(leaf.serial_number(), text);
        }
    }

    #[test]
    fn a_negative_serial_number_is_not_readable() {
        let der = Issuer::new("root", None).leaf(&[0xff]);
        assert!(
            !Certificate::parse(&der)
                .expect("a certificate")
                .is_readable()
        );
    }

    #[test]
    fn one_byte_more_or_less_is_no_certificate() {
        let der = Issuer::new("root", None).leaf(&[1]);
        let longer = [der.as_slice(), &[0]].concat();
        assert!(Certificate::parse(&longer).is_none());
        assert!((0..der.len()).all(|length| Certificate::parse(&der[..length]).is_none()));
    }

    #[test]
    fn no_changed_byte_makes_the_reader_panic() {
        let der = Issuer::new("root", None).leaf(&[1]);
        for index in 0..der.len() {
            for byte in [0, 1, 0x06, 0x1f, 0x30, 0x7f, 0x80, 0x84, 0xa0, 0xff] {
                let mut changed = der.clone();
                changed[index] = byte;
                if let Some(certificate) = Certificate::parse(&changed) {
                    certificate.serial_number();
                    certificate.uris();
                }
            }
        }
    }
}
