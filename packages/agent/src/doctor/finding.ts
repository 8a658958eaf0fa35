/** One result of `livery doctor`. */

export interface Finding {
  /** The kind of thing that was looked at. */
  readonly check:
    | 'agent'
    | 'socket'
    | 'ca'
    | 'clock'
    | 'token'
    | 'roots'
    | 'folder'
    | 'disk'
    | 'addon'
    | 'open-files'
    | 'inotify'
  /** Only `wrong` makes the command fail. `skipped`: it could not be looked at, and the text says why. */
  readonly state: 'ok' | 'warning' | 'wrong' | 'skipped'
  /** The subject, such as a path. A finding never contains a token or a key. */
  readonly subject: string
  readonly text: string
  /** The remedy. */
  readonly remedy?: string
}

export type Check = Finding['check']

export function ok(check: Check, subject: string, text: string): Finding {
  return { check, state: 'ok', subject, text }
}

export function skipped(check: Check, subject: string, text: string): Finding {
  return { check, state: 'skipped', subject, text }
}

export function wrong(check: Check, subject: string, text: string, remedy: string): Finding {
  return { check, state: 'wrong', subject, text, remedy }
}

export function warning(check: Check, subject: string, text: string, remedy: string): Finding {
  return { check, state: 'warning', subject, text, remedy }
}
