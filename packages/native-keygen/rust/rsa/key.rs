//! A private key as aws-lc holds it.

use std::ptr::{self, NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use aws_lc_sys::{
    BN_GENCB, BN_GENCB_set, CBB, CBB_finish, CBB_init_fixed, NID_sha256, RSA, RSA_free,
    RSA_generate_key_fips, RSA_marshal_private_key, RSA_marshal_public_key, RSA_new,
    RSA_new_private_key, RSA_sign, bn_gencb_st__bindgen_ty_1,
};
use zeroize::Zeroizing;

use super::bignum::Bignum;
use super::conditions::Parts;
use super::standard::EXPONENT;
use crate::key_error::KeyError;

/// Owned, never null, and wiped when it is freed (`OPENSSL_free`).
pub struct RsaKey {
    rsa: NonNull<RSA>,
    modulus_bytes: usize,
}

// SAFETY: this is the only owner of the RSA; aws-lc ties it to no thread, and locks its shared part (RSA_BLINDING).
unsafe impl Send for RsaKey {}

impl RsaKey {
    /// RSA_new_private_key checks the parts (RSA_check_key): n = p q, d e = 1 modulo p - 1 and q - 1, the exponents and the
    /// coefficient. It does so on the numbers in memory: to load the key back from PKCS#8 would check no more.
    pub(super) fn from_parts(parts: &Parts) -> Result<Self, KeyError> {
        let number = |natural: &[u64]| Bignum::from_natural(natural);
        let (n, e, d) = (number(&parts.n)?, number(&[EXPONENT])?, number(&parts.d)?);
        let (p, q) = (number(&parts.p)?, number(&parts.q)?);
        let [d_p, d_q] = &parts.exponents;
        let (d_p, d_q, coefficient) = (number(d_p)?, number(d_q)?, number(&parts.coefficient)?);
        // SAFETY: all numbers are valid; they are copied. Null is an error.
        let rsa = unsafe {
            RSA_new_private_key(
                n.as_ptr(),
                e.as_ptr(),
                d.as_ptr(),
                p.as_ptr(),
                q.as_ptr(),
                d_p.as_ptr(),
                d_q.as_ptr(),
                coefficient.as_ptr(),
            )
        };
        let rsa = NonNull::new(rsa).ok_or(KeyError::Library("accept the RSA key"))?;
        Ok(Self {
            rsa,
            modulus_bytes: 8 * parts.n.len(),
        })
    }

    /// aws-lc makes it all, and checks it (RSA_check_fips: the key's parts, and a signature that is verified).
    pub(super) fn of_library(bits: usize, cancelled: &AtomicBool) -> Result<Self, KeyError> {
        // SAFETY: takes nothing; null is an error.
        let rsa = NonNull::new(unsafe { RSA_new() }).ok_or(KeyError::Library("allocate a key"))?;
        let key = Self {
            rsa,
            modulus_bytes: bits / 8,
        };
        let mut observer = BN_GENCB {
            type_: 0,
            arg: null_mut(),
            callback: bn_gencb_st__bindgen_ty_1 { new_style: None },
        };
        let flag = ptr::from_ref(cancelled).cast_mut().cast();
        // SAFETY: the key is valid and this thread's alone; the observer and the flag, which is only read, outlive the call.
        let status = unsafe {
            BN_GENCB_set(&raw mut observer, Some(goes_on), flag);
            RSA_generate_key_fips(rsa.as_ptr(), bits as i32, &raw mut observer)
        };
        match status {
            1 => Ok(key),
            _ if cancelled.load(Ordering::Relaxed) => Err(KeyError::Cancelled),
            _ => Err(KeyError::Library("generate the key")),
        }
    }

    /// RSASSA-PKCS1-v1_5 with SHA-256, verified with the public key before it leaves.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let hash = digest(&SHA256, message);
        let hash = hash.as_ref();
        let mut signature = vec![0; self.modulus_bytes];
        let mut length = 0;
        // SAFETY: reads `hash.len()` bytes; writes at most RSA_size bytes, the modulus's length, to `signature`.
        let status = unsafe {
            RSA_sign(
                NID_sha256,
                hash.as_ptr(),
                hash.len(),
                signature.as_mut_ptr(),
                &raw mut length,
                self.rsa.as_ptr(),
            )
        };
        if status != 1 || length as usize != signature.len() {
            return Err(KeyError::Library("sign the request"));
        }
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.public_key_der()?)
            .verify(message, &signature)
            .map_err(|_| KeyError::Library("verify the request"))?;
        Ok(signature)
    }

    /// RSAPublicKey (RFC 8017, appendix A.1.1).
    pub fn public_key_der(&self) -> Result<Vec<u8>, KeyError> {
        let mut der = self.marshalled(RSA_marshal_public_key, "encode the public key")?;
        Ok(std::mem::take(&mut *der))
    }

    /// RSAPrivateKey (RFC 8017, appendix A.1.2).
    pub fn private_key_der(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        self.marshalled(RSA_marshal_private_key, "encode the private key")
    }

    /// Writes the key directly to its final place, without a buffer of the library.
    fn marshalled(
        &self,
        marshal: unsafe extern "C" fn(*mut CBB, *const RSA) -> i32,
        step: &'static str,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        // n and d have the length of the modulus, the five others half of it; eleven headers.
        let mut der = Zeroizing::new(vec![0; 5 * self.modulus_bytes]);
        let mut length = 0;
        let mut builder = CBB::default();
        // SAFETY: a fixed builder writes at most `der.len()` bytes to `der`, which outlives it, and allocates nothing
        // that would have to be freed; the key is valid.
        let written = unsafe {
            CBB_init_fixed(&raw mut builder, der.as_mut_ptr(), der.len()) == 1
                && marshal(&raw mut builder, self.rsa.as_ptr()) == 1
                && CBB_finish(&raw mut builder, null_mut(), &raw mut length) == 1
        };
        if !written {
            return Err(KeyError::Library(step));
        }
        der.truncate(length);
        Ok(der)
    }
}

/// Called by aws-lc between candidates: 0 ends the generation.
extern "C" fn goes_on(_event: i32, _number: i32, observer: *mut BN_GENCB) -> i32 {
    // SAFETY: `of_library` made the observer, and its argument is a flag that outlives the generation.
    let cancelled = unsafe { &*(*observer).arg.cast::<AtomicBool>() };
    i32::from(!cancelled.load(Ordering::Relaxed))
}

impl Drop for RsaKey {
    fn drop(&mut self) {
        // SAFETY: owned, and freed here alone.
        unsafe { RSA_free(self.rsa.as_ptr()) }
    }
}
