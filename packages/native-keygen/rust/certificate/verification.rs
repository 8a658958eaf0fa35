//! `X509_verify_cert` with the parameters that Envoy gives it.

use std::ffi::{CStr, c_int};
use std::os::raw::{c_long, c_ulong};
use std::ptr::NonNull;

use aws_lc_sys::{
    OPENSSL_STACK, OPENSSL_sk_free, OPENSSL_sk_new_null, OPENSSL_sk_num, OPENSSL_sk_push,
    OPENSSL_sk_value, X509, X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER, X509_STORE,
    X509_STORE_CTX, X509_STORE_CTX_free, X509_STORE_CTX_get_error, X509_STORE_CTX_get_error_depth,
    X509_STORE_CTX_get0_chain, X509_STORE_CTX_init, X509_STORE_CTX_new, X509_STORE_CTX_set_flags,
    X509_STORE_CTX_set_purpose, X509_STORE_CTX_set_time_posix, X509_STORE_add_cert,
    X509_STORE_free, X509_STORE_new, X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_FLAG_PARTIAL_CHAIN,
    X509_V_FLAG_TRUSTED_FIRST, X509_check_purpose, X509_verify_cert, X509_verify_cert_error_string,
};

use super::{Certificate, forget_errors};

/// The certificates that a verification ends under.
pub struct Store(NonNull<X509_STORE>);
struct Context(NonNull<X509_STORE_CTX>);
struct Stack(NonNull<OPENSSL_STACK>);

// SAFETY: the library guards a store by an internal lock, as the threads of a TLS server need it.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

/// Why a path is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub reason: String,
    /// Whether it only says that another certificate of this name is the issuer.
    pub is_mistaken_identity: bool,
}

impl From<&str> for Refusal {
    fn from(reason: &str) -> Self {
        Self {
            reason: reason.into(),
            is_mistaken_identity: false,
        }
    }
}

pub const NO_MEMORY: &str = "there is no memory to verify it";

/// The certificates of a path, as the library has found them: the leaf, issuers, and the one that is trusted, which no
/// certificate here owns. They are only compared.
pub type Chain = Vec<*mut X509>;

/// The path that a peer with these roots finds at `now` (seconds since the epoch) when it is sent the leaf and `issuers`,
/// as a server's and as a client's certificate.
pub fn verify(
    leaf: &Certificate,
    issuers: &[&Certificate],
    store: &Store,
    now: i64,
) -> Result<Chain, Refusal> {
    let (Some(stack), Some(context)) = (Stack::of(issuers), Context::new()) else {
        return Err(NO_MEMORY.into());
    };
    let found = context.verify(leaf, &stack, store, now);
    forget_errors();
    found
}

impl Context {
    fn new() -> Option<Self> {
        // SAFETY: takes nothing; null is an error.
        NonNull::new(unsafe { X509_STORE_CTX_new() }).map(Self)
    }

    fn verify(
        &self,
        leaf: &Certificate,
        issuers: &Stack,
        store: &Store,
        now: i64,
    ) -> Result<Chain, Refusal> {
        let context = self.0.as_ptr();
        // SAFETY: all of them outlive this context, which is used once. A stack of X509 is an OPENSSL_STACK.
        unsafe {
            let (roots, others) = (store.0.as_ptr(), issuers.0.as_ptr().cast());
            if X509_STORE_CTX_init(context, roots, leaf.as_ptr(), others) != 1
                || X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_SERVER) != 1
            {
                return Err(NO_MEMORY.into());
            }
            // Envoy accepts partial chains: a root need not be self-signed.
            let flags = X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST;
            X509_STORE_CTX_set_flags(context, flags as c_ulong);
            X509_STORE_CTX_set_time_posix(context, 0, now);
            if X509_verify_cert(context) != 1 {
                return Err(self.refusal());
            }
            let chain: *mut OPENSSL_STACK = X509_STORE_CTX_get0_chain(context).cast();
            let chain = (0..OPENSSL_sk_num(chain)).map(|at| OPENSSL_sk_value(chain, at).cast());
            let chain: Chain = chain.collect();
            let is_of_client = |(at, &it): (usize, &*mut X509)| {
                X509_check_purpose(it, X509_PURPOSE_SSL_CLIENT, c_int::from(at > 0)) == 1
            };
            match chain.iter().enumerate().position(|it| !is_of_client(it)) {
                Some(at) => {
                    let reason = format!("{} is not for client authentication", element(at));
                    Err(reason.as_str().into())
                }
                None => Ok(chain),
            }
        }
    }

    fn refusal(&self) -> Refusal {
        // SAFETY: the context is valid; the text of any code is a static string.
        let (code, depth, text) = unsafe {
            let code = X509_STORE_CTX_get_error(self.0.as_ptr());
            (
                code,
                X509_STORE_CTX_get_error_depth(self.0.as_ptr()),
                CStr::from_ptr(X509_verify_cert_error_string(c_long::from(code))),
            )
        };
        let depth = usize::try_from(depth).unwrap_or(0);
        Refusal {
            reason: format!("{}: {}", element(depth), text.to_string_lossy()),
            is_mistaken_identity: code == X509_V_ERR_CERT_SIGNATURE_FAILURE,
        }
    }
}

pub fn element(depth: usize) -> String {
    format!("element {depth} of the path, its root included")
}

impl Store {
    pub fn of<'a>(certificates: impl IntoIterator<Item = &'a Certificate>) -> Option<Self> {
        // SAFETY: takes nothing; null is an error.
        let store = Self(NonNull::new(unsafe { X509_STORE_new() })?);
        for certificate in certificates {
            // SAFETY: both are valid; the store takes a reference.
            if unsafe { X509_STORE_add_cert(store.0.as_ptr(), certificate.as_ptr()) } != 1 {
                return None;
            }
        }
        Some(store)
    }
}

impl Stack {
    fn of(certificates: &[&Certificate]) -> Option<Self> {
        // SAFETY: takes nothing; null is an error.
        let stack = Self(NonNull::new(unsafe { OPENSSL_sk_new_null() })?);
        for certificate in certificates {
            // SAFETY: the stack holds the pointer and owns nothing; it is dropped before the certificates.
            if unsafe { OPENSSL_sk_push(stack.0.as_ptr(), certificate.as_ptr().cast()) } == 0 {
                return None;
            }
        }
        Some(stack)
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
        // SAFETY: owned, and dropped once; it does not own the certificates.
        unsafe { OPENSSL_sk_free(self.0.as_ptr()) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: owned, and dropped once.
        unsafe { X509_STORE_CTX_free(self.0.as_ptr()) }
    }
}
