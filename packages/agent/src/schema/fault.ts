/** The fault of a value, and its remedy: schemas, plugin processes and the file system use the same form. */

/** `is not a duration` and `Write a number with a unit`: the value precedes it, and it ends without a full stop. */
export class Fault {
  readonly reason: string
  /** Empty if the reason already contains it. */
  readonly remedy: string

  constructor(reason: string, remedy: string) {
    this.reason = reason
    this.remedy = remedy
  }
}

/** Splits a text from a plugin or a library: the sentences after the first are the remedy. */
export function faultFrom(text: string): Fault {
  const end = text.indexOf('. ')
  return end === -1 ? new Fault(text, '') : new Fault(text.slice(0, end), text.slice(end + 2).replace(/\.$/, ''))
}

/** `is not a duration. Write a number with a unit.` */
export function faultText({ reason, remedy }: Fault): string {
  if (remedy === '') return reason
  return `${reason}. ${remedy}${/[.?]$/.test(remedy) ? '' : '.'}`
}
