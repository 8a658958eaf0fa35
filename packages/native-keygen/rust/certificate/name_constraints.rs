//! Name constraints (RFC 5280, section 4.2.1.10) on URI, DNS names and IP addresses. Verifiers differ at the edges: a name
//! counts as permitted only where all of Go, BoringSSL and OpenSSL permit it, and as excluded where one of them excludes it.

use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::NameConstraints;
use x509_cert::ext::pkix::constraints::name::GeneralSubtree;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name as DistinguishedName;

use super::names::{host_of, is_host};

/// A subtree; text in lower case.
enum Subtree {
    /// Host, or with a leading dot its subdomains.
    Uri(String),
    Dns(String),
    /// Address and mask, of 4 or 16 bytes each.
    Ip(Vec<u8>),
    Email,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Direction {
    Permitted,
    Excluded,
}

/// The names that a certificate gives its owner.
pub struct Named<'a> {
    pub subject: &'a DistinguishedName,
    pub alternatives: &'a [GeneralName],
}

pub struct Constraints {
    permitted: Vec<Subtree>,
    excluded: Vec<Subtree>,
}

impl Constraints {
    /// `None` where a subtree is malformed, or of a kind that Go does not evaluate either: such a CA is not followed.
    pub fn read(constraints: &NameConstraints) -> Option<Self> {
        let lists = [
            &constraints.permitted_subtrees,
            &constraints.excluded_subtrees,
        ];
        let empty = lists.iter().all(|list| list.is_none());
        let holes = lists
            .iter()
            .any(|list| list.as_ref().is_some_and(Vec::is_empty));
        if empty || holes {
            return None;
        }
        let read = |list: &Option<Vec<GeneralSubtree>>| {
            let subtrees = list.iter().flatten();
            subtrees
                .map(Subtree::read)
                .collect::<Option<Vec<Subtree>>>()
        };
        Some(Self {
            permitted: read(lists[0])?,
            excluded: read(lists[1])?,
        })
    }

    /// Whether a certificate with these names may be below. Every name that is read costs one of `budget`, and so does each comparison; they
    /// are paid for before the first is read, and when the budget is used up nothing is allowed.
    pub fn allow(&self, named: &Named, is_leaf: bool, budget: &mut usize) -> bool {
        let subtrees = self.permitted.len() + self.excluded.len();
        let cost = Names::most(named).saturating_mul(1 + subtrees);
        if cost > *budget {
            *budget = 0;
            return false;
        }
        *budget -= cost;
        let names = Names::of(named, is_leaf);
        names.0.iter().all(|name| self.allows(name))
    }

    fn allows(&self, name: &Name) -> bool {
        // Where there are constraints of any kind, Go refuses names that it cannot parse.
        if !name.is_well_formed() {
            return false;
        }
        let of_kind = |subtrees: &'_ [Subtree]| subtrees.iter().any(|it| it.is_of_kind(name));
        let (is_limited, is_excluding) = (of_kind(&self.permitted), of_kind(&self.excluded));
        if !is_limited && !is_excluding {
            return true;
        }
        let covered = |subtrees: &'_ [Subtree], direction| {
            subtrees.iter().any(|it| it.covers(name, direction))
        };
        name.is_comparable()
            && (!is_limited || covered(&self.permitted, Direction::Permitted))
            && !covered(&self.excluded, Direction::Excluded)
    }
}

/// A name that constraints apply to; text in lower case.
enum Name {
    /// The host, if the URI has one that can be recognised.
    Uri(Option<String>),
    Dns(String),
    Ip(Vec<u8>),
    /// Whether it is a plain mailbox.
    Email(bool),
}

struct Names(Vec<Name>);

impl Names {
    /// How many there can be, without reading one.
    fn most(named: &Named) -> usize {
        let attributes = named.subject.iter_rdn();
        named.alternatives.len() + attributes.map(|part| part.iter().count()).sum::<usize>()
    }

    fn of(named: &Named, is_leaf: bool) -> Self {
        let mut names: Vec<Name> = named.alternatives.iter().filter_map(Name::read).collect();
        let attributes = || named.subject.iter_rdn().flat_map(|part| part.iter());
        // RFC 5280, section 4.2.1.10: a mail address in the subject counts.
        if attributes().any(|attribute| attribute.oid == EMAIL_ADDRESS) {
            names.push(Name::Email(true));
        }
        // OpenSSL takes a leaf's common name for a DNS name where there is none.
        if is_leaf && !names.iter().any(|name| matches!(name, Name::Dns(_))) {
            let common = attributes().filter(|attribute| attribute.oid == COMMON_NAME);
            let hosts = common
                .filter_map(|attribute| str::from_utf8(attribute.value.value()).ok())
                .filter(|text| text.contains('.') && is_host(text));
            names.extend(hosts.map(|text| Name::Dns(text.to_ascii_lowercase())));
        }
        Self(names)
    }
}

const EMAIL_ADDRESS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.1");
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

impl Name {
    /// Names of other kinds are bound by no constraint that is followed.
    fn read(name: &GeneralName) -> Option<Self> {
        Some(match name {
            GeneralName::UniformResourceIdentifier(uri) => {
                Self::Uri(host_of(uri.as_str()).map(str::to_ascii_lowercase))
            }
            GeneralName::DnsName(text) => Self::Dns(text.as_str().to_ascii_lowercase()),
            GeneralName::IpAddress(address) => Self::Ip(address.as_bytes().to_vec()),
            GeneralName::Rfc822Name(text) => Self::Email(is_mailbox(text.as_str())),
            _ => return None,
        })
    }

    /// Mail addresses are not compared, and a URI of an IP address matches nothing (RFC 5280): Go refuses it.
    fn is_comparable(&self) -> bool {
        match self {
            Self::Uri(host) => host.as_ref().is_some_and(|host| !ends_in_number(host)),
            Self::Dns(_) | Self::Ip(_) => true,
            Self::Email(_) => false,
        }
    }

    fn is_well_formed(&self) -> bool {
        match self {
            Self::Dns(text) => is_host(text.strip_prefix("*.").unwrap_or(text)),
            Self::Email(well_formed) => *well_formed,
            Self::Uri(_) | Self::Ip(_) => true,
        }
    }
}

fn is_mailbox(text: &str) -> bool {
    text.split_once('@')
        .is_some_and(|(local, domain)| is_host(local) && is_host(domain))
}

fn ends_in_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or(host);
    last.bytes().all(|byte| byte.is_ascii_digit())
}

impl Subtree {
    fn read(subtree: &GeneralSubtree) -> Option<Self> {
        // RFC 5280: minimum is 0 and maximum absent.
        if subtree.minimum != 0 || subtree.maximum.is_some() {
            return None;
        }
        Some(match &subtree.base {
            // Empty, it is every URI to some verifiers and none to others.
            GeneralName::UniformResourceIdentifier(text) if !ends_in_number(text.as_str()) => {
                Self::Uri(domain(text.as_str())?)
            }
            GeneralName::DnsName(text) if text.as_str().is_empty() => Self::Dns(String::new()),
            GeneralName::DnsName(text) => Self::Dns(domain(text.as_str())?),
            GeneralName::IpAddress(bytes) => Self::Ip(network(bytes.as_bytes())?),
            GeneralName::Rfc822Name(_) => Self::Email,
            _ => return None,
        })
    }

    fn is_of_kind(&self, name: &Name) -> bool {
        matches!(
            (self, name),
            (Self::Uri(_), Name::Uri(_))
                | (Self::Dns(_), Name::Dns(_))
                | (Self::Ip(_), Name::Ip(_))
                | (Self::Email, Name::Email(_))
        )
    }

    fn covers(&self, name: &Name, direction: Direction) -> bool {
        match (self, name) {
            // RFC 5280 and OpenSSL: this host; Go: its subdomains as well.
            (Self::Uri(base), Name::Uri(Some(host))) => match direction {
                Direction::Permitted if !base.starts_with('.') => host == base,
                _ => is_within(host, base),
            },
            (Self::Dns(base), Name::Dns(host)) => {
                let of_wildcard = direction == Direction::Excluded
                    && host
                        .strip_prefix("*.")
                        .is_some_and(|parent| is_within(base, parent));
                is_within(host, base) || of_wildcard
            }
            (Self::Ip(network), Name::Ip(address)) => is_in_network(address, network),
            _ => false,
        }
    }
}

/// `None` unless it is a host, or one behind a dot.
fn domain(text: &str) -> Option<String> {
    is_host(text.strip_prefix('.').unwrap_or(text)).then(|| text.to_ascii_lowercase())
}

/// Whether `host` is `base` or below it; only below it if `base` begins with a dot.
fn is_within(host: &str, base: &str) -> bool {
    host.strip_suffix(base)
        .is_some_and(|rest| match base.chars().next() {
            None => true,
            Some('.') => !rest.is_empty(),
            Some(_) => rest.is_empty() || rest.ends_with('.'),
        })
}

/// Address and mask, where the mask is a prefix.
fn network(bytes: &[u8]) -> Option<Vec<u8>> {
    if !matches!(bytes.len(), 8 | 32) {
        return None;
    }
    let mask = &bytes[bytes.len() / 2..];
    let ones: u32 = mask
        .iter()
        .map(|byte| byte.leading_ones())
        .take_while(|&ones| ones == 8)
        .sum();
    let all: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let next = mask
        .get(ones as usize / 8)
        .map_or(0, |byte| byte.leading_ones());
    (all == ones + next).then(|| bytes.to_vec())
}

fn is_in_network(address: &[u8], network: &[u8]) -> bool {
    let (base, mask) = network.split_at(network.len() / 2);
    address.len() == base.len()
        && address
            .iter()
            .zip(base)
            .zip(mask)
            .all(|((address, base), mask)| address & mask == base & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Name {
        Name::Uri(Some(text.into()))
    }

    #[test]
    fn a_uri_is_permitted_by_the_narrow_reading_and_excluded_by_the_wide_one() {
        let (exact, below) = (Subtree::Uri("a.b".into()), Subtree::Uri(".a.b".into()));
        assert!(exact.covers(&host("a.b"), Direction::Permitted));
        assert!(!exact.covers(&host("x.a.b"), Direction::Permitted));
        assert!(exact.covers(&host("x.a.b"), Direction::Excluded));
        assert!(!exact.covers(&host("xa.b"), Direction::Excluded));
        for direction in [Direction::Permitted, Direction::Excluded] {
            assert!(below.covers(&host("y.x.a.b"), direction));
            assert!(!below.covers(&host("a.b"), direction));
        }
    }

    #[test]
    fn a_wildcard_is_excluded_with_any_name_that_it_stands_for() {
        let dns = |text: &str| Name::Dns(text.into());
        let tree = Subtree::Dns("x.a.b".into());
        assert!(tree.covers(&dns("*.a.b"), Direction::Excluded));
        assert!(!tree.covers(&dns("*.a.b"), Direction::Permitted));
        assert!(tree.covers(&dns("*.x.a.b"), Direction::Permitted));
        assert!(!tree.covers(&dns("*.c.b"), Direction::Excluded));
    }

    #[test]
    fn a_mask_has_to_be_a_prefix() {
        for (mask, good) in [
            ([255, 255, 255, 255], true),
            ([255, 240, 0, 0], true),
            ([0, 0, 0, 0], true),
            ([255, 0, 255, 0], false),
            ([255, 0xfd, 0, 0], false),
            ([0, 1, 0, 0], false),
        ] {
            let bytes = [&[10, 0, 0, 1][..], &mask].concat();
            assert_eq!(network(&bytes).is_some(), good, "{mask:?}");
        }
        let ten = [10, 1, 0, 0, 255, 255, 0, 0];
        assert!(is_in_network(&[10, 1, 2, 3], &ten));
        assert!(!is_in_network(&[10, 2, 2, 3], &ten));
        assert!(!is_in_network(&[0; 16], &ten));
        assert_eq!(network(&[0; 5]), None);
    }
}
