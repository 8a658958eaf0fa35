/** Waiting that ends early when a signal is aborted. */

/** Settles as `promise` does, or rejects with the signal's reason as soon as it is aborted. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    const stopListening = () => signal.removeEventListener('abort', onAbort)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort)
    promise.then(
      value => {
        stopListening()
        resolve(value)
      },
      error => {
        stopListening()
        reject(error)
      },
    )
  })
}
