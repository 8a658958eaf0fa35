import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointProblem, grpcTarget, leavesMachine } from './workload-endpoint.ts'

const GOOD: readonly (readonly [text: string, target: string, leaves: boolean])[] = [
  ['unix:///run/spire/api.sock', 'unix:/run/spire/api.sock', false],
  ['unix:///a b', 'unix:/a b', false],
  ['tcp://127.0.0.1:8081', 'ipv4:127.0.0.1:8081', false],
  ['tcp://[::1]:8081', 'ipv6:[::1]:8081', false],
  ['tcp://10.0.0.7:1', 'ipv4:10.0.0.7:1', true],
  ['tcp://[fd00::7]:65535', 'ipv6:[fd00::7]:65535', true],
]
for (const [text, target, leaves] of GOOD)
  test(`${text} is an address`, () => {
    assert.equal(endpointProblem(text), undefined)
    assert.equal(grpcTarget(text), target)
    assert.equal(leavesMachine(text), leaves)
  })

const BAD: readonly (readonly [text: string, says: RegExp])[] = [
  ['/run/spire/api.sock', /^is a path\. Write unix:\/\/\/run\/spire\/api\.sock$/],
  ['', /begins neither/],
  ['http://127.0.0.1:80', /begins neither with unix:\/\/ nor with tcp/],
  ['unix:/run/api.sock', /no absolute path/],
  ['unix://run/api.sock', /no absolute path/],
  ['unix://', /no absolute path/],
  ['unix:///', /no absolute path/],
  ['unix:///run/', /no absolute path/],
  ['unix:///run/a?b', /without host, query and fragment/],
  ['unix:///run/a#b', /without host, query and fragment/],
  [`unix:///${'x'.repeat(107)}`, /108 bytes, and the kernel allows 107/],
  ['tcp://localhost:80', /no IP address and port/],
  ['tcp://127.0.0.1', /no IP address and port/],
  ['tcp://127.0.0.1:0', /no IP address and port/],
  ['tcp://127.0.0.1:65536', /no IP address and port/],
  ['tcp://127.0.0.1:80/path', /no IP address and port/],
  ['tcp://user@127.0.0.1:80', /no IP address and port/],
  ['tcp://127.0.0.256:80', /no IP address and port/],
  ['tcp://[::g]:80', /no IP address and port/],
]
for (const [text, says] of BAD)
  test(`refused: ${text.slice(0, 40)}`, () => {
    assert.match(endpointProblem(text) ?? '', says)
  })
