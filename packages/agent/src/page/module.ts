/** The module `page`: the page of the admin endpoint, in a browser. */
import { pageRoutes } from './page-answers.ts'

export const page = { open: () => ({ pageRoutes }) }
