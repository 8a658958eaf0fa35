/** A run of the suite that would never end: the plugin waits without giving the event loop back. */
import { test } from 'node:test'
import { suite } from '../../src/conformance/suite.ts'
import { REFERENCE_CAPABILITIES, ReferenceClient } from '../reference-plugin.ts'

class BlockingClient extends ReferenceClient {
  protected override csr(): Promise<never> {
    while (true);
  }
}

suite({
  test,
  create: ({ ca, context }) => new BlockingClient(ca, context),
  capabilities: REFERENCE_CAPABILITIES,
  patienceMs: 2_000,
})
