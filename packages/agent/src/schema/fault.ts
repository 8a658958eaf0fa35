/** The fault of a value, and its remedy: the same from a schema, a plugin's process and the file system. */

/** `is not a duration` and `Write a number with a unit`: the value precedes it, and it ends without a full stop. */
export class Fault {
  readonly reason: string
  /** Empty if there is none but that of the reason. */
  readonly remedy: string

  constructor(reason: string, remedy: string) {
    this.reason = reason
    this.remedy = remedy
  }
}

/** Of a text that a plugin or a library wrote: what follows the first sentence is the remedy. */
export function faultFrom(text: string): Fault {
  const end = text.indexOf('. ')
  return end === -1 ? new Fault(text, '') : new Fault(text.slice(0, end), text.slice(end + 2).replace(/\.$/, ''))
}

/** `is not a duration. Write a number with a unit.` */
export function faultText({ reason, remedy }: Fault): string {
  if (remedy === '') return reason
  return `${reason}. ${remedy}${/[.?]$/.test(remedy) ? '' : '.'}`
}
