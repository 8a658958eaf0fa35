//! The verdict of Envoy's own library on a path: the X.509 code of aws-lc is that of BoringSSL, by which Envoy verifies
//! its peers. Our search for a path tries every issuer of a name; this code takes the first that may be it, and does not
//! go back. So a path that is good by RFC 5280 can be refused there.

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::raw::{c_int, c_long, c_ulong};
use std::ptr::{NonNull, null_mut};
use std::sync::{LazyLock, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_sys::{
    ERR_clear_error, OPENSSL_STACK, OPENSSL_sk_free, OPENSSL_sk_new_null, OPENSSL_sk_push, X509,
    X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER, X509_STORE, X509_STORE_CTX,
    X509_STORE_CTX_free, X509_STORE_CTX_get_error, X509_STORE_CTX_get_error_depth,
    X509_STORE_CTX_init, X509_STORE_CTX_new, X509_STORE_CTX_set_flags, X509_STORE_CTX_set_purpose,
    X509_STORE_CTX_set_time_posix, X509_STORE_add_cert, X509_STORE_free, X509_STORE_new,
    X509_V_FLAG_PARTIAL_CHAIN, X509_V_OK, X509_check_issued, X509_free, X509_get0_pubkey,
    X509_verify, X509_verify_cert, X509_verify_cert_error_string, d2i_X509,
};
use x509_cert::der::Encode;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::ext::pkix::{SubjectAltName, SubjectKeyIdentifier};

use super::Certificate;

/// A certificate as the library holds it.
pub struct LibraryCertificate(NonNull<X509>);
struct Store(NonNull<X509_STORE>);
struct Verification(NonNull<X509_STORE_CTX>);
struct Stack(NonNull<OPENSSL_STACK>);

// SAFETY: the library counts references to an X509 atomically and fills its caches under a lock of its own, so that threads
// may share and free it, as those of a TLS server do.
unsafe impl Send for LibraryCertificate {}
// SAFETY: as above.
unsafe impl Sync for LibraryCertificate {}

/// A root, read by both.
pub struct Root<'a> {
    pub certificate: &'a Certificate,
    /// Absent where the library cannot read it.
    pub library: Option<&'a LibraryCertificate>,
    /// SHA-256 of its DER, hex.
    pub fingerprint: &'a str,
}

/// Of candidates for an issuer that are checked: the event loop waits.
const MAX_SIGNATURES: usize = 25;
const NO_MEMORY: &str = "there is no memory to verify it";

/// Why a client with these roots would refuse the path (leaf first, without its root) at `now` (seconds since the epoch),
/// as a server's or as a client's certificate, or may do so; `None` if it takes both. The path was found to be good. The
/// verdict on one leaf is remembered for others that differ in nothing that the library looks at.
pub fn refusal(path: &[&Certificate], roots: &[Root], now: i64) -> Option<String> {
    // The map is whole at any time, so one that a panic left locked is as good.
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = key_of(path, roots, now);
    if let Some(verdict) = key.and_then(|key| known().get(&key).cloned()) {
        return verdict;
    }
    let libraries: Option<Vec<_>> = roots.iter().map(|root| root.library).collect();
    let verdict = match libraries {
        Some(roots) => {
            let ders: Vec<&[u8]> = path.iter().map(|certificate| certificate.der()).collect();
            refusal_of(&ders, &roots, now)
        }
        None => {
            Some("one of the roots cannot be read, and all of them are rejected with it".into())
        }
    };
    if let Some(key) = key {
        let mut known = known();
        if known.len() == MAX_KNOWN {
            known.clear();
        }
        known.insert(key, verdict.clone());
    }
    verdict
}

const MAX_KNOWN: usize = 64;
type Verdicts = HashMap<[u8; 32], Option<String>>;
static KNOWN: LazyLock<Mutex<Verdicts>> = LazyLock::new(Mutex::default);

/// SHA-256 of all that the library looks at, but what our own search has checked in each leaf: its serial number, dates, key,
/// names and signature. `None` where its names count. Dates of others are looked at again each minute.
fn key_of(path: &[&Certificate], roots: &[Root], now: i64) -> Option<[u8; 32]> {
    let (leaf, issuers) = path.split_first()?;
    let mut above = issuers
        .iter()
        .copied()
        .chain(roots.iter().map(|root| root.certificate));
    if above.any(Certificate::constrains_names) {
        return None;
    }
    let mut all = Vec::with_capacity(1_024);
    let mut add = |bytes: &[u8]| {
        all.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        all.extend_from_slice(bytes);
    };
    add(&(now / 60).to_be_bytes());
    add(leaf.issuer());
    add(&leaf.parsed.signature_algorithm().to_der().ok()?);
    add(&leaf
        .tbs()
        .subject_public_key_info()
        .algorithm
        .to_der()
        .ok()?);
    let extensions = leaf
        .tbs()
        .extensions()
        .map_or(&[][..], |all| all.as_slice());
    add(&extensions.len().to_be_bytes());
    for extension in extensions {
        let id = extension.extn_id;
        add(id.as_bytes());
        add(&[u8::from(extension.critical)]);
        let is_own = id == SubjectAltName::OID || id == SubjectKeyIdentifier::OID;
        add(if is_own {
            &[]
        } else {
            extension.extn_value.as_bytes()
        });
    }
    add(&issuers.len().to_be_bytes());
    for certificate in issuers {
        add(certificate.der());
    }
    for root in roots {
        add(root.fingerprint.as_bytes());
    }
    digest(&SHA256, &all).as_ref().try_into().ok()
}

/// The same on certificates that nobody else has looked at: `path` is DER.
pub fn refusal_of(path: &[&[u8]], roots: &[&LibraryCertificate], now: i64) -> Option<String> {
    let certificates: Option<Vec<_>> = path
        .iter()
        .map(|der| LibraryCertificate::read(der))
        .collect();
    let Some(certificates) = certificates else {
        return Some("it cannot be read".into());
    };
    let verdict = [X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT]
        .into_iter()
        .find_map(|purpose| refusal_for(purpose, &certificates, roots, now))
        .or_else(|| mistaken_issuer(&certificates, roots));
    forget_errors();
    verdict
}

fn refusal_for(
    purpose: c_int,
    path: &[LibraryCertificate],
    roots: &[&LibraryCertificate],
    now: i64,
) -> Option<String> {
    let (leaf, issuers) = path.split_first()?;
    let (Some(store), Some(stack), Some(verification)) =
        (Store::of(roots), Stack::of(issuers), Verification::new())
    else {
        return Some(NO_MEMORY.into());
    };
    let context = verification.0.as_ptr();
    // SAFETY: all of them are valid until the end of this function, and the context is freed before what it borrows: locals
    // are dropped in the opposite order. A stack of X509 is an OPENSSL_STACK.
    let code = unsafe {
        let (store, leaf, issuers) = (store.0.as_ptr(), leaf.0.as_ptr(), stack.0.as_ptr().cast());
        if X509_STORE_CTX_init(context, store, leaf, issuers) != 1
            || X509_STORE_CTX_set_purpose(context, purpose) != 1
        {
            return Some(NO_MEMORY.into());
        }
        // As Envoy sets it: a root need not be self-signed.
        X509_STORE_CTX_set_flags(context, X509_V_FLAG_PARTIAL_CHAIN as c_ulong);
        X509_STORE_CTX_set_time_posix(context, 0, now);
        match X509_verify_cert(context) {
            1 => return None,
            _ => X509_STORE_CTX_get_error(context),
        }
    };
    // SAFETY: the context is valid; the text of any code is a static string.
    let (depth, text) = unsafe {
        (
            X509_STORE_CTX_get_error_depth(context),
            CStr::from_ptr(X509_verify_cert_error_string(c_long::from(code))),
        )
    };
    let text = text.to_string_lossy();
    Some(format!(
        "{text} (element {depth} of the chain, its root included)"
    ))
}

/// A root that a client may take for the issuer of a certificate of the path and that did not sign it. Which of several
/// candidates is taken depends on their order and on the version of the library, so one is a fault even where it was not
/// taken here.
fn mistaken_issuer(path: &[LibraryCertificate], roots: &[&LibraryCertificate]) -> Option<String> {
    let candidates = path.iter().enumerate().flat_map(|(index, certificate)| {
        roots
            .iter()
            .filter(move |root| root.may_be_issuer_of(certificate))
            .map(move |root| (index, certificate, root))
    });
    let (index, ..) = candidates
        .take(MAX_SIGNATURES)
        .find(|(_, certificate, root)| !root.has_signed(certificate))?;
    Some(format!(
        "a root has the name of the issuer of element {index} of the chain and another key, and no key identifier says which is meant: some clients take the wrong one"
    ))
}

impl LibraryCertificate {
    pub fn read(der: &[u8]) -> Option<Self> {
        let length = c_long::try_from(der.len()).ok()?;
        let mut start = der.as_ptr();
        // SAFETY: reads at most `length` bytes from `start`, and allocates since the target is null.
        let certificate = NonNull::new(unsafe { d2i_X509(null_mut(), &raw mut start, length) });
        forget_errors();
        certificate.map(Self)
    }

    /// By name, key identifier and key usage.
    fn may_be_issuer_of(&self, certificate: &Self) -> bool {
        // SAFETY: both are valid; what the library notes down in them is guarded by locks of its own.
        unsafe { X509_check_issued(self.0.as_ptr(), certificate.0.as_ptr()) == X509_V_OK }
    }

    fn has_signed(&self, certificate: &Self) -> bool {
        // SAFETY: both are valid; the key belongs to this certificate, and null is one that cannot be read.
        unsafe {
            let key = X509_get0_pubkey(self.0.as_ptr());
            !key.is_null() && X509_verify(certificate.0.as_ptr(), key) == 1
        }
    }
}

impl Store {
    fn of(roots: &[&LibraryCertificate]) -> Option<Self> {
        // SAFETY: takes nothing; null is an error.
        let store = Self(NonNull::new(unsafe { X509_STORE_new() })?);
        for root in roots {
            // SAFETY: both are valid; the store takes a reference of its own.
            if unsafe { X509_STORE_add_cert(store.0.as_ptr(), root.0.as_ptr()) } != 1 {
                return None;
            }
        }
        Some(store)
    }
}

impl Stack {
    fn of(certificates: &[LibraryCertificate]) -> Option<Self> {
        // SAFETY: takes nothing; null is an error.
        let stack = Self(NonNull::new(unsafe { OPENSSL_sk_new_null() })?);
        for certificate in certificates {
            // SAFETY: the stack holds the pointer and owns nothing; it is dropped before the certificates.
            if unsafe { OPENSSL_sk_push(stack.0.as_ptr(), certificate.0.as_ptr().cast()) } == 0 {
                return None;
            }
        }
        Some(stack)
    }
}

impl Verification {
    fn new() -> Option<Self> {
        // SAFETY: takes nothing; null is an error.
        NonNull::new(unsafe { X509_STORE_CTX_new() }).map(Self)
    }
}

/// A failure leaves entries in the thread's queue of errors, which the next caller of the library would find.
fn forget_errors() {
    // SAFETY: clears the queue of this thread.
    unsafe { ERR_clear_error() }
}

impl Drop for LibraryCertificate {
    fn drop(&mut self) {
        // SAFETY: owned, and dropped once.
        unsafe { X509_free(self.0.as_ptr()) }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: owned, and dropped once.
        unsafe { X509_STORE_free(self.0.as_ptr()) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: owned, and dropped once; the certificates are not its own.
        unsafe { OPENSSL_sk_free(self.0.as_ptr()) }
    }
}

impl Drop for Verification {
    fn drop(&mut self) {
        // SAFETY: owned, and dropped once.
        unsafe { X509_STORE_CTX_free(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::forge::Issuer;
    use super::*;

    /// 2026-07-01T00:00:00Z and 2027-01-01T00:00:00Z.
    const SUMMER: i64 = 1_782_864_000;
    const NEW_YEAR: i64 = 1_798_761_600;

    fn read(der: &[u8]) -> (Certificate, LibraryCertificate) {
        let certificate = Certificate::parse(der).expect("a certificate");
        (
            certificate,
            LibraryCertificate::read(der).expect("a certificate"),
        )
    }

    fn verdict(path: &[&[u8]], roots: &[&[u8]], now: i64) -> Option<String> {
        let path: Vec<_> = path.iter().map(|der| read(der).0).collect();
        let roots: Vec<_> = roots.iter().map(|der| (read(der), hex(der))).collect();
        let roots: Vec<_> = roots
            .iter()
            .map(|((certificate, library), fingerprint)| Root {
                certificate,
                library: Some(library),
                fingerprint,
            })
            .collect();
        refusal(&path.iter().collect::<Vec<_>>(), &roots, now)
    }

    /// As telling as a hash.
    fn hex(der: &[u8]) -> String {
        der.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[track_caller]
    fn assert_refused(verdict: Option<String>, reason: &str) {
        let verdict = verdict.expect("a refusal");
        assert!(verdict.contains(reason), "{verdict}");
    }

    #[test]
    fn a_path_to_a_known_root_is_taken() {
        let (root, other) = (Issuer::new("root", None), Issuer::new("other", None));
        let middle = Issuer::new("middle", Some(&root));
        assert_eq!(
            verdict(&[&root.leaf(&[1])], &[&other.der, &root.der], SUMMER),
            None
        );
        let leaf = middle.leaf(&[1]);
        assert_eq!(verdict(&[&leaf, &middle.der], &[&root.der], SUMMER), None);
        // As Envoy is configured, an intermediate may be trusted as a root is.
        assert_eq!(verdict(&[&leaf], &[&middle.der], SUMMER), None);
    }

    #[test]
    fn a_path_to_no_known_root_or_out_of_its_dates_is_refused() {
        let (root, other) = (Issuer::new("root", None), Issuer::new("other", None));
        let leaf = root.leaf(&[1]);
        assert_refused(
            verdict(&[&leaf], &[&other.der], SUMMER),
            "unable to get local issuer",
        );
        assert_refused(verdict(&[&leaf], &[], SUMMER), "unable to get local issuer");
        assert_refused(verdict(&[&leaf], &[&root.der], NEW_YEAR), "expired");
    }

    #[test]
    fn two_roots_of_one_name_are_refused_in_any_order() {
        let (root, namesake) = (Issuer::new("root", None), Issuer::new("root", None));
        let (leaf, middle) = (root.leaf(&[1]), Issuer::new("middle", Some(&root)));
        let below = middle.leaf(&[1]);
        for roots in [[&root.der, &namesake.der], [&namesake.der, &root.der]] {
            let roots: Vec<&[u8]> = roots.iter().map(|der| der.as_slice()).collect();
            for path in [vec![leaf.as_slice()], vec![&below, &middle.der]] {
                assert!(verdict(&path, &roots, SUMMER).is_some());
            }
        }
    }

    #[test]
    fn a_root_of_the_same_name_and_key_does_no_harm() {
        let root = Issuer::new("root", None);
        let again = root.reissued(&root, &[]);
        assert_ne!(again, root.der);
        assert_eq!(
            verdict(&[&root.leaf(&[1])], &[&again, &root.der], SUMMER),
            None
        );
    }

    #[test]
    fn a_remembered_verdict_is_the_one_that_would_be_given() {
        let (root, namesake) = (Issuer::new("root", None), Issuer::new("root", None));
        let roots: [Vec<&[u8]>; 3] = [
            vec![&root.der],
            vec![&root.der, &namesake.der],
            vec![&namesake.der],
        ];
        for roots in &roots {
            let libraries: Vec<_> = roots.iter().map(|der| read(der).1).collect();
            for serial in 1..4 {
                let leaf = root.leaf(&[serial]);
                let fresh = refusal_of(&[&leaf], &libraries.iter().collect::<Vec<_>>(), SUMMER);
                assert_eq!(verdict(&[&leaf], roots, SUMMER), fresh);
            }
        }
    }

    #[test]
    fn another_extension_in_the_leaf_is_another_question() {
        let root = Issuer::new("root", None);
        // extendedKeyUsage: emailProtection.
        let email: &[u8] = &[
            0x30, 0x13, 0x06, 0x03, 0x55, 0x1d, 0x25, 0x04, 0x0c, 0x30, 0x0a, 0x06, 0x08, 0x2b,
            0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04,
        ];
        assert_eq!(verdict(&[&root.leaf(&[1])], &[&root.der], SUMMER), None);
        let leaf = root.leaf_with(&[1], email);
        assert_refused(verdict(&[&leaf], &[&root.der], SUMMER), "purpose");
    }
}
