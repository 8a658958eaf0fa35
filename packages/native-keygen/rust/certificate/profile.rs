//! The extensions of a certificate (RFC 5280, section 4.2): all of them, or nothing where one cannot be relied on.

use std::collections::BTreeSet;

use x509_cert::der::Decode;
use x509_cert::der::asn1::{BitStringRef, ObjectIdentifier};
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::oid::db::rfc5280::{ID_KP_CLIENT_AUTH, ID_KP_SERVER_AUTH};
use x509_cert::ext::pkix::crl::CrlDistributionPoints;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, CertificatePolicies, ExtendedKeyUsage, KeyUsage,
    NameConstraints, SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::{TbsCertificate, Version};

use super::name_constraints::Constraints;
use super::names;
use super::object_identifiers::are_shortest;

#[derive(Default)]
pub struct Profile {
    pub basic_constraints: Option<BasicConstraints>,
    pub key_usage: Option<KeyUsage>,
    pub extended_key_usage: Option<ExtendedKeyUsage>,
    pub subject_alt_name: Option<SubjectAltName>,
    pub subject_key: Option<SubjectKeyIdentifier>,
    pub authority_key: Option<AuthorityKeyIdentifier>,
    pub name_constraints: Option<Constraints>,
    /// Whether the names bind: Go refuses a certificate whose names are critical and all of kinds that it does not read.
    pub names_are_critical: bool,
}

impl Profile {
    /// All that Go and OpenSSL decode when they first look at a certificate is decoded here.
    pub fn read(tbs: &TbsCertificate) -> Option<Self> {
        // RFC 5280, section 4.1.2.2: a serial number is positive. Go cannot read one that is not.
        let serial = tbs.serial_number().as_bytes();
        if serial.first().is_some_and(|byte| byte & 0x80 != 0) {
            return None;
        }
        let Some(extensions) = tbs.extensions() else {
            return Some(Self::default());
        };
        if tbs.version() != Version::V3 || !are_known_and_unique(extensions) {
            return None;
        }
        let constraints: Option<NameConstraints> = decode(extensions)?;
        let profile = Self {
            basic_constraints: decode(extensions)?,
            key_usage: decode(extensions)?,
            extended_key_usage: decode(extensions)?,
            subject_alt_name: decode(extensions)?,
            subject_key: decode(extensions)?,
            authority_key: decode(extensions)?,
            name_constraints: match &constraints {
                Some(constraints) => Some(Constraints::read(constraints)?),
                None => None,
            },
            names_are_critical: extensions
                .iter()
                .any(|extension| extension.critical && extension.extn_id == SubjectAltName::OID),
        };
        let sound = profile.is_sound()
            && are_points_readable(decode(extensions)?)
            && are_policies_unique(decode(extensions)?)
            && is_key_usage_der(extensions)
            && (profile.is_ca() || netscape_type_serves_tls(extensions));
        sound.then_some(profile)
    }

    fn is_sound(&self) -> bool {
        let has_usage = self.key_usage.is_none_or(|KeyUsage(bits)| !bits.is_empty());
        // RFC 5280, section 4.2.1.9: a path length only with the CA bit. BoringSSL refuses the certificate otherwise.
        let limits_a_ca = self
            .basic_constraints
            .as_ref()
            .is_none_or(|it| it.ca || it.path_len_constraint.is_none());
        has_usage && limits_a_ca && names::are_readable(&self.subject_alt_name, &self.authority_key)
    }

    pub fn is_ca(&self) -> bool {
        self.basic_constraints.as_ref().is_some_and(|it| it.ca)
    }

    /// Whether an extended key usage, if there is one, names both server and client authentication. "Any" alone does not
    /// do: BoringSSL and OpenSSL refuse it.
    pub fn serves_tls(&self) -> bool {
        let usage = self.extended_key_usage.as_ref();
        usage.is_none_or(|ExtendedKeyUsage(usages)| {
            usages.contains(&ID_KP_SERVER_AUTH) && usages.contains(&ID_KP_CLIENT_AUTH)
        })
    }

    pub fn names(&self) -> &[GeneralName] {
        self.subject_alt_name
            .as_ref()
            .map_or(&[], |SubjectAltName(names)| names)
    }
}

/// `Some(None)` if there is no such extension, `None` if it is malformed.
fn decode<'a, T: AssociatedOid + Decode<'a>>(extensions: &'a Extensions) -> Option<Option<T>> {
    extensions
        .iter()
        .find(|extension| extension.extn_id == T::OID)
        .map(|extension| extension.extn_value.as_bytes())
        .map(|value| T::from_der(value).ok().filter(|_| are_shortest(value)))
        .map_or(Some(None), |decoded| decoded.map(Some))
}

const NETSCAPE_CERT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.113730.1.1");

/// The extensions that are allowed to be critical: those that are checked here and that BoringSSL knows. Without policy
/// constraints on the path, policies never refuse one (RFC 5280, section 6.1).
const KNOWN: [ObjectIdentifier; 6] = [
    BasicConstraints::OID,
    KeyUsage::OID,
    ExtendedKeyUsage::OID,
    SubjectAltName::OID,
    NameConstraints::OID,
    CertificatePolicies::OID,
];

/// Extensions that peers evaluate and this program does not, critical or not; no certificate of a workload has one: proxy
/// certificates (RFC 3820), addresses (RFC 3779), constraints on policies and their mappings.
const REFUSED: [ObjectIdentifier; 6] = {
    use x509_cert::der::oid::db::rfc5280 as oid;
    [
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.14"),
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.7"),
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.8"),
        oid::ID_CE_POLICY_MAPPINGS,
        oid::ID_CE_POLICY_CONSTRAINTS,
        oid::ID_CE_INHIBIT_ANY_POLICY,
    ]
};

fn are_known_and_unique(extensions: &[Extension]) -> bool {
    let mut seen = BTreeSet::new();
    extensions.iter().all(|extension| {
        let id = &extension.extn_id;
        seen.insert(id) && !REFUSED.contains(id) && (!extension.critical || KNOWN.contains(id))
    })
}

fn are_points_readable(points: Option<CrlDistributionPoints>) -> bool {
    points.is_none_or(|CrlDistributionPoints(points)| points.iter().all(names::is_point_readable))
}

/// RFC 5280, section 4.2.1.4: none occurs twice. Go and BoringSSL refuse the certificate otherwise.
fn are_policies_unique(policies: Option<CertificatePolicies>) -> bool {
    let mut seen = BTreeSet::new();
    policies.is_none_or(|CertificatePolicies(policies)| {
        !policies.is_empty()
            && policies
                .iter()
                .all(|policy| seen.insert(policy.policy_identifier))
    })
}

/// OpenSSL takes only leaves for TLS whose old Netscape type, if there is one, says client (bit 0) and server (1).
fn netscape_type_serves_tls(extensions: &[Extension]) -> bool {
    bits_of(extensions, NETSCAPE_CERT_TYPE).is_none_or(|bits| {
        bits.is_some_and(|bits| bits.first().is_some_and(|byte| byte & 0xc0 == 0xc0))
    })
}

/// X.690, section 11.2.1: the bits of the last byte that do not count are 0. x509-cert does not look.
fn is_key_usage_der(extensions: &[Extension]) -> bool {
    bits_of(extensions, KeyUsage::OID).is_none_or(|bits| bits.is_some())
}

/// `Some(None)` if the extension is not a BIT STRING in DER.
fn bits_of(extensions: &[Extension], id: ObjectIdentifier) -> Option<Option<&[u8]>> {
    let extension = extensions.iter().find(|it| it.extn_id == id)?;
    let bits = BitStringRef::from_der(extension.extn_value.as_bytes()).ok();
    Some(bits.and_then(|bits| {
        let last = bits.raw_bytes().last().copied().unwrap_or(0);
        (last & ((1 << bits.unused_bits()) - 1) == 0).then(|| bits.raw_bytes())
    }))
}
