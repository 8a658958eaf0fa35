//! The number of the addon's interface: `src/addon.ts` refuses an addon with another one.

use napi_derive::napi;

/// Raised when an export is added, changed or removed.
#[napi]
pub const ABI: u32 = 9;
