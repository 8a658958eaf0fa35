/** The `google-ca` plugin: Google's Certificate Authority Service, and the Mesh CA that came before it. */
import { type CACapabilities, defineCAPlugin } from '@livery/core'
import { createGoogleCa } from './create-google-ca.ts'
import { checkConfig, googleCaOptions } from './plugin.ts'

/** What Certificate Authority Service can do: those of the plugin. */
export const casCapabilities: CACapabilities = {
  roots: 'poll',
  ttl: 'honoured',
  san: 'caller',
  keyTypes: ['rsa-2048', 'rsa-3072', 'rsa-4096', 'ecdsa-p256', 'ecdsa-p384'],
}
/** What Mesh CA can do. */
export const meshCaCapabilities: CACapabilities = { ...casCapabilities, roots: 'none' }

export const googleCa = defineCAPlugin({
  apiVersion: 1,
  name: 'google-ca',
  capabilities: casCapabilities,
  options: googleCaOptions,
  needs: ['tls', 'credentials'],
  check: checkConfig,
  create: (context, config) => createGoogleCa(context, config),
})
