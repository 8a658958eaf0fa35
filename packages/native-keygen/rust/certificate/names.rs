//! Names and values in certificates: what OpenSSL would refuse, and the URI names of a leaf.

use x509_cert::der::{Any, Tag, Tagged};
use x509_cert::ext::pkix::crl::dp::DistributionPoint;
use x509_cert::ext::pkix::name::{DistributionPointName, GeneralName, OtherName};
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, SubjectAltName};
use x509_cert::name::{Name, RelativeDistinguishedName};

use super::object_identifiers::is_shortest;

/// Whether each part has a value, and each value is a string that is what its type says.
pub fn is_readable(name: &Name) -> bool {
    name.iter_rdn().all(is_part_readable)
}

fn is_part_readable(part: &RelativeDistinguishedName) -> bool {
    !part.is_empty() && part.iter().all(|attribute| is_string(&attribute.value))
}

/// Whether a value of any type is one that OpenSSL reads: it looks into those it knows. Others than these few do not occur.
pub fn is_value_readable(value: &Any) -> bool {
    match value.tag() {
        Tag::Null => value.value().is_empty(),
        // Both have been walked already (`are_shortest`).
        Tag::ObjectIdentifier | Tag::Sequence => true,
        _ => is_string(value),
    }
}

fn is_string(value: &Any) -> bool {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String => str::from_utf8(bytes).is_ok(),
        Tag::PrintableString | Tag::NumericString | Tag::Ia5String => bytes.is_ascii(),
        Tag::TeletexString => true,
        // Of UCS-2: no surrogates.
        Tag::BmpString => {
            let (units, rest) = bytes.as_chunks();
            rest.is_empty()
                && units
                    .iter()
                    .all(|&unit| char::from_u32(u16::from_be_bytes(unit).into()).is_some())
        }
        _ => false,
    }
}

pub fn are_readable(
    subject: &Option<SubjectAltName>,
    authority: &Option<AuthorityKeyIdentifier>,
) -> bool {
    let subject = subject.iter().flat_map(|SubjectAltName(names)| names);
    let authority = authority.iter().flat_map(|key| &key.authority_cert_issuer);
    subject
        .chain(authority.flatten())
        .all(is_general_name_readable)
}

/// A name relative to another is nothing that anybody writes; a point without any name is an error to OpenSSL as well.
pub fn is_point_readable(point: &DistributionPoint) -> bool {
    let issuers = point.crl_issuer.iter().flatten();
    let (names, named) = match &point.distribution_point {
        Some(DistributionPointName::FullName(names)) => (names.as_slice(), true),
        Some(DistributionPointName::NameRelativeToCRLIssuer(_)) => return false,
        None => (&[][..], issuers.clone().count() > 0),
    };
    named && names.iter().chain(issuers).all(is_general_name_readable)
}

fn is_general_name_readable(name: &GeneralName) -> bool {
    match name {
        GeneralName::DirectoryName(name) => is_readable(name),
        GeneralName::RegisteredId(id) => is_shortest(id.as_bytes()),
        GeneralName::OtherName(OtherName { value, .. }) => is_value_readable(value),
        GeneralName::IpAddress(address) => matches!(address.as_bytes().len(), 4 | 16),
        _ => true,
    }
}

/// Whether the names of an issuer can be read by every peer: Go refuses a certificate with a URI that it cannot parse, and
/// one whose names are critical and all of kinds that it does not read.
pub fn are_issuer_names(names: &[GeneralName], critical: bool) -> bool {
    let known = names.iter().any(|name| {
        matches!(
            name,
            GeneralName::UniformResourceIdentifier(_)
                | GeneralName::DnsName(_)
                | GeneralName::Rfc822Name(_)
                | GeneralName::IpAddress(_)
        )
    });
    (known || !critical)
        && names.iter().all(|name| match name {
            GeneralName::UniformResourceIdentifier(uri) => host_of(uri.as_str()).is_some(),
            GeneralName::DnsName(text) => is_host(text.as_str().trim_start_matches("*.")),
            GeneralName::Rfc822Name(text) => is_plain(text.as_bytes()),
            _ => true,
        })
}

/// The host of a URI that is nothing but `scheme://host/path`: what else an authority can hold, verifiers read differently.
pub fn host_of(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/._~-".contains(&byte))
    };
    (!scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphabetic())
        && plain(path)
        && is_host(host))
    .then_some(host)
}

/// Labels with dots between them.
pub fn is_host(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        })
}

/// The URI names, or `None` if any name could be taken for more than one where names are written as a list. Nothing that
/// stands beside a SPIFFE ID needs that; a directory name is a list itself.
pub fn uris(names: &[GeneralName]) -> Option<Vec<&str>> {
    let mut uris = Vec::new();
    for name in names {
        let plain = match name {
            GeneralName::UniformResourceIdentifier(uri) => {
                uris.push(uri.as_str());
                is_plain(uri.as_bytes())
            }
            GeneralName::DnsName(text) | GeneralName::Rfc822Name(text) => is_plain(text.as_bytes()),
            GeneralName::OtherName(OtherName { value, .. }) => is_plain(value.value()),
            GeneralName::DirectoryName(_) => false,
            GeneralName::IpAddress(_)
            | GeneralName::RegisteredId(_)
            | GeneralName::EdiPartyName(_) => true,
        };
        if !plain {
            return None;
        }
    }
    Some(uris)
}

fn is_plain(text: &[u8]) -> bool {
    text.iter()
        .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b',' | b'\''))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(tag: Tag, bytes: &[u8]) -> Any {
        Any::new(tag, bytes).expect("a value")
    }

    #[test]
    fn a_string_has_to_be_what_its_type_says() {
        assert!(is_string(&value(Tag::Utf8String, "é".as_bytes())));
        assert!(!is_string(&value(Tag::Utf8String, &[0xc3])));
        assert!(!is_string(&value(Tag::PrintableString, &[0xc3])));
        assert!(is_string(&value(Tag::TeletexString, &[0xc3])));
        assert!(is_string(&value(Tag::BmpString, &[0x20, 0xac])));
        assert!(!is_string(&value(Tag::BmpString, &[0x20])));
        assert!(!is_string(&value(Tag::BmpString, &[0xd8, 0x00])));
        assert!(!is_string(&value(Tag::Integer, &[1])));
    }

    #[test]
    fn a_value_of_another_type_is_read_only_where_it_cannot_be_wrong() {
        assert!(is_value_readable(&value(Tag::Null, &[])));
        assert!(is_value_readable(&value(Tag::Utf8String, b"x")));
        assert!(!is_value_readable(&value(Tag::Null, &[0])));
        assert!(!is_value_readable(&value(Tag::Boolean, &[1, 2])));
        assert!(!is_value_readable(&value(Tag::GeneralizedTime, b"x")));
    }

    #[test]
    fn a_name_that_could_be_read_as_two_is_not_plain() {
        assert!(is_plain(b"web.default.svc:80/~a b"));
        for text in [
            &b"a,b"[..],
            b"a\"",
            b"a'",
            b"a\\",
            b"a\0",
            b"a\n",
            b"\x7f",
            b"\xe9",
        ] {
            assert!(!is_plain(text), "{text:?}");
        }
    }
}
