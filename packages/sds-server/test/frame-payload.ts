/** What a client gets of a frame. */
import { ResponseFrame } from '../src/protocol/response-frame.ts'

/** The message without its prefix. */
export function payloadOf({ bytes }: ResponseFrame): Buffer {
  return bytes.subarray(ResponseFrame.start)
}
