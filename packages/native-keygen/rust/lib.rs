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
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod key;
pub mod key_error;
mod key_job;
mod outbox;
mod pool;
pub mod process;
pub mod rsa;
pub mod vault;
mod work_queue;
