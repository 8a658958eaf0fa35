//! Keys for many requests on threads of their own: all or nothing, in the order of the requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::key::{GeneratedKey, KeyError, KeyRequest, generate};

type Numbered = (usize, GeneratedKey);

/// `generate`, unless `cancelled` is set when it would start. A panic is an error.
pub fn generate_unless(
    cancelled: &AtomicBool,
    request: &KeyRequest,
) -> Result<GeneratedKey, KeyError> {
    if cancelled.load(Ordering::Relaxed) {
        return Err(KeyError::Cancelled);
    }
    // Nothing is shared with the closure but the request, which it cannot change.
    catch_unwind(AssertUnwindSafe(|| generate(request))).unwrap_or(Err(KeyError::Panicked))
}

/// One key a request, on at most as many threads as there are cores, this one included.
pub fn generate_batch(
    cancelled: &AtomicBool,
    requests: &[KeyRequest],
) -> Result<Vec<GeneratedKey>, KeyError> {
    let next = AtomicUsize::new(0);
    let work = || {
        take_turns(cancelled, requests, &next).inspect_err(|_| {
            // The batch has failed: the others need not go on.
            next.store(requests.len(), Ordering::Relaxed);
        })
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut numbered = thread::scope(|scope| {
        // A thread that the system refuses is one fewer; this one works in any case.
        let helpers: Vec<_> = (1..cores.min(requests.len()))
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mine = work();
        helpers
            .into_iter()
            .map(|helper| helper.join().unwrap_or(Err(KeyError::Panicked)))
            .fold(mine, |all, keys| {
                let mut all = all?;
                all.extend(keys?);
                Ok(all)
            })
    })?;
    numbered.sort_unstable_by_key(|(index, _)| *index);
    Ok(numbered.into_iter().map(|(_, key)| key).collect())
}

/// Takes the next request until none is left: RSA keys take unequal times, so fixed shares would leave cores idle.
fn take_turns(
    cancelled: &AtomicBool,
    requests: &[KeyRequest],
    next: &AtomicUsize,
) -> Result<Vec<Numbered>, KeyError> {
    let mut keys = Vec::new();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(request) = requests.get(index) else {
            return Ok(keys);
        };
        keys.push((index, generate_unless(cancelled, request)?));
    }
}
