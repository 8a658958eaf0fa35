//! Keys for many requests on threads of their own: all or nothing, in the order of the requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::key::{GeneratedKey, KeyError, KeyRequest, generate};

type Numbered = (usize, GeneratedKey);

/// `work`, with a panic as an error. It must not leave behind anything half-changed.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, KeyError>) -> Result<T, KeyError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(KeyError::Panicked))
}

/// `generate`, unless `cancelled` is set when it would start. An RSA key stops on its way as well.
pub fn generate_unless(
    cancelled: &AtomicBool,
    request: &KeyRequest,
) -> Result<GeneratedKey, KeyError> {
    if cancelled.load(Ordering::Relaxed) {
        return Err(KeyError::Cancelled);
    }
    generate(request, cancelled)
}

/// One key a request, on at most as many threads as there are cores, this one included.
pub fn generate_batch(
    cancelled: &AtomicBool,
    requests: &[KeyRequest],
) -> Result<Vec<GeneratedKey>, KeyError> {
    let next = AtomicUsize::new(0);
    let work = || {
        guarded(|| take_turns(cancelled, requests, &next)).inspect_err(|_| {
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn requests(count: usize, key_type: &str) -> Vec<KeyRequest> {
        (0..count)
            .map(|number| {
                let identity = format!("spiffe://cluster.local/ns/load/sa/sa-{number}");
                KeyRequest::parse(key_type, identity, "pkcs8").expect("a valid request")
            })
            .collect()
    }

    #[test]
    fn keys_come_in_the_order_of_their_requests_and_are_all_different() {
        let keys = generate_batch(&AtomicBool::new(false), &requests(100, "ecdsa-p256"))
            .expect("a hundred keys");
        let different: HashSet<_> = keys.iter().map(|key| &key.public_key_der).collect();
        assert_eq!(different.len(), 100);
        for (number, key) in keys.iter().enumerate() {
            let identity = format!("spiffe://cluster.local/ns/load/sa/sa-{number}");
            let found = key
                .csr_der
                .windows(identity.len())
                .any(|window| window == identity.as_bytes());
            assert!(found, "the request of key {number} is for {identity}");
        }
    }

    #[test]
    fn no_requests_are_no_keys() {
        assert_eq!(
            generate_batch(&AtomicBool::new(false), &[]).map(|keys| keys.len()),
            Ok(0)
        );
    }

    #[test]
    fn a_cancelled_batch_makes_no_key() {
        let answer = generate_batch(&AtomicBool::new(true), &requests(3, "ecdsa-p256"));
        assert_eq!(answer.map(|keys| keys.len()), Err(KeyError::Cancelled));
    }

    #[test]
    fn a_panic_is_an_error() {
        let answer: Result<(), _> = guarded(|| panic!("on purpose"));
        assert_eq!(answer, Err(KeyError::Panicked));
    }

    #[test]
    fn a_batch_that_is_cancelled_on_its_way_stops() {
        let cancelled = AtomicBool::new(false);
        let next = AtomicUsize::new(0);
        let requests = requests(100_000, "ecdsa-p256");
        let answer = thread::scope(|scope| {
            let worker = scope.spawn(|| take_turns(&cancelled, &requests, &next));
            while next.load(Ordering::Relaxed) < 3 {
                thread::yield_now();
            }
            cancelled.store(true, Ordering::Relaxed);
            worker.join().expect("no panic")
        });
        assert_eq!(answer.map(|keys| keys.len()), Err(KeyError::Cancelled));
        assert!(next.into_inner() < requests.len());
    }
}
