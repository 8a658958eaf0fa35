//! From a leaf to a trust anchor: the search, by the rules of `issuing.rs`, within bounds. Core's `chain-path.ts` is the
//! same search, step by step, so that both find the same path and the same fault.

use std::sync::Arc;

use super::Certificate;
pub use super::issuing::Now;
use super::issuing::{Rule, check, is_named_issuer};
use super::signature::{Weakness, is_signed_by, scheme};

/// Signatures that one search checks. The dearest cost half a millisecond, and the event loop waits.
const MAX_SIGNATURES: usize = 25;
/// Partial paths that one search follows: certificates that all certify each other make hundreds of thousands.
const MAX_PATHS: usize = 100;
/// Names read for, and compared with, name constraints in one search.
const MAX_COMPARISONS: usize = 20_000;

/// Indices: of the certificates in their order, leaf first, and of the anchor above them.
#[derive(Debug, PartialEq)]
pub struct Path {
    pub chain: Vec<usize>,
    pub anchor: usize,
    /// Milliseconds since the epoch: when all of them, the anchor too, are valid.
    pub not_before: f64,
    pub not_after: f64,
}

/// Why no path was found, where a certificate was there that is named as the issuer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refusal {
    pub rule: Rule,
    /// Index of the issuer that broke it: of the certificates, and after them of the anchors.
    pub at: usize,
}

/// The path that is valid longest (no longer than its leaf), among those the one usable first, then the shortest, in
/// whatever order the intermediates come; `chain` starts with the leaf. Any good path will do: a certificate that breaks
/// a rule closes only the paths through it.
pub fn find_path(
    chain: &[Arc<Certificate>],
    anchors: &[&Certificate],
    now: Now,
) -> Result<Path, Option<Refusal>> {
    let mut search = Search {
        chain,
        anchors,
        now,
        checked: Vec::new(),
        comparisons: MAX_COMPARISONS,
        best: None,
        refusal: None,
    };
    search.run();
    search.best.ok_or(search.refusal)
}

/// The same on DER. A certificate that cannot be read is in no path.
pub fn find_path_in(chain: &[&[u8]], anchors: &[&[u8]], now: Now) -> Result<Path, Option<Refusal>> {
    let read = |ders: &[&[u8]]| {
        let certificates = ders.iter().map(|der| Certificate::parse(der).map(Arc::new));
        certificates.collect::<Option<Vec<_>>>().ok_or(None)
    };
    let (chain, anchors) = (read(chain)?, read(anchors)?);
    let anchors: Vec<&Certificate> = anchors.iter().map(|it| &**it).collect();
    find_path(&chain, &anchors, now)
}

struct Search<'a> {
    chain: &'a [Arc<Certificate>],
    anchors: &'a [&'a Certificate],
    now: Now,
    /// Subject, issuer, and whether the one is signed by the other.
    checked: Vec<(usize, usize, bool)>,
    comparisons: usize,
    best: Option<Path>,
    refusal: Option<Refusal>,
}

impl<'a> Search<'a> {
    /// Breadth first.
    fn run(&mut self) {
        if self.chain.is_empty() {
            return;
        }
        let mut paths = vec![vec![0]];
        let mut next = 0;
        while let Some(path) = paths.get(next).cloned() {
            next += 1;
            if self.end_under_anchor(&path) {
                return;
            }
            for index in 1..self.chain.len() {
                if self.is_exhausted() {
                    return;
                }
                if path.contains(&index) || self.is_repeated(index) || !self.extends(&path, index) {
                    continue;
                }
                if paths.len() == MAX_PATHS {
                    self.note(Rule::Effort, index);
                    return;
                }
                paths.push([path.as_slice(), &[index]].concat());
            }
        }
    }

    /// Whether the search is over: nothing better can come.
    fn end_under_anchor(&mut self, path: &[usize]) -> bool {
        (0..self.anchors.len()).any(|anchor| {
            let at = self.chain.len() + anchor;
            self.is_exhausted() || self.extends(path, at) && self.offer(path, at)
        })
    }

    fn certificate(&self, index: usize) -> &'a Certificate {
        match self.chain.get(index) {
            Some(certificate) => certificate,
            None => self.anchors[index - self.chain.len()],
        }
    }

    fn is_repeated(&self, index: usize) -> bool {
        let der = self.chain[index].der();
        self.chain[1..index].iter().any(|other| other.der() == der)
    }

    fn extends(&mut self, path: &[usize], at: usize) -> bool {
        let last = path.len() - 1;
        let (issuer, subject) = (self.certificate(at), self.certificate(path[last]));
        if !is_named_issuer(issuer, subject) {
            return false;
        }
        let certificates: Vec<&Certificate> =
            path.iter().map(|&index| &*self.chain[index]).collect();
        let verdict = check(issuer, &certificates, self.now, &mut self.comparisons)
            .and_then(|()| self.check_signature(path[last], at));
        if let Err(rule) = verdict {
            self.note(rule, at);
        }
        verdict.is_ok()
    }

    fn check_signature(&mut self, below: usize, above: usize) -> Result<(), Rule> {
        let (subject, issuer) = (self.certificate(below), self.certificate(above));
        let scheme = scheme(subject, issuer).map_err(|weakness| match weakness {
            Weakness::Key => Rule::Key,
            Weakness::Algorithm => Rule::Algorithm,
        })?;
        let known = |(s, i, _): &&(usize, usize, bool)| (*s, *i) == (below, above);
        let good = match self.checked.iter().find(known) {
            Some((.., good)) => *good,
            None if self.checked.len() == MAX_SIGNATURES => return Err(Rule::Effort),
            None => {
                let good = is_signed_by(subject, issuer, scheme);
                self.checked.push((below, above, good));
                good
            }
        };
        if good { Ok(()) } else { Err(Rule::Signature) }
    }

    /// Takes a whole path if it is better than the best. `true` if no other can be better still.
    fn offer(&mut self, path: &[usize], at: usize) -> bool {
        let all = || {
            path.iter()
                .chain([&at])
                .map(|&index| self.certificate(index))
        };
        let not_before = all()
            .map(Certificate::not_before)
            .fold(f64::NEG_INFINITY, f64::max);
        let not_after = all()
            .map(Certificate::not_after)
            .fold(f64::INFINITY, f64::min);
        if not_before >= not_after {
            self.note(Rule::Dates, at);
            return false;
        }
        let usable_from = |not_before: f64| not_before.max(self.now.now);
        let is_better = self.best.as_ref().is_none_or(|best| {
            not_after > best.not_after
                || not_after == best.not_after
                    && usable_from(not_before) < usable_from(best.not_before)
        });
        let leaf = &self.chain[0];
        let is_best = not_after == leaf.not_after()
            && usable_from(not_before) == usable_from(leaf.not_before());
        if is_better {
            self.best = Some(Path {
                chain: path.to_vec(),
                anchor: at - self.chain.len(),
                not_before,
                not_after,
            });
        }
        is_best
    }

    /// Keeps the first fault that says something of the issuer, or else the first.
    fn note(&mut self, rule: Rule, at: usize) {
        let says_more = self
            .refusal
            .is_none_or(|known| known.rule.is_mistaken_identity() && !rule.is_mistaken_identity());
        if says_more || rule == Rule::Effort {
            self.refusal = Some(Refusal { rule, at });
        }
    }

    fn is_exhausted(&self) -> bool {
        self.refusal
            .is_some_and(|refusal| refusal.rule == Rule::Effort)
    }
}

#[cfg(test)]
mod tests {
    use super::super::forge::Issuer;
    use super::super::intermediates::INTERMEDIATES;
    use super::*;

    /// 2026-07-01T00:00:00Z.
    const SUMMER: f64 = 1_782_864_000_000.0;

    fn path(chain: &[&[u8]], anchors: &[&Certificate], now: f64) -> Option<(Vec<usize>, usize)> {
        let chain: Vec<_> = chain
            .iter()
            .map(|der| INTERMEDIATES.read(der).expect("a certificate"))
            .collect();
        let now = Now {
            latest_not_before: now,
            now,
        };
        let path = find_path(&chain, anchors, now).ok()?;
        Some((path.chain, path.anchor))
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
