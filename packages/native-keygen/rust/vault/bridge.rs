//! The addon's interface for the vault; `src/native-key-vault.ts` is the other side.

use napi::bindgen_prelude::{Uint8Array, Uint8ArraySlice};
use napi::{Error, Result};
use napi_derive::napi;

use crate::certificate::private_key;

use super::{OVERHEAD, Protection, Vault, VaultError};

#[napi(object, object_from_js = false)]
pub struct KeyVaultStatus {
    /// Bytes by which a sealed key is longer than the key.
    pub overhead: u32,
    /// The protection of the key that seals the others: `secret` (memfd_secret), `locked` (mlock) or `unlocked`.
    pub protection: &'static str,
}

/// Throws where there is no memory for the vault of this process, which is made by the first call.
#[napi(catch_unwind)]
pub fn key_vault_status() -> Result<KeyVaultStatus> {
    let protection = match vault()?.protection() {
        Protection::Secret => "secret",
        Protection::Locked => "locked",
        Protection::Unlocked => "unlocked",
    };
    Ok(KeyVaultStatus {
        overhead: OVERHEAD as u32,
        protection,
    })
}

/// Writes the sealed form of `key` to `sealed`, which is `overhead` longer.
#[napi(catch_unwind)]
pub fn seal_key(key: Uint8ArraySlice<'_>, mut sealed: Uint8ArraySlice<'_>) -> Result<()> {
    check_apart(&key, &sealed)?;
    // SAFETY: JavaScript does not run before this returns, and `key` is elsewhere, so nobody else reads or writes these bytes.
    let target = unsafe { sealed.as_mut() };
    vault()?.seal(&key, target).map_err(problem)
}

/// Writes the key to `target` from `offset` on. Throws if `sealed` is not what the vault of this process has sealed.
#[napi(catch_unwind)]
pub fn open_key(
    sealed: Uint8ArraySlice<'_>,
    mut target: Uint8ArraySlice<'_>,
    offset: u32,
) -> Result<()> {
    check_apart(&sealed, &target)?;
    let start = offset as usize;
    let end = (start + sealed.len()).saturating_sub(OVERHEAD);
    // SAFETY: as in `seal_key`.
    let place = unsafe { target.as_mut() }.get_mut(start..end);
    let place = place.ok_or_else(|| problem(VaultError::Buffers))?;
    vault()?.open(&sealed, place).map_err(problem)
}

/// SubjectPublicKeyInfo of the first private key in a PEM text. No copy of the key stays in memory, unlike with a key
/// object until that is collected. Absent for a key that Envoy would not take, or that is encrypted.
#[napi(catch_unwind)]
pub fn public_key_of(private_key_pem: Uint8ArraySlice<'_>) -> Option<Uint8Array> {
    private_key::public_key_of(&private_key_pem).map(Uint8Array::from)
}

fn vault() -> Result<&'static Vault> {
    Vault::of_process().map_err(problem)
}

fn check_apart(one: &[u8], other: &[u8]) -> Result<()> {
    let (one, other) = (one.as_ptr_range(), other.as_ptr_range());
    if one.start < other.end && other.start < one.end {
        return Err(problem(VaultError::Buffers));
    }
    Ok(())
}

fn problem(error: VaultError) -> Error {
    Error::from_reason(match error {
        VaultError::Unavailable => "Cannot seal private keys: there is no memory for it",
        VaultError::Buffers => "Cannot use a sealed private key: a buffer has the wrong length",
        VaultError::NotSealed => {
            "Cannot use a sealed private key: this process did not seal it, or it was wiped"
        }
    })
}
