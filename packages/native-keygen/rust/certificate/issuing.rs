//! Whether a certificate is the issuer above a path, by the rules of RFC 5280, section 6.1. Where Go, BoringSSL and OpenSSL
//! disagree, the strictest of them counts: any of them can be the peer. An anchor is held to the same rules as an
//! intermediate (as in all three), only its own signature is not looked at.

use x509_cert::ext::pkix::KeyUsage;
use x509_cert::ext::pkix::name::GeneralName;

use super::Certificate;
use super::names::are_issuer_names;
use super::profile::Profile;

/// When a certificate has to be valid, milliseconds since the epoch.
#[derive(Clone, Copy)]
pub struct Now {
    /// An issuer may start as late as this: clocks differ.
    pub latest_not_before: f64,
    pub now: f64,
}

/// The rule that an issuer broke. Core has a sentence for each.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    Extensions,
    KeyIdentifier,
    Authority,
    KeyUsage,
    ExtendedKeyUsage,
    Dates,
    PathLength,
    Key,
    Algorithm,
    NameConstraints,
    Signature,
    Effort,
}

impl Rule {
    pub fn code(self) -> &'static str {
        match self {
            Self::Extensions => "extensions",
            Self::KeyIdentifier => "key-identifier",
            Self::Authority => "authority",
            Self::KeyUsage => "key-usage",
            Self::ExtendedKeyUsage => "extended-key-usage",
            Self::Dates => "dates",
            Self::PathLength => "path-length",
            Self::Key => "key",
            Self::Algorithm => "algorithm",
            Self::NameConstraints => "name-constraints",
            Self::Signature => "signature",
            Self::Effort => "effort",
        }
    }

    /// Whether it only says that another certificate of this name is the issuer.
    pub fn is_mistaken_identity(self) -> bool {
        matches!(self, Self::Signature | Self::KeyIdentifier)
    }
}

/// An empty name is nobody's (RFC 5280, section 4.1.2.4).
const NO_NAME: &[u8] = &[0x30, 0];

pub fn is_named_issuer(issuer: &Certificate, subject: &Certificate) -> bool {
    subject.issuer() == issuer.subject() && issuer.subject() != NO_NAME
}

/// Every rule but the signature, which costs more than all of them. `comparisons` is what names may still cost.
pub fn check(
    issuer: &Certificate,
    path: &[&Certificate],
    now: Now,
    comparisons: &mut usize,
) -> Result<(), Rule> {
    let [.., subject] = path else {
        return Err(Rule::Extensions);
    };
    let (Some(above), Some(below)) = (&issuer.profile, &subject.profile) else {
        return Err(Rule::Extensions);
    };
    let require = |holds: bool, rule: Rule| if holds { Ok(()) } else { Err(rule) };
    let names = above.subject_alt_name.as_ref();
    require(
        names.is_none_or(|names| are_issuer_names(&names.0, above.names_are_critical)),
        Rule::Extensions,
    )?;
    require(is_authority(issuer, above, below), Rule::KeyIdentifier)?;
    require(above.is_ca(), Rule::Authority)?;
    let signs = above.key_usage.as_ref().is_none_or(KeyUsage::key_cert_sign);
    require(signs, Rule::KeyUsage)?;
    require(above.serves_tls(), Rule::ExtendedKeyUsage)?;
    let lives = issuer.not_before() <= now.latest_not_before && issuer.not_after() > now.now;
    require(lives, Rule::Dates)?;
    require(is_short_enough(above, path), Rule::PathLength)?;
    let allowed = above.name_constraints.as_ref().is_none_or(|constraints| {
        path.iter()
            .enumerate()
            .all(|(index, below)| constraints.allow(&below.named(), index == 0, comparisons))
    });
    match (allowed, *comparisons) {
        (true, _) => Ok(()),
        (false, 0) => Err(Rule::Effort),
        (false, _) => Err(Rule::NameConstraints),
    }
}

/// RFC 5280, section 4.2.1.9, would not count a self-issued intermediate; Go counts it.
fn is_short_enough(profile: &Profile, path: &[&Certificate]) -> bool {
    let constraints = profile.basic_constraints.as_ref();
    let limit = constraints.and_then(|constraints| constraints.path_len_constraint);
    limit.is_none_or(|limit| path.len() - 1 <= usize::from(limit))
}

/// The authority key identifier, as far as it says something, is this issuer's (RFC 5280, section 4.2.1.1). Go would take
/// it for a hint, BoringSSL and OpenSSL refuse another issuer.
fn is_authority(issuer: &Certificate, above: &Profile, below: &Profile) -> bool {
    let Some(authority) = &below.authority_key else {
        return true;
    };
    let key_fits = match (&authority.key_identifier, &above.subject_key) {
        (Some(wanted), Some(subject_key)) => *wanted == subject_key.0,
        _ => true,
    };
    let serial_fits = authority
        .authority_cert_serial_number
        .as_ref()
        .is_none_or(|wanted| wanted == issuer.tbs().serial_number());
    let mut names = authority.authority_cert_issuer.iter().flatten();
    let name_fits = names
        .find_map(|name| match name {
            GeneralName::DirectoryName(name) => Some(name),
            _ => None,
        })
        .is_none_or(|wanted| wanted == issuer.tbs().issuer());
    key_fits && serial_fits && name_fits
}
