//! The addon's interface for keys, and for all that its threads do: plain data in, promises of plain data out, no defaults.
//! `src/job-queue.ts` and `src/native-key-generator.ts` are the other side.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::bindgen_prelude::{ArrayBuffer, Either, Object, Uint8ArraySlice};
use napi::{Env, Error, JsDeferred, Result, Status};
use napi_derive::napi;

use crate::certificate::bridge::{ChainQuestion, Facts};
use crate::key;
use crate::key_error::KeyError;
use crate::queued_job::{Output, QueuedJob, THREADS, Work};
use crate::rsa::Method;

#[napi(object, object_to_js = false)]
pub struct KeyRequest {
    /// One of core's `KEY_TYPES`.
    #[napi(js_name = "type")]
    pub key_type: String,
    pub identity: String,
    pub dns_names: Vec<String>,
    /// `pkcs8` or `traditional`.
    pub format: String,
}

#[napi(object, object_from_js = false)]
pub struct GeneratedKey<'env> {
    /// PEM, in separate memory: the receiver wipes it.
    pub private_key_pem: Uint8ArraySlice<'env>,
    pub csr_der: Uint8ArraySlice<'env>,
    pub public_key_der: Uint8ArraySlice<'env>,
}

type JsOutput = Either<GeneratedKey<'static>, Facts>;
type Resolver = Box<dyn FnOnce(Env) -> Result<Vec<JsOutput>>>;

/// The unfinished work of an environment, which ends with it.
#[derive(Default)]
struct Environment {
    jobs: Mutex<HashMap<i64, Arc<QueuedJob>>>,
    is_closed: AtomicBool,
}

impl Environment {
    fn jobs(&self) -> MutexGuard<'_, HashMap<i64, Arc<QueuedJob>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        if self.is_closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let jobs = mem::take(&mut *self.jobs());
        for job in jobs.values() {
            job.cancel();
        }
        THREADS.leave();
    }
}

/// The way to the addon's threads: one an environment. A promise that is not settled keeps the event loop alive.
#[napi]
pub struct JobQueue {
    environment: Arc<Environment>,
}

#[napi]
impl JobQueue {
    #[napi(constructor, catch_unwind)]
    pub fn new(env: &Env) -> Result<Self> {
        let environment = Arc::<Environment>::default();
        THREADS.enter();
        env.add_env_cleanup_hook(Arc::clone(&environment), |environment| environment.close())
            .inspect_err(|_| environment.close())?;
        Ok(Self { environment })
    }

    /// Drops all work of this environment, and waits for the threads if it is the last environment. The end of the
    /// environment does it as well, but Node exits without ending the main thread's.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.environment.close();
    }

    /// Makes keys, in the order of the requests. `rsa_keys` is one of `rsaMethods`, `job` a number that no unfinished job
    /// has. Rejects with the first problem, which ends the job, and throws with the code `InvalidArg`.
    #[napi(catch_unwind, ts_return_type = "Promise<Array<GeneratedKey>>")]
    pub fn generate_keys<'env>(
        &self,
        env: &'env Env,
        job: i64,
        requests: Vec<KeyRequest>,
        rsa_keys: String,
    ) -> Result<Object<'env>> {
        let method: Method = rsa_keys.parse()?;
        let parsed = requests.into_iter().map(|it| {
            let KeyRequest {
                key_type,
                identity,
                dns_names,
                format,
            } = it;
            key::KeyRequest::parse(&key_type, method, identity, dns_names, &format)
        });
        let requests: std::result::Result<_, KeyError> = parsed.collect();
        self.start(env, job, Work::Keys(requests?))
    }

    /// Reads chains, as `readChain` does. `job` and problems are as in `generateKeys`. `questions` is not read after
    /// this returns.
    #[napi(
        catch_unwind,
        ts_return_type = "Promise<Array<ChainFacts | UnreadableChain>>"
    )]
    pub fn read_chains<'env>(
        &self,
        env: &'env Env,
        job: i64,
        questions: Vec<ChainQuestion<'_>>,
    ) -> Result<Object<'env>> {
        let owned: Result<_> = questions.iter().map(ChainQuestion::owned).collect();
        self.start(env, job, Work::Chains(owned?))
    }

    /// Rejects a job that is not finished. What is queued of it is dropped, and the search for an RSA key stops within
    /// milliseconds.
    #[napi(catch_unwind)]
    pub fn cancel(&self, job: i64) {
        let found = self.environment.jobs().remove(&job);
        if let Some(job) = found {
            job.cancel();
        }
    }
}

impl JobQueue {
    fn start<'env>(&self, env: &'env Env, id: i64, work: Work) -> Result<Object<'env>> {
        let (deferred, promise): (JsDeferred<Vec<JsOutput>, Resolver>, _) =
            env.create_deferred()?;
        let environment = Arc::clone(&self.environment);
        let answer = move |outputs: std::result::Result<Vec<Output>, KeyError>| {
            environment.jobs().remove(&id);
            match outputs {
                Ok(outputs) => deferred.resolve(Box::new(move |env| {
                    outputs
                        .into_iter()
                        .map(|output| js_output(&env, output))
                        .collect()
                })),
                Err(error) => deferred.reject(error.into()),
            }
        };
        let job = QueuedJob::new(work, Box::new(answer));
        self.environment.jobs().insert(id, Arc::clone(&job));
        job.start();
        Ok(promise)
    }
}

fn js_output(env: &Env, output: Output) -> Result<JsOutput> {
    Ok(match output {
        Output::Key(key) => {
            let csr = key.csr_der.len();
            // One buffer for both, since V8 allocates each buffer and tracks it.
            let public = ArrayBuffer::copy_from(env, [key.csr_der, key.public_key_der].concat())?;
            Either::A(GeneratedKey {
                private_key_pem: Uint8ArraySlice::copy_from(env, &key.private_key_pem)?,
                csr_der: Uint8ArraySlice::from_arraybuffer(&public, 0, csr)?,
                public_key_der: Uint8ArraySlice::from_arraybuffer(
                    &public,
                    csr,
                    public.len() - csr,
                )?,
            })
        }
        Output::Facts(facts) => Either::B(facts),
    })
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
            _ => Status::GenericFailure,
        };
        Self::new(status, format!("Cannot generate a key: {error}"))
    }
}
