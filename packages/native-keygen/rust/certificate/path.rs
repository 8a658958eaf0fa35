//! From a leaf to a trust anchor, by the rules of core's JavaScript verifier.

use x509_cert::ext::pkix::KeyUsage;
use x509_cert::ext::pkix::name::GeneralName;

use super::signature::{is_known_signed_by, is_signed_by};
use super::{Certificate, Profile};

/// Indices: of the certificates in their order, leaf first, and of the anchor above them.
pub struct Path {
    pub chain: Vec<usize>,
    pub anchor: usize,
}

/// When a certificate has to be valid, milliseconds since the epoch.
#[derive(Clone, Copy)]
pub struct Now {
    /// An issuer may start as late as this: clocks differ.
    pub latest_not_before: f64,
    pub now: f64,
}

/// The shortest path, in whatever order the intermediates come; `chain` starts with the leaf. Each certificate is tried
/// once, so ten of them cost at most 45 signatures and one more for each of them and anchor of the right name.
pub fn find_path(chain: &[Certificate], anchors: &[&Certificate], now: Now) -> Option<Path> {
    let mut unused: Vec<usize> = (1..chain.len()).collect();
    let mut paths = vec![vec![0]];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        let certificates: Vec<&Certificate> = path.iter().map(|&index| &chain[index]).collect();
        let anchor = anchors
            .iter()
            .position(|anchor| is_issuer(anchor, &certificates, now));
        if let Some(anchor) = anchor {
            return Some(Path {
                chain: path,
                anchor,
            });
        }
        unused.retain(|&index| {
            let longer = is_issuer(&chain[index], &certificates, now);
            if longer {
                paths.push([path.as_slice(), &[index]].concat());
            }
            !longer
        });
        next += 1;
    }
    None
}

/// Whether `issuer` stands over `path`, all but the signature first: that is what costs.
fn is_issuer(issuer: &Certificate, path: &[&Certificate], now: Now) -> bool {
    let [.., subject] = path else {
        return false;
    };
    let (Some(above), Some(below)) = (&issuer.profile, &subject.profile) else {
        return false;
    };
    issuer.not_before() <= now.latest_not_before
        && issuer.not_after() > now.now
        && subject.tbs().issuer() == issuer.tbs().subject()
        && may_sign(above, path)
        && is_authority(issuer, above, below)
        && if path.len() == 1 {
            is_signed_by(subject, issuer)
        } else {
            is_known_signed_by(subject, issuer)
        }
}

fn may_sign(profile: &Profile, path: &[&Certificate]) -> bool {
    let signs = profile
        .key_usage
        .as_ref()
        .is_none_or(KeyUsage::key_cert_sign);
    let Some(constraints) = profile.basic_constraints.as_ref().filter(|it| it.ca) else {
        return false;
    };
    // RFC 5280, section 4.2.1.9: neither the leaf nor a self-issued intermediate counts.
    let intermediates = path[1..]
        .iter()
        .filter(|certificate| certificate.tbs().issuer() != certificate.tbs().subject())
        .count();
    let short_enough = constraints
        .path_len_constraint
        .is_none_or(|length| intermediates <= usize::from(length));
    signs && short_enough
}

/// The authority key identifier, as far as it says something, is this issuer's (RFC 5280, section 4.2.1.1).
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

#[cfg(test)]
mod tests {
    use super::super::forge::Issuer;
    use super::*;

    /// 2026-07-01T00:00:00Z.
    const SUMMER: f64 = 1_782_864_000_000.0;

    fn path(chain: &[&[u8]], anchors: &[&Certificate], now: f64) -> Option<(Vec<usize>, usize)> {
        let chain: Vec<Certificate> = chain
            .iter()
            .map(|der| Certificate::parse(der).expect("a certificate"))
            .collect();
        let now = Now {
            latest_not_before: now,
            now,
        };
        find_path(&chain, anchors, now).map(|path| (path.chain, path.anchor))
    }

    #[test]
    fn a_path_is_found_in_any_order_without_strangers_and_remembered_signatures_change_nothing() {
        let root = Issuer::new("root", None);
        let (high, other) = (Issuer::new("high", Some(&root)), Issuer::new("other", None));
        let low = Issuer::new("low", Some(&high));
        let leaf = low.leaf(&[1]);
        let (anchor, stranger) = (root.certificate(), other.certificate());
        let chain: [&[u8]; 4] = [&leaf, &other.der, &high.der, &low.der];
        for _ in 0..2 {
            let found = path(&chain, &[&stranger, &anchor], SUMMER);
            assert_eq!(found, Some((vec![0, 3, 2], 1)));
        }
        assert_eq!(path(&chain, &[&stranger], SUMMER), None);
        assert_eq!(path(&chain[..3], &[&anchor], SUMMER), None);
    }

    #[test]
    fn a_root_of_the_same_name_signs_nothing_of_the_other() {
        let (root, namesake) = (Issuer::new("root", None), Issuer::new("root", None));
        let (high, leaf) = (Issuer::new("high", Some(&root)), root.leaf(&[1]));
        let (anchor, wrong) = (root.certificate(), namesake.certificate());
        assert_eq!(path(&[&leaf], &[&wrong], SUMMER), None);
        assert_eq!(
            path(&[&leaf], &[&wrong, &anchor], SUMMER),
            Some((vec![0], 1))
        );
        let under = high.leaf(&[1]);
        assert!(path(&[&under, &high.der], &[&anchor], SUMMER).is_some());
        assert_eq!(path(&[&under, &high.der], &[&wrong], SUMMER), None);
    }

    #[test]
    fn an_issuer_counts_only_within_its_dates() {
        let root = Issuer::new("root", None);
        let (leaf, anchor) = (root.leaf(&[1]), root.certificate());
        let first = anchor.not_before();
        let last = anchor.not_after();
        assert!(path(&[&leaf], &[&anchor], first).is_some());
        assert!(path(&[&leaf], &[&anchor], last - 1.0).is_some());
        assert_eq!(path(&[&leaf], &[&anchor], first - 1.0), None);
        assert_eq!(path(&[&leaf], &[&anchor], last), None);
    }
}
