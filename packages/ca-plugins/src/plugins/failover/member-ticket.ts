/** Shares the one note of a request among CAs: each finds only what it has written itself. */
import type { RequestTicket } from '@livery/core/plugin'

/** The ticket as the CA with this name sees it. A later CA's note replaces an earlier one's. */
export function memberTicket(member: string, ticket: RequestTicket): RequestTicket {
  const mark = `${member}\n`
  const own = (): string | undefined => (ticket.stored?.startsWith(mark) ? ticket.stored.slice(mark.length) : undefined)
  return {
    get stored() {
      return own()
    },
    store: async value => {
      if (value !== undefined) await ticket.store(mark + value)
      else if (own() !== undefined) await ticket.store(undefined)
    },
  }
}
