/** Time, as everything in Livery reads it: wall-clock deadlines that survive sleep, clock jumps and long waits. */

/** Milliseconds since the epoch, and tasks at a wall-clock time. Nothing else in Livery reads the time. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /**
   * Runs `task` once when `now()` has reached `time` (milliseconds since the epoch), soon if it already has, never
   * synchronously. Disposing it before that keeps it from running. `task` must not throw.
   */
  at(time: number, task: () => void): Disposable
}
