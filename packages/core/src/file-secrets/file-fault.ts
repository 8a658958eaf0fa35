/** Why a file, or a part of another secret that others write, cannot be used: its name, the reason, the remedy. Never its content, nor a cause that could quote it. */
import { CAError, type CAErrorCode } from '../contract/ca-client.ts'
import { UntrustedPathError } from '../files/trusted-path.ts'
import { errorText } from '../text/error-text.ts'
import { systemErrorCode } from '../text/system-error-code.ts'

export interface FileFaultParts {
  readonly file: string
  /** As in "it is not there". */
  readonly reason: string
  /** As in "Write it there". */
  readonly remedy: string
  /** Default: `bad-response`. */
  readonly code?: CAErrorCode
  /** Whether the files seem to be in the middle of a write. Default: `false`. */
  readonly mayPass?: boolean
  /** Whether its owner has removed the secret. Default: `false`. */
  readonly isGone?: boolean
}

export class FileFault extends CAError {
  readonly mayPass: boolean
  readonly isGone: boolean

  constructor({ file, reason, remedy, code = 'bad-response', mayPass = false, isGone = false }: FileFaultParts) {
    super(code, `Cannot use ${file}: ${reason}. ${remedy}.`, { local: true })
    this.mayPass = mayPass
    this.isGone = isGone
  }
}

const FIELDS = 'or correct the path that names it'

/** The fault behind a failed read of `file`. `mayPass`: whether a missing file may be on its way. */
export function readFault(file: string, error: unknown, mayPass: boolean): FileFault {
  if (error instanceof FileFault) return error
  const code = systemErrorCode(error)
  const fault = (reason: string, remedy: string) => new FileFault({ file, reason, remedy, code: 'unavailable' })
  if (error instanceof UntrustedPathError) {
    const reason = error.message.replace(/\.$/, '')
    return new FileFault({ file, reason, remedy: 'It is tried again', mayPass: true })
  }
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new FileFault({
        file,
        reason: 'it is not there',
        remedy: `Have it written there, ${FIELDS}`,
        code: 'unavailable',
        mayPass,
      })
    case 'EACCES':
    case 'EPERM':
      return fault('the agent may not read it', "Let the agent's user read it and pass through its folders")
    case 'ELOOP':
      return fault('its symbolic links lead in a circle', 'Replace the links')
    case undefined:
      // The file opened, but is not a regular file, too long, or growing.
      return new FileFault({
        file,
        reason: errorText(error),
        remedy: `Put a PEM file there, ${FIELDS}`,
        mayPass: true,
      })
    default:
      return fault(`reading failed with ${String(code)}`, 'Look at the volume that it is on')
  }
}
