//! All that JavaScript sees: plain data in, plain data out, no defaults. `src/native-key-generator.ts` is the other
//! side.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use napi::bindgen_prelude::{AsyncTask, Buffer, Object};
use napi::{Env, Error, Result, Status, Task};
use napi_derive::napi;

use crate::batch::{generate_batch, generate_unless, guarded};
use crate::key::{self, KeyError};
use crate::process;

#[napi(object, object_to_js = false)]
pub struct KeyRequest {
    /// `ecdsa-p256`, `ecdsa-p384`, `rsa-2048`, `rsa-3072` or `rsa-4096`.
    #[napi(js_name = "type")]
    pub key_type: String,
    /// A URI of printable ASCII.
    pub identity: String,
    /// `pkcs8` or `traditional`.
    pub format: String,
}

#[napi(object, object_from_js = false)]
pub struct GeneratedKey {
    pub private_key_pem: Buffer,
    pub csr_der: Buffer,
    pub public_key_der: Buffer,
}

/// Stops the work that it was given to: before the next key, and within milliseconds in the search for an RSA key.
/// (napi's own AbortSignal takes over the signal's `onabort`, and does not reach threads of our own.)
#[napi]
#[derive(Default)]
pub struct Cancellation {
    cancelled: Arc<AtomicBool>,
}

#[napi]
impl Cancellation {
    #[napi(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    #[napi]
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

pub struct GenerateKey {
    cancelled: Arc<AtomicBool>,
    request: key::KeyRequest,
}

impl Task for GenerateKey {
    type Output = key::GeneratedKey;
    type JsValue = GeneratedKey;

    fn compute(&mut self) -> Result<Self::Output> {
        Ok(guarded(|| generate_unless(&self.cancelled, &self.request))?)
    }

    fn resolve(&mut self, _env: Env, key: Self::Output) -> Result<Self::JsValue> {
        Ok(key.into())
    }
}

/// One key, on libuv's thread pool. Rejects with the code `InvalidArg`, `Cancelled` or `GenericFailure`.
#[napi(catch_unwind, ts_return_type = "Promise<GeneratedKey>")]
pub fn generate_key(
    request: KeyRequest,
    cancellation: Option<&Cancellation>,
) -> Result<AsyncTask<GenerateKey>> {
    Ok(AsyncTask::new(GenerateKey {
        cancelled: flag_of(cancellation),
        request: request.try_into()?,
    }))
}

/// One key a request, all or none, on threads of their own. Rejects as `generateKey` does.
#[napi(catch_unwind, ts_return_type = "Promise<Array<GeneratedKey>>")]
pub fn generate_keys<'env>(
    env: &'env Env,
    requests: Vec<KeyRequest>,
    cancellation: Option<&Cancellation>,
) -> Result<Object<'env>> {
    let requests = requests
        .into_iter()
        .map(key::KeyRequest::try_from)
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let cancelled = flag_of(cancellation);
    let (deferred, promise) = env.create_deferred()?;
    thread::Builder::new()
        .name("livery-keys".into())
        .spawn(
            move || match guarded(|| generate_batch(&cancelled, &requests)) {
                Ok(keys) => deferred
                    .resolve(|_| Ok(keys.into_iter().map(GeneratedKey::from).collect::<Vec<_>>())),
                Err(error) => deferred.reject(error.into()),
            },
        )
        .map_err(|error| Error::from_reason(format!("Cannot start a thread for keys: {error}")))?;
    Ok(promise)
}

#[napi(object, object_from_js = false)]
pub struct PeerCredentials {
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

/// The peer of a connected UNIX socket; throws with the code `EBADF`, `ENOTSOCK`, `ENOTCONN` (not a UNIX socket, or
/// without a peer) or `ENOTSUP` (this is not Linux).
#[napi(catch_unwind)]
pub fn peer_credentials(fd: i32) -> Result<PeerCredentials, String> {
    let peer = process::peer_credentials(fd)
        .map_err(|error| system_error(&format!("read the peer of file descriptor {fd}"), &error))?;
    Ok(PeerCredentials {
        pid: peer.pid,
        uid: peer.uid,
        gid: peer.gid,
    })
}

/// No core file of this process from now on; on Linux its memory is closed to others of its user as well.
#[napi(catch_unwind)]
pub fn disable_core_dumps() -> Result<(), String> {
    process::disable_core_dumps().map_err(|error| system_error("disable core dumps", &error))
}

fn flag_of(cancellation: Option<&Cancellation>) -> Arc<AtomicBool> {
    cancellation.map_or_else(Arc::default, |cancellation| {
        Arc::clone(&cancellation.cancelled)
    })
}

fn system_error(action: &str, error: &io::Error) -> Error<String> {
    let code = match error.raw_os_error() {
        Some(libc::EBADF) => "EBADF",
        Some(libc::ENOTSOCK) => "ENOTSOCK",
        Some(libc::ENOTCONN) => "ENOTCONN",
        Some(libc::ENOTSUP) => "ENOTSUP",
        Some(libc::EPERM) => "EPERM",
        _ => "EUNKNOWN",
    };
    Error::new(code.into(), format!("Cannot {action}: {error}"))
}

impl TryFrom<KeyRequest> for key::KeyRequest {
    type Error = KeyError;

    fn try_from(request: KeyRequest) -> std::result::Result<Self, KeyError> {
        Self::parse(&request.key_type, request.identity, &request.format)
    }
}

impl From<key::GeneratedKey> for GeneratedKey {
    /// Hands the private key over as it lies: JavaScript owns these bytes now, and no copy stays behind.
    fn from(mut key: key::GeneratedKey) -> Self {
        Self {
            private_key_pem: std::mem::take(&mut *key.private_key_pem).into(),
            csr_der: key.csr_der.into(),
            public_key_der: key.public_key_der.into(),
        }
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        let status = match error {
            KeyError::Input(_) => Status::InvalidArg,
            KeyError::Cancelled => Status::Cancelled,
            KeyError::Library(_) | KeyError::Panicked => Status::GenericFailure,
        };
        Self::new(status, format!("Cannot generate a key: {error}"))
    }
}
