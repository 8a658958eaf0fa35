/** The module `page`: the page of the admin endpoint, in a browser. */
import type { MakeRoutes } from '../admin/routes.ts'
import type { Module } from '../life/module.ts'
import { pageRoutes } from './page-answers.ts'

export const page: Module<object, { readonly pageRoutes: MakeRoutes }> = { open: () => ({ pageRoutes }) }
