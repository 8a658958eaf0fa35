/** A refusal of the driver, with the status that CSI assigns to its reason. */
import type { status } from '@grpc/grpc-js'

export class CsiError extends Error {
  override readonly name = 'CsiError'
  readonly code: status

  constructor(code: status, message: string) {
    super(message)
    this.code = code
  }
}
