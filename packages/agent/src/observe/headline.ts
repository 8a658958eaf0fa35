/** Formats a problem as one line for people: the doctor and the page use the same form. */
import { formatAge } from './format-age.ts'

/** `2 certificates are not renewed (denied): the first one ends in 7h00m`. */
export function headline({ what, ends, count }: { what: string; ends?: number; count: number }, now: number): string {
  if (ends === undefined) return what
  return `${what}: ${count === 1 ? 'its certificate' : 'the first certificate'} ends in ${formatAge(ends - now)}`
}
