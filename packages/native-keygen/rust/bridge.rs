//! The addon's interface for keys, and for all that its threads do: plain data in, plain data out, no defaults.
//! `src/job-queue.ts` and `src/native-key-generator.ts` are the other side.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::{Function, Uint8ArraySlice};
use napi::threadsafe_function::{
    ThreadsafeFunction, ThreadsafeFunctionCallMode, UnknownReturnValue,
};
use napi::{Env, Error, Result, Status};
use napi_derive::napi;

use crate::certificate::bridge::ChainQuestion;
use crate::key::{KeyRequest, KeyType, PrivateKeyFormat};
use crate::key_error::KeyError;
use crate::outbox::Outbox;
use crate::queued_job::{QueuedJob, THREADS, Work};
use crate::rsa::Method;

/// Calls a JavaScript function without arguments from any thread, and keeps the event loop alive only on request.
type Waker = ThreadsafeFunction<(), UnknownReturnValue, (), Status, false, true>;

/// The resources that an environment gives up when it ends.
struct Holdings {
    outbox: Arc<Outbox>,
    is_closed: AtomicBool,
}

impl Holdings {
    fn close(&self) {
        if self.is_closed.swap(true, Ordering::Relaxed) {
            return;
        }
        self.outbox.close();
        THREADS.leave();
    }
}

/// The way to the addon's threads, and back: one an environment.
#[napi]
pub struct JobQueue {
    holdings: Arc<Holdings>,
    waker: Arc<Mutex<Waker>>,
}

#[napi]
impl JobQueue {
    /// `wake` is called without arguments when answers have come: `drain` has to fetch them all before it is called again.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: &Env, wake: Function<'_, (), UnknownReturnValue>) -> Result<Self> {
        let waker = wake
            .build_threadsafe_function::<()>()
            .weak::<true>()
            .build()?;
        let waker = Arc::new(Mutex::new(waker));
        let caller = Arc::clone(&waker);
        let outbox = Arc::new(Outbox::new(Box::new(move || {
            let caller = caller.lock().unwrap_or_else(PoisonError::into_inner);
            caller.call((), ThreadsafeFunctionCallMode::NonBlocking);
        })));
        let holdings = Arc::new(Holdings {
            outbox,
            is_closed: AtomicBool::new(false),
        });
        THREADS.enter();
        env.add_env_cleanup_hook(Arc::clone(&holdings), |holdings| holdings.close())
            .inspect_err(|_| holdings.close())?;
        Ok(Self { holdings, waker })
    }

    /// Drops all work of this environment, and waits for the threads if it is the last environment. The end of the
    /// environment does it as well, but Node exits without ending the main thread's.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.holdings.close();
    }

    /// Makes keys for identities that are separated by line feeds. Each has a code: 1 for the traditional form, plus 2 times
    /// the type's index in core's `KEY_TYPES`, plus 16 times the method's index in `RSA_KEYS`. `job` is a number that no
    /// unfinished job has. Throws with the code `GenericFailure` if the system refuses a thread.
    #[napi(catch_unwind)]
    pub fn submit(&self, job: u32, codes: Uint8ArraySlice<'_>, identities: String) -> Result<()> {
        let requests = requests(&codes, &identities);
        self.start(job, Work::Keys(requests), codes.len())
    }

    /// Reads chains. `job` is as in `submit`. Nothing of `questions` is looked at after this returns. Throws with the code
    /// `InvalidArg`, or with `GenericFailure` if the system refuses a thread.
    #[napi(catch_unwind)]
    pub fn submit_chains(&self, job: u32, questions: Vec<ChainQuestion<'_>>) -> Result<()> {
        let pieces = questions.len();
        let owned: Result<_> = questions.iter().map(ChainQuestion::owned).collect();
        self.start(job, Work::Chains(owned?), pieces)
    }

    /// Drops what is queued of a job; the search for an RSA key stops within milliseconds. Nothing of it comes any more,
    /// but for what has come already.
    #[napi(catch_unwind)]
    pub fn cancel(&self, job: u32) {
        self.holdings.outbox.cancel(job);
    }

    /// Fills `page` (at least 128 KiB) with 32-bit words: the number of records; for each its job, the place of its request
    /// in it, its status (0 done, 1 wrong input, 2 failed) and the lengths in bytes of three parts, which follow, each padded to
    /// whole words: private key (PEM) or message, CSR, public key; or the record of a chain (see `readChain`) and nothing
    /// else. Each request of a job has one record, in any order. `true` if there is more to fetch.
    #[napi(catch_unwind)]
    pub fn drain(&self, mut page: Uint8ArraySlice<'_>) -> bool {
        // SAFETY: JavaScript does not run before this returns, so nobody else reads or writes these bytes.
        self.holdings.outbox.drain(unsafe { page.as_mut() })
    }

    /// Whether the event loop stays alive for what is to come.
    #[napi(catch_unwind)]
    pub fn keep_alive(&self, env: &Env, is_kept: bool) -> Result<()> {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        // Deprecated as a way to count references. There is no other way to change it later.
        #[allow(deprecated)]
        if is_kept {
            waker.refer(env)
        } else {
            waker.unref(env)
        }
    }
}

impl JobQueue {
    fn start(&self, job: u32, work: Work, pieces: usize) -> Result<()> {
        let cancelled = Arc::<AtomicBool>::default();
        self.holdings.outbox.expect(job, pieces, &cancelled);
        let queued = Arc::new(QueuedJob {
            id: job,
            work,
            outbox: Arc::clone(&self.holdings.outbox),
            cancelled,
        });
        THREADS.add(queued).map_err(|error| {
            self.holdings.outbox.cancel(job);
            Error::from_reason(format!("Cannot start a thread of the addon: {error}"))
        })
    }
}

fn requests(codes: &[u8], identities: &str) -> Vec<std::result::Result<KeyRequest, KeyError>> {
    let mut identities = identities.split('\n');
    let requests = codes.iter().map(|code| {
        let identity = identities.next().unwrap_or_default();
        request(*code, identity.into())
    });
    requests.collect()
}

fn request(code: u8, identity: String) -> std::result::Result<KeyRequest, KeyError> {
    let key_type = type_at(u32::from(code % 16 / 2))?;
    let rsa_method = method_at(u32::from(code / 16))?;
    let format = match code % 2 {
        0 => PrivateKeyFormat::Pkcs8,
        _ => PrivateKeyFormat::Traditional,
    };
    KeyRequest::new(key_type, rsa_method, identity, format)
}

fn type_at(place: u32) -> std::result::Result<KeyType, KeyError> {
    let key_type = KeyType::ALL.get(place as usize).copied();
    key_type.ok_or_else(|| KeyError::Input(format!("no key type has the number {place}")))
}

fn method_at(index: u32) -> std::result::Result<Method, KeyError> {
    let method = Method::ALL.get(index as usize).copied();
    method.ok_or_else(|| KeyError::Input(format!("no way to make RSA keys has the number {index}")))
}

/// The ways to make RSA keys that this CPU can run.
#[napi(catch_unwind)]
pub fn rsa_methods() -> Vec<&'static str> {
    let available = Method::ALL.into_iter().filter(|it| it.is_available());
    available.map(Method::name).collect()
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
