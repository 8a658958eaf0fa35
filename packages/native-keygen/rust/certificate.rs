//! X.509 certificates (RFC 5280), read strictly: what OpenSSL refuses is refused here too, and so is what is no DER.

pub mod bridge;
#[cfg(test)]
mod forge;
mod names;
mod object_identifiers;
mod path;
mod private_key;
mod signature;

use std::collections::HashSet;

use object_identifiers::are_shortest;
use x509_cert::der::asn1::{BitStringRef, ObjectIdentifier};
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::oid::db::rfc5280::{ID_KP_CLIENT_AUTH, ID_KP_SERVER_AUTH};
use x509_cert::der::{Decode, Encode, Header, Reader, SliceReader};
use x509_cert::ext::pkix::crl::CrlDistributionPoints;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, NameConstraints,
    SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::time::Time;
use x509_cert::{TbsCertificate, Version};

/// A certificate that could be read, and what its extensions say where those can be read, too.
pub struct Certificate {
    der: Vec<u8>,
    parsed: x509_cert::Certificate,
    /// Absent where one of them is malformed, twice there, or critical and unknown: such a certificate is in no path.
    profile: Option<Profile>,
}

/// What the extensions say.
#[derive(Default)]
struct Profile {
    basic_constraints: Option<BasicConstraints>,
    key_usage: Option<KeyUsage>,
    extended_key_usage: Option<ExtendedKeyUsage>,
    subject_alt_name: Option<SubjectAltName>,
    subject_key: Option<SubjectKeyIdentifier>,
    authority_key: Option<AuthorityKeyIdentifier>,
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
            profile: Profile::read(tbs),
            parsed,
        })
    }

    pub fn der(&self) -> &[u8] {
        &self.der
    }

    fn tbs(&self) -> &TbsCertificate {
        self.parsed.tbs_certificate()
    }

    /// The signed bytes as they came: encoded anew they could differ.
    fn signed_bytes(&self) -> Option<&[u8]> {
        let mut reader = SliceReader::new(&self.der).ok()?;
        Header::decode(&mut reader).ok()?;
        reader.tlv_bytes().ok()
    }

    pub fn is_readable(&self) -> bool {
        self.profile.is_some()
    }

    pub fn is_ca(&self) -> bool {
        let constraints = self
            .profile
            .as_ref()
            .and_then(|profile| profile.basic_constraints.as_ref());
        constraints.is_some_and(|constraints| constraints.ca)
    }

    /// Whether an extended key usage, if there is one, names both server and client authentication.
    pub fn serves_tls(&self) -> bool {
        let usage = self
            .profile
            .as_ref()
            .and_then(|profile| profile.extended_key_usage.as_ref());
        usage.is_none_or(|ExtendedKeyUsage(usages)| {
            usages.contains(&ID_KP_SERVER_AUTH) && usages.contains(&ID_KP_CLIENT_AUTH)
        })
    }

    /// The URI names; `None` if one name of any kind holds characters that could be taken for another name.
    pub fn uris(&self) -> Option<Vec<&str>> {
        let names = self
            .profile
            .as_ref()
            .and_then(|profile| profile.subject_alt_name.as_ref());
        names.map_or(Some(Vec::new()), |SubjectAltName(names)| names::uris(names))
    }

    /// SubjectPublicKeyInfo.
    pub fn public_key_der(&self) -> Option<Vec<u8>> {
        self.tbs().subject_public_key_info().to_der().ok()
    }

    /// Milliseconds since the epoch.
    pub fn not_before(&self) -> f64 {
        milliseconds(self.tbs().validity().not_before)
    }

    pub fn not_after(&self) -> f64 {
        milliseconds(self.tbs().validity().not_after)
    }

    /// Upper-case hexadecimal in whole bytes, with a sign if negative, as OpenSSL writes it.
    pub fn serial_number(&self) -> String {
        let bytes = self.tbs().serial_number().as_bytes();
        let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
        let mut magnitude = bytes.to_vec();
        if negative {
            negate(&mut magnitude);
        }
        let zeros = magnitude.iter().take_while(|&&byte| byte == 0).count();
        let hex: String = magnitude[zeros..]
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        match (hex.as_str(), negative) {
            ("", _) => "0".into(),
            (_, true) => format!("-{hex}"),
            (_, false) => hex,
        }
    }
}

impl Profile {
    /// All that OpenSSL decodes when it first looks at a certificate (`x509v3_cache_extensions`) is decoded here.
    fn read(tbs: &TbsCertificate) -> Option<Self> {
        let Some(extensions) = tbs.extensions() else {
            return Some(Self::default());
        };
        if tbs.version() != Version::V3 || !all_known_and_unique(extensions) {
            return None;
        }
        let profile = Self {
            basic_constraints: decode(extensions)?,
            key_usage: decode(extensions)?,
            extended_key_usage: decode(extensions)?,
            subject_alt_name: decode(extensions)?,
            subject_key: decode(extensions)?,
            authority_key: decode(extensions)?,
        };
        let constraints: Option<NameConstraints> = decode(extensions)?;
        let crls: Option<CrlDistributionPoints> = decode(extensions)?;
        let sound = names::are_readable(&profile.subject_alt_name, &profile.authority_key)
            && constraints.is_none_or(|constraints| names::are_constraints_readable(&constraints))
            && crls.is_none_or(|CrlDistributionPoints(points)| {
                points.iter().all(names::is_point_readable)
            })
            && profile
                .key_usage
                .is_none_or(|KeyUsage(bits)| !bits.is_empty())
            && netscape_type_is_bits(extensions);
        sound.then_some(profile)
    }
}

/// `Some(None)` if there is no such extension, `None` if it is not what it should be.
fn decode<'a, T: AssociatedOid + Decode<'a>>(extensions: &'a Extensions) -> Option<Option<T>> {
    extensions
        .iter()
        .find(|extension| extension.extn_id == T::OID)
        .map(|extension| extension.extn_value.as_bytes())
        .map(|value| T::from_der(value).ok().filter(|_| are_shortest(value)))
        .map_or(Some(None), |decoded| decoded.map(Some))
}

const NETSCAPE_CERT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.113730.1.1");

/// What may be critical (RFC 5280, section 4.2): what is checked here, and what binds only the one who connects (names,
/// policies, revocation).
const KNOWN: [ObjectIdentifier; 13] = {
    use x509_cert::der::oid::db::rfc5280 as oid;
    [
        BasicConstraints::OID,
        KeyUsage::OID,
        ExtendedKeyUsage::OID,
        SubjectAltName::OID,
        SubjectKeyIdentifier::OID,
        AuthorityKeyIdentifier::OID,
        NameConstraints::OID,
        CrlDistributionPoints::OID,
        oid::ID_CE_CERTIFICATE_POLICIES,
        oid::ID_CE_POLICY_MAPPINGS,
        oid::ID_CE_POLICY_CONSTRAINTS,
        oid::ID_CE_INHIBIT_ANY_POLICY,
        NETSCAPE_CERT_TYPE,
    ]
};

/// OpenSSL decodes these, and nothing that an agent meets has them: proxy certificates (RFC 3820), addresses (RFC 3779).
const REFUSED: [ObjectIdentifier; 3] = [
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.14"),
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.7"),
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.8"),
];

fn all_known_and_unique(extensions: &[Extension]) -> bool {
    let mut seen = HashSet::new();
    extensions.iter().all(|extension| {
        let id = &extension.extn_id;
        seen.insert(id) && !REFUSED.contains(id) && (!extension.critical || KNOWN.contains(id))
    })
}

fn netscape_type_is_bits(extensions: &[Extension]) -> bool {
    extensions
        .iter()
        .find(|extension| extension.extn_id == NETSCAPE_CERT_TYPE)
        .is_none_or(|extension| BitStringRef::from_der(extension.extn_value.as_bytes()).is_ok())
}

fn milliseconds(time: Time) -> f64 {
    // Up to the year 9999: exact.
    time.to_unix_duration().as_secs() as f64 * 1_000.0
}

/// Two's complement.
fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes.iter_mut().rev() {
        (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
    }
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
        let cases: [(&[u8], &str); 7] = [
            (&[0], "0"),
            (&[1], "01"),
            (&[0, 0xff], "FF"),
            (&[0xff], "-01"),
            (&[0x80], "-80"),
            (&[0x80, 0], "-8000"),
            (&[0xff, 0x01], "-FF"),
        ];
        for (bytes, text) in cases {
            let leaf = Certificate::parse(&root.leaf(bytes)).expect("a certificate");
            assert_eq!(leaf.serial_number(), text);
        }
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
