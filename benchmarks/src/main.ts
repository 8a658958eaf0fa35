/** `npm run bench`: every suite, a table on stdout, the same as JSON in results/. LIVERY_SLOW=1 adds RSA-3072, RSA-4096 and time. */
import { measureKeys } from './keys.ts'
import { describeMachine, type Figure, save, toTable } from './report.ts'
import { measureSds } from './sds.ts'
import { measureSecretManager } from './secret-manager.ts'

const slow = process.env['LIVERY_SLOW'] !== undefined
const machine = describeMachine(new Date())
const figures: Figure[] = []

async function suite(name: string, measure: () => Promise<Figure[]>): Promise<void> {
  process.stderr.write(`${name} …\n`)
  figures.push(...(await measure()))
}

await suite('keys', () =>
  measureKeys(
    slow ? ['ecdsa-p256', 'ecdsa-p384', 'rsa-2048', 'rsa-3072', 'rsa-4096'] : ['ecdsa-p256', 'rsa-2048'],
    slow ? 5_000 : 1_000,
  ))
await suite('SecretManager', () => measureSecretManager([1, 100, 1_000], slow ? 10 : 3))
await suite('SDS', () => measureSds([1, 100, 1_000], slow ? 50 : 10))
await save('latest.json', { machine, figures })
process.stdout.write(toTable(machine, figures))
