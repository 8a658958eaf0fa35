//! Private keys at rest: each sealed (AES-256-GCM) under one random key of the process, which lies in locked memory.

pub mod bridge;
mod locked_page;

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_sys::{
    EVP_AEAD_CTX, EVP_AEAD_CTX_init, EVP_AEAD_CTX_open, EVP_AEAD_CTX_seal, EVP_aead_aes_256_gcm,
    RAND_bytes,
};
use zeroize::Zeroize;

use locked_page::LockedPage;
pub use locked_page::Protection;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// Bytes by which a sealed key is longer than the key: the nonce before it, the tag behind it.
pub const OVERHEAD: usize = NONCE_BYTES + TAG_BYTES;

#[derive(Debug, PartialEq, Eq)]
pub enum VaultError {
    /// There is no memory, or no random number.
    Unavailable,
    /// A buffer has the wrong length, or overlaps the other one.
    Buffers,
    /// The input was not sealed by this vault, or was changed or wiped since.
    NotSealed,
}

/// Only the locked page holds the key schedule; the key itself is wiped once that is made.
pub struct Vault {
    page: LockedPage,
    /// Nonces must never repeat: they are counted, across all threads.
    sealed: AtomicU64,
}

// SAFETY: aws-lc only reads a context when it seals and opens, from any number of threads
// (`EVP_AEAD_CTX_seal` in aead.h); the page is written by `new` alone.
unsafe impl Send for Vault {}
// SAFETY: as above.
unsafe impl Sync for Vault {}

/// The contents of the page.
#[repr(C)]
struct Contents {
    context: EVP_AEAD_CTX,
    key: [u8; KEY_BYTES],
}

impl Vault {
    /// The vault of this process, made on first use.
    pub fn of_process() -> Result<&'static Self, VaultError> {
        static VAULT: OnceLock<Option<Vault>> = OnceLock::new();
        let vault = VAULT.get_or_init(|| Self::new().ok());
        vault.as_ref().ok_or(VaultError::Unavailable)
    }

    pub fn new() -> Result<Self, VaultError> {
        let page = LockedPage::new(size_of::<Contents>()).ok_or(VaultError::Unavailable)?;
        let contents: *mut Contents = page.start().cast();
        // SAFETY: the page is writable, zeroed, aligned and large enough for `Contents`, and nobody else knows of it.
        let is_ready = unsafe {
            let key = &raw mut (*contents).key;
            let is_ready = RAND_bytes(key.cast(), KEY_BYTES) == 1
                && EVP_AEAD_CTX_init(
                    &raw mut (*contents).context,
                    EVP_aead_aes_256_gcm(),
                    key.cast(),
                    KEY_BYTES,
                    TAG_BYTES,
                    ptr::null_mut(),
                ) == 1;
            (*key).zeroize();
            is_ready
        };
        is_ready
            .then(|| Self {
                page,
                sealed: AtomicU64::new(0),
            })
            .ok_or(VaultError::Unavailable)
    }

    pub fn protection(&self) -> Protection {
        self.page.protection()
    }

    /// Writes nonce, ciphertext and tag to `sealed`, which is `OVERHEAD` longer than `key`.
    pub fn seal(&self, key: &[u8], sealed: &mut [u8]) -> Result<(), VaultError> {
        if sealed.len() != key.len() + OVERHEAD {
            return Err(VaultError::Buffers);
        }
        let (nonce, rest) = sealed.split_at_mut(NONCE_BYTES);
        let number = self.sealed.fetch_add(1, Ordering::Relaxed);
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        nonce[8..].fill(0);
        let mut written = 0;
        // SAFETY: the context is initialised for as long as the page lives; the library writes at most `rest.len()`
        // bytes to `rest`, and reads the others within their lengths.
        let status = unsafe {
            EVP_AEAD_CTX_seal(
                self.context(),
                rest.as_mut_ptr(),
                &raw mut written,
                rest.len(),
                nonce.as_ptr(),
                NONCE_BYTES,
                key.as_ptr(),
                key.len(),
                ptr::null(),
                0,
            )
        };
        match status {
            1 if written == rest.len() => Ok(()),
            _ => Err(VaultError::Unavailable),
        }
    }

    /// Writes the key to `target`, which is `OVERHEAD` shorter than `sealed`. After an error it holds zeros.
    pub fn open(&self, sealed: &[u8], target: &mut [u8]) -> Result<(), VaultError> {
        if sealed.len() < OVERHEAD || target.len() != sealed.len() - OVERHEAD {
            return Err(VaultError::Buffers);
        }
        let (nonce, rest) = sealed.split_at(NONCE_BYTES);
        let mut written = 0;
        // SAFETY: as in `seal`.
        let status = unsafe {
            EVP_AEAD_CTX_open(
                self.context(),
                target.as_mut_ptr(),
                &raw mut written,
                target.len(),
                nonce.as_ptr(),
                NONCE_BYTES,
                rest.as_ptr(),
                rest.len(),
                ptr::null(),
                0,
            )
        };
        if status == 1 && written == target.len() {
            return Ok(());
        }
        target.zeroize();
        Err(VaultError::NotSealed)
    }

    fn context(&self) -> *const EVP_AEAD_CTX {
        let contents: *const Contents = self.page.start().cast();
        // SAFETY: only the address is taken.
        unsafe { &raw const (*contents).context }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const KEY: &[u8] =
        b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n";

    fn sealed(vault: &Vault) -> Vec<u8> {
        let mut sealed = vec![0; KEY.len() + OVERHEAD];
        vault.seal(KEY, &mut sealed).expect("sealed");
        sealed
    }

    #[test]
    fn what_is_sealed_is_opened_by_the_same_vault_alone() {
        let vault = Vault::new().expect("a vault");
        let bytes = sealed(&vault);
        assert!(
            !bytes
                .windows(8)
                .any(|window| KEY.windows(8).any(|part| part == window))
        );
        let mut target = vec![0; KEY.len()];
        vault.open(&bytes, &mut target).expect("opened");
        assert_eq!(target, KEY);
        let other = Vault::new().expect("another vault");
        assert_eq!(other.open(&bytes, &mut target), Err(VaultError::NotSealed));
        assert!(target.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn nothing_is_sealed_under_the_same_nonce_twice() {
        let vault = Vault::new().expect("a vault");
        let nonces: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..100)
                            .map(|_| sealed(&vault)[..NONCE_BYTES].to_vec())
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            let results = threads
                .into_iter()
                .map(|thread| thread.join().expect("a thread"));
            results.flatten().collect()
        });
        assert_eq!(nonces.iter().collect::<HashSet<_>>().len(), 400);
    }

    #[test]
    fn what_was_changed_anywhere_or_wiped_is_not_opened() {
        let vault = Vault::new().expect("a vault");
        let bytes = sealed(&vault);
        let mut target = vec![0; KEY.len()];
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert_eq!(
                vault.open(&changed, &mut target),
                Err(VaultError::NotSealed)
            );
            assert!(target.iter().all(|&byte| byte == 0));
        }
        let wiped = vec![0; bytes.len()];
        assert_eq!(vault.open(&wiped, &mut target), Err(VaultError::NotSealed));
    }

    #[test]
    fn buffers_of_another_length_are_refused() {
        let vault = Vault::new().expect("a vault");
        for length in [0, KEY.len() + OVERHEAD - 1, KEY.len() + OVERHEAD + 1] {
            assert_eq!(
                vault.seal(KEY, &mut vec![0; length]),
                Err(VaultError::Buffers)
            );
        }
        let bytes = sealed(&vault);
        for length in [0, KEY.len() - 1, KEY.len() + 1] {
            assert_eq!(
                vault.open(&bytes, &mut vec![0; length]),
                Err(VaultError::Buffers)
            );
        }
        assert_eq!(
            vault.open(&[0; OVERHEAD - 1], &mut []),
            Err(VaultError::Buffers)
        );
    }

    #[test]
    fn an_empty_key_can_be_sealed() {
        let vault = Vault::new().expect("a vault");
        let mut bytes = [0; OVERHEAD];
        assert_eq!(vault.seal(&[], &mut bytes), Ok(()));
        assert_eq!(vault.open(&bytes, &mut []), Ok(()));
    }
}
