/** The one note of a request, shared by CAs: each finds only what it has written itself. */
import type { RequestTicket } from '@livery/core/plugin'

/** As the CA with this name sees it. A later CA's note takes the place of an earlier one's. */
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
