//! Private keys and certificate signing requests off Node's event loop, and two things that Node cannot ask the
//! kernel. `bridge` is all that JavaScript sees; the rest knows nothing of it.
#![deny(clippy::all)]
#![deny(unsafe_op_in_unsafe_fn)]

mod batch;
pub mod bridge;
pub mod certificate;
mod csr;
mod der;
pub mod key;
mod process;
pub mod rsa;
