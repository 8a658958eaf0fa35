/** The parts of the page, in the order of their tabs. */
export const VIEWS = ['identities', 'streams', 'sockets', 'roots', 'ca', 'process'] as const
export type ViewName = (typeof VIEWS)[number]
