/** The part of the command line that asks a running agent: certs, streams, explain, renew, trust, log-level, diff, doctor. */
import { Option } from 'commander'
import type { CertsOptions } from './commands/certs.ts'
import type { GlobalOptions, Terminal } from './commands/terminal.ts'
import type { ConfigSources } from './config/layers.ts'
import type { DocumentedCommand } from './usage/documented-command.ts'

/** The dependencies of a command's action. */
interface CommandContext {
  readonly terminal: Terminal
  globals(): GlobalOptions
  sources(): ConfigSources
  finish(exitCode: number): void
}

/** The actions import lazily: the agent starts without them. */
export function addOperatorCommands(program: DocumentedCommand, context: CommandContext): void {
  addCerts(program, context)
  addStreams(program, context)
  addExplain(program, context)
  addRenew(program, context)
  addTrust(program, context)
  addLogLevel(program, context)
  addDiff(program, context)
  addDoctor(program, context)
}

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

function addCerts(program: DocumentedCommand, { terminal, globals, sources, finish }: CommandContext): void {
  program
    .command('certs')
    .description(
      'list the identities of the running agent and its secrets in files: state, serial, expiry, how long each lasts without the CA, next rotation, what fails',
    )
    .option('--failing', 'only those that fail, or that clients would refuse')
    .addOption(new Option('--sort <order>', 'the order of the rows').choices(['name', 'expiry']).default('name'))
    .option('--watch', 'show them again every few seconds, until Ctrl-C')
    .option('--text <name>', 'the certificate of one identity in full, as openssl x509 -text shows it')
    .withExamples([
      ['livery certs --failing', 'what is about to break, and why'],
      ['livery certs --sort expiry --watch', 'the next to end first, live'],
      [`livery certs --text ${WEB}`, 'every field of a certificate'],
      ['livery certs --json | jq -r ".[].identity"', 'for a script'],
    ])
    .allowExcessArguments()
    .action(async (options: CertsOptions, { args: [name] }: DocumentedCommand) => {
      const { showCertificates } = await import('./commands/certs.ts')
      finish(await showCertificates({ ...options, name }, sources(), globals(), terminal))
    })
}

function addStreams(program: DocumentedCommand, { terminal, globals, sources, finish }: CommandContext): void {
  program
    .command('streams')
    .argument('[name]', 'only the streams that have this name: a SPIFFE ID, spiffe://<trust domain>, default')
    .description('list who is connected to the sockets: caller, names, the version of each that was sent and accepted')
    .withExamples([
      ['livery streams', 'sockets, streams and callers'],
      [`livery streams ${WEB}`, 'who has a certificate, and which version'],
      ['livery streams spiffe://cluster.local', 'who has the roots, and which'],
    ])
    .action(async (name: string | undefined) => {
      const { showStreams } = await import('./commands/streams.ts')
      finish(await showStreams(name, sources(), globals(), terminal))
    })
}

function addExplain(program: DocumentedCommand, { terminal, globals, sources, finish }: CommandContext): void {
  program
    .command('explain')
    .argument(
      '<name>',
      'a name that clients ask for: a SPIFFE ID, spiffe://<trust domain>, ROOTCA, or the name of a file, Secret or token',
    )
    .description('explain what happened to a secret: asked, issued, pushed, accepted, failed')
    .withExamples([
      [`livery explain ${WEB}`, 'its events'],
      ['livery explain ROOTCA', 'the events of the roots'],
    ])
    .action(async (name: string) => {
      const { explainName } = await import('./commands/explain.ts')
      finish(await explainName(name, sources(), globals(), terminal))
    })
}

function addRenew(program: DocumentedCommand, context: CommandContext): void {
  program
    .command('renew')
    .argument('<name>', 'a SPIFFE ID')
    .description('renew the certificate of an identity now, whatever is planned for it')
    .withExamples([[`livery renew ${WEB}`, 'as root, over the UNIX socket of admin.address']])
    .action((name: string) => change(`/renew?name=${encodeURIComponent(name)}`, context))
}

/** The description of each command. */
const ROOT_ACTIONS = {
  hold: 'stop a root in its phase: no further certificate under it is served, and it is not removed',
  resume: 'let a held root continue, also past clients that reject it',
  drop: 'remove a root that no list has: its certificates are replaced at once, the overlap is left out, and answers do not bring it back',
} as const

function addTrust(program: DocumentedCommand, context: CommandContext): void {
  const { terminal, globals, sources, finish } = context
  const trust = program
    .command('trust')
    .description('root rotations of the running agent: their phases, and what an operator can do')
    .configureHelp({ showGlobalOptions: true })
    .withExamples([
      ['livery trust status', 'each root'],
      ['livery trust hold 1f2e3d4c', 'stop one in its phase'],
      ['livery trust resume 1f2e3d4c', 'let it continue'],
    ])
  trust
    .command('status', { isDefault: true })
    .description('show each root: its phase, who has not accepted it, the certificates under it, when it leaves')
    .action(async () => {
      const { showRotations } = await import('./commands/trust.ts')
      finish(await showRotations(sources(), globals(), terminal))
    })
  for (const [action, description] of Object.entries(ROOT_ACTIONS))
    trust
      .command(action)
      .argument('<fingerprint>', "the first digits of the root's fingerprint")
      .description(description)
      .action((root: string) => change(`/trust?action=${action}&root=${encodeURIComponent(root)}`, context))
}

function addLogLevel(program: DocumentedCommand, context: CommandContext): void {
  program
    .command('log-level')
    .argument('[levels]', 'a level for every scope (debug), for some (sds:debug,ca:trace), or both (info,sds:debug)')
    .description('show the log level of each scope of the running agent, or change it')
    .withExamples([
      ['livery log-level', 'each scope'],
      ['livery log-level sds:debug', 'more of the streams'],
      ['livery log-level info', 'as it was'],
    ])
    .action(async (levels: string | undefined) => {
      if (levels !== undefined) return await change(`/logging?level=${encodeURIComponent(levels)}`, context)
      const { showLogLevels } = await import('./commands/log-level.ts')
      const { terminal, globals, sources, finish } = context
      finish(await showLogLevels(sources(), globals(), terminal))
    })
}

async function change(path: string, { terminal, sources, finish }: CommandContext): Promise<void> {
  const { showChange } = await import('./commands/admin-client.ts')
  finish(await showChange(path, sources(), terminal))
}

function addDiff(program: DocumentedCommand, { terminal, globals, sources, finish }: CommandContext): void {
  program
    .command('diff')
    .requiredOption('--envoy-admin <url>', "Envoy's admin endpoint: http://host:port, or unix:/path")
    .description('compare the certificates and roots that an Envoy serves with those that the agent holds')
    .withExamples(
      [
        ['livery diff --envoy-admin http://127.0.0.1:15000', "a sidecar of Istio's"],
        ['livery diff --envoy-admin unix:/run/envoy/admin.sock --json', 'for a script'],
      ],
      '0 the same, 1 another version, or Envoy waits for one',
    )
    .action(async (options: { readonly envoyAdmin: string }) => {
      const { compareWithEnvoy } = await import('./commands/diff.ts')
      finish(await compareWithEnvoy(options, sources(), globals(), terminal))
    })
}

function addDoctor(program: DocumentedCommand, { terminal, globals, sources, finish }: CommandContext): void {
  program
    .command('doctor')
    .summary('look for what keeps the agent from serving, and say what to do')
    .description(
      'look for what keeps the agent from serving, and say what to do: sockets and their folders, the CA (it is asked for one certificate), the clock, tokens, roots, limits. Run it as the user of the agent, or as root.',
    )
    .withExamples(
      [
        ['livery doctor', 'all that is looked at'],
        ['livery doctor --config /etc/livery/livery.yaml', 'the agent of systemd'],
        ['livery doctor --json | jq ".[] | select(.state == \\"wrong\\")"', 'for a script'],
      ],
      '0 nothing is wrong, 1 something is, 78 wrong configuration',
    )
    .action(async () => {
      const { examine } = await import('./doctor/doctor.ts')
      finish(await examine(sources(), globals(), terminal))
    })
}
