//! Finds the path from a leaf to a root. aws-lc judges each path, as Envoy's library does; this module searches the certificates
//! that a CA has sent for one, since the library takes the first possible issuer and never backtracks.

use std::sync::Arc;

use super::Certificate;
use super::trusted::{Issuers, Trusted};
use super::verification::{Chain, Refusal, Store, element, verify};

/// The most paths verified for one leaf: the event loop waits.
const MAX_PATHS: usize = 8;
/// Partial paths that are followed: certificates that all certify each other make hundreds of thousands.
const MAX_PARTIAL_PATHS: usize = 100;
/// Signatures that are checked to tell roots of one name apart. The dearest cost half a millisecond.
const MAX_SIGNATURES: usize = 25;

/// The time of a question. Milliseconds since the epoch.
#[derive(Clone, Copy)]
pub struct Now {
    /// An issuer may start as late as this: clocks differ.
    pub latest_not_before: f64,
    pub now: f64,
}

pub struct Path {
    pub issuers: Arc<Issuers>,
    /// Milliseconds since the epoch: when all of it, the leaf and the root too, is valid.
    pub not_before: f64,
    pub not_after: f64,
    /// Why a client with all the roots may refuse it, though one of them has signed it.
    pub client_refusal: Option<String>,
}

#[derive(Debug)]
pub enum Fault {
    /// Nothing leads to a root, and this certificate above the leaf cannot be read: its index.
    Unreadable(usize),
    /// No certificate of the name of an issuer leads to a root, or what is wrong with those that do.
    NoPath(Option<Refusal>),
}

/// The path that is valid longest (no longer than its leaf), among those the one usable first, then the shortest, in whatever
/// order the certificates above the leaf were sent.
pub fn find_path(
    leaf: &Certificate,
    sent: &[Vec<u8>],
    trusted: &Trusted,
    now: Now,
) -> Result<Path, Fault> {
    if let Some(path) = known_path(leaf, sent, trusted, now) {
        return Ok(path);
    }
    let mut others: Vec<Certificate> = Vec::with_capacity(sent.len());
    let mut unreadable = None;
    for (index, der) in sent.iter().enumerate() {
        let Some(other) = Certificate::parse(der) else {
            unreadable.get_or_insert(index);
            continue;
        };
        let is_repeated = others.iter().any(|known| known.der() == other.der());
        let mut anchors = trusted.anchors.iter();
        let is_root = anchors.any(|root| root.certificate.der() == other.der());
        if !is_repeated && !is_root && leaf.der() != other.der() {
            others.push(other);
        }
    }
    let mut search = Search {
        leaf,
        others,
        trusted,
        now,
        verified: 0,
        best: None,
        refusal: None,
    };
    search.run();
    let Some((path, issuer)) = search.best else {
        return Err(match (search.refusal, unreadable) {
            (None, Some(index)) => Fault::Unreadable(index),
            (refusal, _) => Fault::NoPath(refusal),
        });
    };
    if let Some(issuer) = issuer.filter(|_| path.issuers.ders.len() == sent.len()) {
        trusted.remember(sent, &path.issuers, &search.others[issuer]);
    }
    Ok(path)
}

/// Verifies the leaf only against its issuer, if the issuer's path is known to be good.
fn known_path(leaf: &Certificate, sent: &[Vec<u8>], trusted: &Trusted, now: Now) -> Option<Path> {
    let known = trusted.known(sent)?;
    let path = path_of(leaf, &known.issuers, None);
    let is_good = !leaf.is_self_issued()
        && leaf.has_strong_signature()
        && is_valid(&path, now)
        && verify(leaf, &[], &known.store, moment([path.not_before], now)).is_ok();
    is_good.then_some(path)
}

fn path_of(leaf: &Certificate, issuers: &Arc<Issuers>, client_refusal: Option<String>) -> Path {
    Path {
        issuers: Arc::clone(issuers),
        not_before: leaf.not_before().max(issuers.not_before),
        not_after: leaf.not_after().min(issuers.not_after),
        client_refusal,
    }
}

fn is_valid(path: &Path, now: Now) -> bool {
    path.not_before < path.not_after
        && path.not_before <= now.latest_not_before
        && path.not_after > now.now
}

/// When all of them have started, at most `latest_not_before`, in seconds since the epoch.
fn moment(starts: impl IntoIterator<Item = f64>, now: Now) -> i64 {
    let start = starts.into_iter().fold(now.now, f64::max);
    (start.min(now.latest_not_before) / 1_000.0) as i64
}

struct Search<'a> {
    leaf: &'a Certificate,
    others: Vec<Certificate>,
    trusted: &'a Trusted,
    now: Now,
    verified: usize,
    /// The best path, with the index of the leaf's issuer if every leaf below it has this path.
    best: Option<(Path, Option<usize>)>,
    refusal: Option<Refusal>,
}

impl Search<'_> {
    /// Breadth first.
    fn run(&mut self) {
        let mut paths = vec![vec![]];
        let mut next = 0;
        while let Some(path) = paths.get(next).cloned() {
            next += 1;
            let top = path.last().map_or(self.leaf, |&index| &self.others[index]);
            let mut anchors = self.trusted.anchors.iter();
            if anchors.any(|root| root.certificate.may_be_issuer_of(top)) {
                if self.verified == MAX_PATHS {
                    return self.give_up();
                }
                self.verified += 1;
                if self.judge(&path) {
                    return;
                }
            }
            let top = path.last().map_or(self.leaf, |&index| &self.others[index]);
            for (index, other) in self.others.iter().enumerate() {
                if path.contains(&index) || !other.may_be_issuer_of(top) {
                    continue;
                }
                if paths.len() == MAX_PARTIAL_PATHS {
                    return self.give_up();
                }
                paths.push([path.as_slice(), &[index]].concat());
            }
        }
    }

    fn give_up(&mut self) {
        self.refusal = Some("too many certificates share a name".into());
    }

    /// Whether no other path can be better.
    fn judge(&mut self, path: &[usize]) -> bool {
        match self.verify(path) {
            Ok((found, issuer)) => self.offer(found, issuer),
            Err(refusal) => {
                self.note(refusal);
                false
            }
        }
    }

    fn verify(&self, path: &[usize]) -> Result<(Path, Option<usize>), Refusal> {
        let issuers: Vec<&Certificate> = path.iter().map(|&index| &self.others[index]).collect();
        let roots = self.trusted.anchors.iter().map(|root| &root.certificate);
        let top = issuers.last().copied().unwrap_or(self.leaf);
        let starts = [self.leaf]
            .into_iter()
            .chain(issuers.iter().copied())
            .chain(roots.filter(|root| root.may_be_issuer_of(top)))
            .map(Certificate::not_before);
        let moment = moment(starts, self.now);
        let (chain, refusal) = match verify(self.leaf, &issuers, &self.trusted.store, moment) {
            Ok(chain) => (chain, None),
            Err(refusal) => {
                let store = self.without_namesakes(&issuers);
                let chain = store.and_then(|it| verify(self.leaf, &issuers, &it, moment).ok());
                let chain = chain.ok_or_else(|| refusal.clone())?;
                (chain, Some(refusal.reason))
            }
        };
        let (above, anchor) = self.parts(&issuers, &chain)?;
        check_strength(self.leaf, &above, &self.trusted.anchors[anchor].certificate)?;
        let refusal = refusal.or_else(|| self.namesake(&above, anchor));
        let anchor = self.longest(&above, anchor, moment);
        let root = &self.trusted.anchors[anchor].certificate;
        let all = || above.iter().copied().chain([root]);
        let found = Issuers {
            ders: above.iter().map(|it| it.der().into()).collect(),
            pem: above
                .iter()
                .map(|it| it.pem())
                .collect::<Option<_>>()
                .ok_or("it has no PEM")?,
            anchor,
            not_before: all()
                .map(Certificate::not_before)
                .fold(f64::NEG_INFINITY, f64::max),
            not_after: all()
                .map(Certificate::not_after)
                .fold(f64::INFINITY, f64::min),
        };
        let found = path_of(self.leaf, &Arc::new(found), refusal);
        if !is_valid(&found, self.now) {
            return Err("its certificates are not valid at one time".into());
        }
        let is_of_every_leaf =
            found.client_refusal.is_none() && self.binds_every_leaf(&above, root);
        Ok((found, path.first().copied().filter(|_| is_of_every_leaf)))
    }

    /// The intermediates of a path, and the index of its root.
    fn parts<'b>(
        &self,
        issuers: &[&'b Certificate],
        chain: &Chain,
    ) -> Result<(Vec<&'b Certificate>, usize), Refusal> {
        let [_, above @ .., root] = chain.as_slice() else {
            return Err("the leaf itself is among the roots".into());
        };
        let mut roots = self.trusted.anchors.iter();
        let anchor = roots.position(|it| it.certificate.as_ptr() == *root);
        let above: Option<Vec<_>> = above
            .iter()
            .map(|&at| issuers.iter().copied().find(|it| it.as_ptr() == at))
            .collect();
        anchor
            .and_then(|anchor| Some((above?, anchor)))
            .ok_or_else(|| "two of the roots are the same".into())
    }

    /// The longest valid among roots with one name and key, if the leaf outlives the root that was found.
    fn longest(&self, above: &[&Certificate], found: usize, moment: i64) -> usize {
        let roots = &self.trusted.anchors;
        let root = &roots[found].certificate;
        let top = above.last().copied().unwrap_or(self.leaf);
        let mut best = found;
        for (index, other) in roots.iter().enumerate() {
            let other = &other.certificate;
            let until = roots[best].certificate.not_after();
            if until < self.leaf.not_after()
                && other.not_after() > until
                && other.may_be_issuer_of(top)
                && other.has_key_of(root)
                && Store::of([other])
                    .is_some_and(|store| verify(self.leaf, above, &store, moment).is_ok())
            {
                best = index;
            }
        }
        best
    }

    /// A root that a client may mistake for the issuer of a certificate of the path. The choice among several candidates
    /// depends on their order and on the version of the library, so such a root is a fault even if it was not chosen
    /// here.
    fn namesake(&self, above: &[&Certificate], anchor: usize) -> Option<String> {
        let roots = &self.trusted.anchors;
        let issuers = above.iter().copied().chain([&roots[anchor].certificate]);
        let below = [self.leaf].into_iter().chain(above.iter().copied());
        let mut pairs = below.zip(issuers).enumerate();
        let (at, _) = pairs.find(|(_, (below, issuer))| {
            roots.iter().any(|root| {
                root.certificate.may_be_issuer_of(below) && !root.certificate.has_key_of(issuer)
            })
        })?;
        Some(format!(
            "a root has the name of the issuer of {} and another key, and no key identifier says which is meant: some clients take the wrong one",
            element(at)
        ))
    }

    /// The roots except those with the name of an issuer on the path and another key. `None` if there are no such roots.
    fn without_namesakes(&self, issuers: &[&Certificate]) -> Option<Store> {
        let mut signatures = MAX_SIGNATURES;
        let mut is_namesake = |root: &Certificate| {
            let below = [self.leaf].into_iter().chain(issuers.iter().copied());
            below.enumerate().any(|(at, below)| {
                root.may_be_issuer_of(below)
                    && match issuers.get(at) {
                        Some(issuer) => !root.has_key_of(issuer),
                        None if signatures == 0 => true,
                        None => {
                            signatures -= 1;
                            !root.has_signed(below)
                        }
                    }
            })
        };
        let roots = self.trusted.anchors.iter().map(|root| &root.certificate);
        let rest: Vec<&Certificate> = roots.filter(|root| !is_namesake(root)).collect();
        (rest.len() < self.trusted.anchors.len()).then(|| Store::of(rest))?
    }

    /// Whether the path above the leaf is good for every other leaf that its issuer signs: nothing above the issuer depends on
    /// names, and no root can be taken for the issuer.
    fn binds_every_leaf(&self, above: &[&Certificate], root: &Certificate) -> bool {
        let Some((issuer, higher)) = above.split_first() else {
            return false;
        };
        let mut constraining = higher.iter().copied().chain([root]);
        let mut roots = self.trusted.anchors.iter();
        !self.leaf.is_self_issued()
            && !constraining.any(Certificate::constrains_names)
            && !roots.any(|root| root.certificate.has_name_of(issuer))
    }

    /// Takes a whole path if it is better than the best. `true` if no other can be better still.
    fn offer(&mut self, path: Path, issuer: Option<usize>) -> bool {
        let usable_from = |not_before: f64| not_before.max(self.now.now);
        let is_better = self.best.as_ref().is_none_or(|(best, _)| {
            path.not_after > best.not_after
                || path.not_after == best.not_after
                    && usable_from(path.not_before) < usable_from(best.not_before)
        });
        let is_best = path.not_after == self.leaf.not_after()
            && usable_from(path.not_before) == usable_from(self.leaf.not_before())
            && path.client_refusal.is_none();
        if is_better {
            self.best = Some((path, issuer));
        }
        is_best
    }

    /// Keeps the first fault about an issuer, or else the first.
    fn note(&mut self, refusal: Refusal) {
        let says_more = self
            .refusal
            .as_ref()
            .is_none_or(|known| known.is_mistaken_identity && !refusal.is_mistaken_identity);
        if says_more {
            self.refusal = Some(refusal);
        }
    }
}

/// Go and OpenSSL refuse keys and signatures that BoringSSL takes.
fn check_strength(
    leaf: &Certificate,
    above: &[&Certificate],
    root: &Certificate,
) -> Result<(), Refusal> {
    let signed = [leaf].into_iter().chain(above.iter().copied());
    let keys = above.iter().copied().chain([root]);
    for (at, (signed, issuer)) in signed.zip(keys).enumerate() {
        if !signed.has_strong_signature() {
            let reason = format!(
                "{} is signed with a hash other than SHA-256, SHA-384 or SHA-512",
                element(at)
            );
            return Err(reason.as_str().into());
        }
        if !issuer.has_ca_key() {
            let reason = format!(
                "{} has a key that is not RSA of 2048 to 8192 bits, P-256, P-384, P-521 or Ed25519",
                element(at + 1)
            );
            return Err(reason.as_str().into());
        }
    }
    Ok(())
}

/// The verdict as text, for fuzzing: equal for certificates that are signed again.
#[cfg(any(test, fuzzing))]
pub fn verdict_on(chain: &[&[u8]], roots: &[&[u8]], now: Now) -> String {
    use super::trusted::Anchor;
    let anchors: Vec<Arc<Anchor>> = roots
        .iter()
        .filter_map(|der| Certificate::parse(der))
        .map(|certificate| {
            Arc::new(Anchor {
                certificate,
                fingerprint: String::new(),
            })
        })
        .collect();
    let Some((leaf, sent)) = chain.split_first() else {
        return "empty".into();
    };
    let Some(leaf) = Certificate::parse(leaf) else {
        return "unreadable".into();
    };
    let sent: Vec<Vec<u8>> = sent.iter().map(|der| der.to_vec()).collect();
    let trusted = Trusted::of(&anchors).expect("memory");
    match find_path(&leaf, &sent, &trusted, now) {
        Ok(path) => {
            assert!(path.issuers.anchor < anchors.len() && path.not_before < path.not_after);
            let Path { issuers, .. } = &path;
            let window = (path.not_before, path.not_after);
            format!(
                "{:?}",
                (
                    issuers.ders.len(),
                    issuers.anchor,
                    window,
                    &path.client_refusal
                )
            )
        }
        Err(fault) => format!("{fault:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::super::forge::Issuer;
    use super::super::trusted::Anchor;
    use super::*;

    /// 2026-07-01T00:00:00Z and 2027-01-01T00:00:00Z: the certificates are valid through 2026.
    const SUMMER: f64 = 1_782_864_000_000.0;
    const NEW_YEAR: f64 = 1_798_761_600_000.0;

    fn anchors(issuers: &[&Issuer]) -> Vec<Arc<Anchor>> {
        let anchor = |issuer: &&Issuer| {
            Arc::new(Anchor {
                certificate: issuer.certificate(),
                fingerprint: String::new(),
            })
        };
        issuers.iter().map(anchor).collect()
    }

    /// The certificates above the leaf, or the reason against it, and the reason of clients.
    fn find(
        chain: &[&[u8]],
        anchors: &[Arc<Anchor>],
        now: f64,
    ) -> Result<(Vec<Vec<u8>>, Option<String>), String> {
        let leaf = Certificate::parse(chain[0]).expect("a certificate");
        let sent: Vec<Vec<u8>> = chain[1..].iter().map(|der| der.to_vec()).collect();
        let now = Now {
            latest_not_before: now,
            now,
        };
        let trusted = Trusted::of(anchors).expect("memory");
        match find_path(&leaf, &sent, &trusted, now) {
            Ok(path) => {
                let ders = path.issuers.ders.iter().map(|der| der.to_vec()).collect();
                Ok((ders, path.client_refusal))
            }
            Err(Fault::NoPath(refusal)) => Err(refusal.map_or(String::new(), |it| it.reason)),
            Err(Fault::Unreadable(index)) => Err(format!("unreadable {index}")),
        }
    }

    #[test]
    fn a_path_is_found_in_any_order_without_strangers() {
        let root = Issuer::new("root", None);
        let (high, other) = (Issuer::new("high", Some(&root)), Issuer::new("other", None));
        let low = Issuer::new("low", Some(&high));
        let (leaf, next) = (low.leaf(&[1]), low.leaf(&[2]));
        let (both, stranger) = (anchors(&[&other, &root]), anchors(&[&other]));
        let path = vec![low.der.clone(), high.der.clone()];
        for leaf in [&leaf, &next] {
            let sent: [&[u8]; 4] = [leaf, &other.der, &high.der, &low.der];
            assert_eq!(find(&sent, &both, SUMMER), Ok((path.clone(), None)));
            assert_eq!(find(&sent, &stranger, SUMMER), Err(String::new()));
            assert_eq!(find(&sent[..3], &both, SUMMER), Err(String::new()));
        }
    }

    #[test]
    fn issuers_that_are_known_are_judged_by_the_leaf_and_the_time_of_each_question() {
        let root = Issuer::new("root", None);
        let middle = Issuer::new("middle", Some(&root));
        let roots = anchors(&[&root]);
        let good = Ok((vec![middle.der.clone()], None));
        let find = |leaf: &[u8], now: f64| find(&[leaf, &middle.der], &roots, now);
        assert_eq!(find(&middle.leaf(&[1]), SUMMER), good);
        let trusted = Trusted::of(&roots).expect("memory");
        assert!(trusted.known(slice::from_ref(&middle.der)).is_some());
        assert_eq!(find(&middle.leaf(&[2]), SUMMER), good);
        let stranger = Issuer::new("middle", Some(&root)).leaf(&[3]);
        let refused = find(&stranger, SUMMER).expect_err("a refusal");
        assert!(refused.ends_with("signature failure"), "{refused}");
        assert!(find(&middle.leaf(&[4]), NEW_YEAR).is_err());
        // extendedKeyUsage: emailProtection.
        let email: &[u8] = &[
            0x30, 0x13, 0x06, 0x03, 0x55, 0x1d, 0x25, 0x04, 0x0c, 0x30, 0x0a, 0x06, 0x08, 0x2b,
            0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04,
        ];
        let refused = find(&middle.leaf_with(&[5], email), SUMMER).expect_err("a refusal");
        assert!(refused.ends_with("purpose"), "{refused}");
    }

    #[test]
    fn an_issuer_counts_only_within_its_dates() {
        let root = Issuer::new("root", None);
        let (leaf, roots) = (root.leaf(&[1]), anchors(&[&root]));
        let (first, last) = (
            roots[0].certificate.not_before(),
            roots[0].certificate.not_after(),
        );
        assert!(find(&[&leaf], &roots, first).is_ok());
        assert!(find(&[&leaf], &roots, last - 1.0).is_ok());
        assert!(find(&[&leaf], &roots, first - 1.0).is_err());
        assert!(find(&[&leaf], &roots, last).is_err());
    }

    #[test]
    fn two_roots_of_one_name_are_good_for_some_clients_in_any_order() {
        let (root, namesake) = (Issuer::new("root", None), Issuer::new("root", None));
        let (leaf, middle) = (root.leaf(&[1]), Issuer::new("middle", Some(&root)));
        let below = middle.leaf(&[1]);
        for both in [[&root, &namesake], [&namesake, &root]] {
            for chain in [vec![leaf.as_slice()], vec![&below, &middle.der]] {
                let (_, refusal) = find(&chain, &anchors(&both), SUMMER).expect("a path");
                assert!(refusal.is_some());
            }
        }
        assert!(find(&[&leaf], &anchors(&[&namesake]), SUMMER).is_err());
    }

    #[test]
    fn a_root_of_the_same_name_and_key_does_no_harm() {
        let root = Issuer::new("root", None);
        let again = Certificate::parse(&root.reissued(&root, &[])).expect("a certificate");
        let mut roots = anchors(&[&root]);
        roots.push(Arc::new(Anchor {
            certificate: again,
            fingerprint: String::new(),
        }));
        assert_eq!(
            find(&[&root.leaf(&[1])], &roots, SUMMER),
            Ok((Vec::new(), None))
        );
    }

    #[test]
    fn an_intermediate_may_be_trusted_as_a_root_is() {
        let root = Issuer::new("root", None);
        let middle = Issuer::new("middle", Some(&root));
        let leaf = middle.leaf(&[1]);
        let found = find(&[&leaf, &middle.der], &anchors(&[&middle]), SUMMER);
        assert_eq!(found, Ok((Vec::new(), None)));
    }
}
