/** The faults of {@link FakeCA}, and the names by which a harness says what it cannot pass on. */
import { CA_ERROR_CODES, type SpiffeId } from '@livery/core/plugin'

/** The codes that a CA itself can refuse with; the others arise on the way. */
export const REFUSAL_CODES = CA_ERROR_CODES.filter(code => code !== 'timeout' && code !== 'bad-response')
export type RefusalCode = (typeof REFUSAL_CODES)[number]

/** How the CA treats a request. */
export type CAFault =
  /** It signs as it should. */
  | { readonly kind: 'none' }
  /** It answers after this time, by its clock. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** It answers when `release()` is called. */
  | { readonly kind: 'hang' }
  | { readonly kind: 'refuse'; readonly code: RefusalCode; readonly retryAfterMs?: number; readonly message?: string }
  /** Somebody has to approve it: `decide()`. For CAs that answer with a ticket. */
  | { readonly kind: 'pending' }
  | { readonly kind: 'wrong-san'; readonly identity: SpiffeId }
  /** Signed for the key of somebody else. */
  | { readonly kind: 'wrong-key' }
  /** Ended yesterday. */
  | { readonly kind: 'expired' }
  /** Begins tomorrow. */
  | { readonly kind: 'not-yet-valid' }
  /** Began an hour ago, and ends when it should. */
  | { readonly kind: 'backdated' }
  /** Intermediate first, leaf last. */
  | { readonly kind: 'reversed' }
  | { readonly kind: 'root-in-chain' }
  | { readonly kind: 'missing-intermediates' }
  | { readonly kind: 'empty-chain' }
  /** A page of HTML in place of an answer, as from a proxy. */
  | { readonly kind: 'garbage' }
  /** An answer that goes on and on. */
  | { readonly kind: 'endless' }
  /** Half of a good answer. */
  | { readonly kind: 'truncated' }
  /** The connection breaks. */
  | { readonly kind: 'reset' }

/** Refusals, faults, and other powers of the CA that groups of the kit need from a harness. */
export const CA_SWITCHES = [
  ...REFUSAL_CODES,
  'retry-after',
  'delay',
  'hang',
  'reset',
  'garbage',
  'endless',
  'truncated',
  'empty-chain',
  'wrong-san',
  'wrong-key',
  'expired',
  'not-yet-valid',
  'backdated',
  'reversed',
  'root-in-chain',
  'missing-intermediates',
  'root-signed',
  'clamp',
  'skew',
  'root-rotation',
  'token',
  'token-file',
  'load',
] as const
export type CASwitch = (typeof CA_SWITCHES)[number]
