//! Private keys and certificate signing requests off Node's event loop, and what Node cannot ask the kernel.
//! `bridge` and the modules of that name are all that JavaScript sees; the rest knows nothing of them.
#![deny(clippy::all)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod abi;
mod background;
pub mod bridge;
pub mod certificate;
mod csr;
mod der;
mod fresh_random;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod hex;
pub mod key;
pub mod key_error;
pub mod process;
mod queued_job;
pub mod rsa;
pub mod vault;
mod work_queue;

/// Otherwise the first random number takes 23 ms, in which aws-lc times the CPU to seed its generator.
const _: () = assert!(
    option_env!("AWS_LC_SYS_NO_JITTER_ENTROPY").is_some(),
    "built without .cargo/config.toml: run cargo below the root of the repository"
);
